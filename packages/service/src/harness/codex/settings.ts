import { join } from 'node:path';
import { readsProject, type Work } from '../harness.ts';

const tokenVariable = 'MUSTER_DOOR_TOKEN';

/** What Codex reads from its environment, on top of what every process of the agent has. */
export function codexEnvironment({ homeFolder, endpoint }: Work): Record<string, string> {
  return {
    HOME: homeFolder,
    CODEX_HOME: join(homeFolder, '.codex'),
    // Codex refuses to put its helpers below the folder for temporary files, which must not be above its home.
    TMPDIR: join(homeFolder, 'tmp'),
    [tokenVariable]: endpoint.token,
  };
}

/** On the command line rather than in a file: what is in the agent's home is the agent's to change. */
export function codexSettings({ claim, endpoint, workspaceFolder }: Work): string[] {
  return Object.entries({
    model_provider: 'muster',
    'model_providers.muster': {
      name: 'Muster',
      base_url: `${endpoint.url}/openai/v1`,
      wire_api: 'responses',
      env_key: tokenVariable,
      request_max_retries: 2,
      stream_max_retries: 2,
    },
    'mcp_servers.muster': {
      url: `${endpoint.url}/mcp`,
      bearer_token_env_var: tokenVariable,
      // A tool may wait for the agent's children.
      tool_timeout_sec: 3600,
    },
    // The whole of it is in our sandbox, and in there it is free. With `never` Codex itself would reject commands that
    // delete; so it asks, and is always allowed.
    approval_policy: 'on-request',
    sandbox_mode: 'danger-full-access',
    // A login shell would set PATH anew, over the one of the agent's environment.
    allow_login_shell: false,
    'shell_environment_policy.inherit': 'all',
    'shell_environment_policy.ignore_default_excludes': true,
    // The provider would look for it beyond the hosts that the agent's environment allows.
    web_search: 'disabled',
    check_for_update_on_startup: false,
    'analytics.enabled': false,
    'features.plugins': false,
    'features.apps': false,
    'features.goals': false,
    'features.unbounded_connection_retries': false,
    // Children are spawned with the tools of Muster, where they are seen.
    'agents.enabled': false,
    'features.multi_agent': false,
    'skills.bundled.enabled': false,
    projects: { [workspaceFolder]: { trust_level: readsProject(claim) ? 'trusted' : 'untrusted' } },
    ...(!readsProject(claim) && { project_doc_max_bytes: 0, 'skills.include_instructions': false }),
  }).flatMap(([key, value]) => ['-c', `${key}=${toml(value)}`]);
}

type Setting = string | number | boolean | { readonly [key: string]: Setting };

/** JSON's texts, numbers and truths are TOML's too; only its objects look different. */
function toml(value: Setting): string {
  if (typeof value !== 'object') return JSON.stringify(value);
  return `{${Object.entries(value)
    .map(([key, inner]) => `${JSON.stringify(key)}=${toml(inner)}`)
    .join(',')}}`;
}

import { join } from 'node:path';
import type { Claim } from '@muster/sdk/contract';
import { allowsTool, type McpServer, readsProject, type Work } from '../harness.ts';
import type { OutputFormat } from './output-format.ts';

const tiers: Readonly<Record<string, string | null>> = { standard: null, fast: 'priority', flex: 'flex' };

/** Null leaves the effort to the model, and selects the standard tier. */
export function turnSettings(claim: Claim, output: OutputFormat | undefined): object {
  const { model, reasoningEffort, serviceTier, fastMode } = claim;
  return {
    model,
    effort: reasoningEffort || null,
    serviceTier: serviceTier === '' && fastMode ? 'priority' : (tiers[serviceTier] ?? null),
    summary: 'auto',
    outputSchema: output?.strictSchema ?? null,
  };
}

const tokenVariable = 'MUSTER_RUN_TOKEN';

/** Added to the environment of every process of the agent. */
export function environmentOf({ homeFolder, endpoint, mcpServers }: Work): Record<string, string> {
  return {
    HOME: homeFolder,
    CODEX_HOME: join(homeFolder, '.codex'),
    // Codex refuses to store its helpers in the folder for temporary files, which must not contain its home.
    TMPDIR: join(homeFolder, 'tmp'),
    [tokenVariable]: endpoint.token,
    ...mcpServers.environment,
  };
}

/** On the command line rather than in a file, which the agent could change. */
export function settingsOf(work: Work): string[] {
  const { claim, endpoint, workspaceFolder, mcpServers } = work;
  const hasSubAgents = allowsTool(claim, 'sub_agents');
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
    ...Object.fromEntries(
      [{ name: 'muster', path: '/mcp' }, ...mcpServers.servers].map((server) => [
        `mcp_servers.${server.name}`,
        mcpServer(server, work),
      ]),
    ),
    // The runner's sandbox limits Codex. With `never` Codex would reject commands that delete files; so it asks for
    // approval, which it always gets.
    approval_policy: 'on-request',
    sandbox_mode: 'danger-full-access',
    // A login shell would replace the PATH of the agent's environment.
    allow_login_shell: false,
    'shell_environment_policy.inherit': 'all',
    'shell_environment_policy.ignore_default_excludes': true,
    // The provider would search outside the hosts that the agent's environment allows.
    web_search: allowsTool(claim, 'web_search') ? 'live' : 'disabled',
    // The agent's own plan, which Muster shows.
    'tools.update_plan.enabled': true,
    check_for_update_on_startup: false,
    'analytics.enabled': false,
    'features.plugins': false,
    'features.apps': false,
    'features.goals': false,
    'features.unbounded_connection_retries': false,
    // What Codex asks the user for becomes the agent's question. Without it the tool is offered and fails.
    'features.default_mode_request_user_input': true,
    suppress_unstable_features_warning: true,
    // Without it children are spawned with the tools of Muster, which shows them.
    'agents.enabled': hasSubAgents,
    'features.multi_agent': hasSubAgents,
    'skills.bundled.enabled': false,
    projects: { [workspaceFolder]: { trust_level: readsProject(claim) ? 'trusted' : 'untrusted' } },
    ...(!readsProject(claim) && { project_doc_max_bytes: 0, 'skills.include_instructions': false }),
  }).flatMap(([key, value]) => ['-c', `${key}=${toml(value)}`]);
}

/** A tool may take long: one of Muster waits for the agent's children. */
const toolSeconds = 3600;
/** A local server may have to be downloaded first. */
export const startSeconds = 30;

function mcpServer(server: McpServer, { endpoint, mcpServers }: Work): Setting {
  const times = { tool_timeout_sec: toolSeconds, startup_timeout_sec: startSeconds };
  if ('path' in server)
    return { url: `${endpoint.url}${server.path}`, bearer_token_env_var: tokenVariable, ...times };
  // Codex passes on no other variables.
  const names = [...new Set([...mcpServers.commonVariables, ...server.variables])];
  return { command: server.command, args: server.args, env_vars: names, ...times };
}

type Setting = string | number | boolean | readonly string[] | { readonly [key: string]: Setting };

/** TOML writes strings, numbers, booleans and lists as JSON does, but not objects. */
function toml(value: Setting): string {
  if (typeof value !== 'object' || Array.isArray(value)) return JSON.stringify(value);
  return `{${Object.entries(value)
    .map(([key, inner]) => `${JSON.stringify(key)}=${toml(inner)}`)
    .join(',')}}`;
}

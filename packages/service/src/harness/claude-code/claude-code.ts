import { randomUUID } from 'node:crypto';
import { dirname, join } from 'node:path';
import { arch, platform } from 'node:process';
import type { EffortLevel, McpServerConfig, Options } from '@anthropic-ai/claude-agent-sdk';
import type { ProviderModel } from '../../lib/models.ts';
import { exitAfterOutput, isExecutable, resolveFrom } from '../agent-process.ts';
import {
  accessOf,
  allowsTool,
  type FindModel,
  type Harness,
  type McpServer,
  modelOrThrow,
  readsProject,
  type Work,
} from '../harness.ts';
import { CommandOutput } from './command-output.ts';
import { ClaudeSession, type OutputAdapter, outputAdapter } from './session.ts';
import { Timeline } from './timeline.ts';

const sdk = '@anthropic-ai/claude-agent-sdk';

/**
 * The native program. The SDK is an optional package, and so is the one with the program for this platform: either may
 * be missing.
 */
export function findClaudeCode(): string | undefined {
  const sdkEntry = resolveFrom(import.meta.url, sdk);
  if (sdkEntry === undefined) return undefined;
  for (const libc of ['', '-musl']) {
    const manifest = resolveFrom(sdkEntry, `${sdk}-${platform}-${arch}${libc}/package.json`);
    const executable = manifest && join(dirname(manifest), 'claude');
    if (executable !== undefined && isExecutable(executable)) return executable;
  }
  return undefined;
}

/** For its side tasks. */
export const defaultHelperModel = 'haiku';

/** Claude Code, driven by its SDK: one process per run, which receives one message at a time. */
export function claudeCodeHarness(
  executable: string,
  helperModel: string,
  find: FindModel = atAnthropic,
): Harness {
  // Loaded at the start: loading blocks this process, which later has leases to renew.
  const loading = import('@anthropic-ai/claude-agent-sdk');
  loading.catch(() => {});
  const found: FindModel = (model) => {
    const one = find(model);
    return typeof one === 'string' ? one : { ...one, name: aliases[one.name] ?? one.name };
  };
  /** The run's own model, where the run's provider has no helper of this name: clouds have only those of the table. */
  const helperOf = (used: ProviderModel): ProviderModel => {
    const helper = found(helperModel);
    if (typeof helper === 'string' || helper.provider !== used.provider) return used;
    return used.provider === 'anthropic' || helper.isOwn ? helper : used;
  };
  return {
    sessionFiles: (session) => [`.claude/projects/*/${session}.jsonl`, `.claude/projects/*/${session}`],
    providerOf: (claim) => {
      const used = modelOrThrow(found(claim.model));
      const access = accessOf(claim, found, helperOf(used));
      const names = Object.entries(access.pricedAs ?? {}).map(([name, model]) => [
        withoutSuffix(name),
        model,
      ]);
      return {
        ...access,
        models: access.models.map(withoutSuffix),
        ...(access.pricedAs && { pricedAs: Object.fromEntries(names) }),
      };
    },
    open: async (work, listener) => {
      const { query } = await loading;
      work.signal.throwIfAborted();
      const used = modelOrThrow(found(work.claim.model));
      const session = work.resumes ? work.claim.session : randomUUID();
      listener.action('Starting Claude Code');
      listener.session(session);
      const commands = new CommandOutput(work, listener, session);
      const output = outputAdapter(work.claim.outputSchema);
      const options = {
        ...optionsOf(work, output, used, helperOf(used), await projectFolders(work)),
        ...(work.resumes ? { resume: session } : { sessionId: session }),
        pathToClaudeCodeExecutable: executable,
      };
      return new ClaudeSession({
        query: (prompt, spawnClaudeCodeProcess) =>
          query({ prompt, options: { ...options, spawnClaudeCodeProcess } }),
        work,
        executable,
        timeline: new Timeline(listener, work.workspaceFolder, commands, work.mcpServers.servers),
        commands,
        output,
      });
    },
  };
}

/** What Claude Code's aliases mean; a test compares them with the installed version. */
const aliases: Readonly<Record<string, string>> = {
  opus: 'claude-opus-5-5',
  sonnet: 'claude-sonnet-5-5',
  haiku: 'claude-haiku-5-5',
};

const atAnthropic: FindModel = (name) => ({ provider: 'anthropic', name });

/** The model in requests to the provider: there the suffix for a longer context is a header. */
const withoutSuffix = (name: string): string => name.replace(/\[1m\]$/, '');

function optionsOf(
  work: Work,
  output: OutputAdapter | undefined,
  used: ProviderModel,
  helper: ProviderModel,
  folders: readonly string[],
): Options {
  const { claim, endpoint, mcpServers } = work;
  const hasProject = readsProject(claim);
  const has = (...names: string[]) => names.some((name) => folders.includes(name));
  return {
    cwd: work.workspaceFolder,
    env: environmentOf(work, used, helper),
    model: used.name,
    includePartialMessages: true,
    ...(claim.reasoningEffort ? { effort: claim.reasoningEffort as EffortLevel } : {}),
    settings: {
      fastMode: claim.fastMode,
      cleanupPeriodDays: 36_500,
      ...(hasProject && { enableAllProjectMcpServers: true }),
      // It would ask a host outside the sandbox. The gateway decides which hosts are allowed.
      skipWebFetchPreflight: true,
    },
    permissionMode: 'bypassPermissions',
    allowDangerouslySkipPermissions: true,
    // Without `snapshot: false` a resumed session keeps the instructions of its first run.
    systemPrompt: { type: 'preset', preset: 'claude_code', append: work.instructions, snapshot: false },
    settingSources: hasProject ? ['project'] : [],
    tools: [
      ...['Bash', 'Read', 'Write', 'Edit', 'NotebookEdit', 'Glob', 'Grep', 'TodoWrite'],
      ...(has('skills', 'commands') ? ['Skill'] : []),
      // Without it only the subagents that the repository defines: others would be invisible outside the session.
      ...(has('agents') || allowsTool(claim, 'sub_agents') ? ['Agent'] : []),
      ...(allowsTool(claim, 'web_search') ? ['WebSearch'] : []),
      ...(allowsTool(claim, 'web_fetch') ? ['WebFetch'] : []),
    ],
    skills: hasProject ? 'all' : [],
    strictMcpConfig: !hasProject,
    mcpServers: Object.fromEntries(
      [{ name: 'muster', path: '/mcp' }, ...mcpServers.servers].map((server) => [
        server.name,
        mcpServer(server, endpoint.url),
      ]),
    ),
    // A message is never a command of the harness, whatever it begins with.
    verbatimPrompts: true,
    ...(output ? { outputFormat: output.format } : {}),
  };
}

/** Its tools are always loaded: the tool that would search them is off. */
function mcpServer(server: McpServer, url: string): McpServerConfig {
  if ('command' in server)
    return { type: 'stdio', command: server.command, args: [...server.args], alwaysLoad: true };
  return {
    type: 'http',
    url: `${url}${server.path}`,
    // The name of the variable: this text becomes an argument of the process, which others can read.
    headers: { Authorization: `Bearer $\{${tokenVariable}}` },
    alwaysLoad: true,
  };
}

const foldersScript =
  'cd .claude && for name in skills commands agents; do [ ! -d "$name" ] || echo "$name"; done';

/** The folders of the repository's settings for agents. The agent owns its workspace, so a process of the agent looks. */
async function projectFolders({ claim, processes, signal }: Work): Promise<readonly string[]> {
  if (!readsProject(claim)) return [];
  const started = processes.start(['/bin/sh', '-c', foldersScript], { gateway: 'never' });
  const kill = (): void => void started.kill();
  signal.addEventListener('abort', kill, { once: true });
  if (signal.aborted) kill();
  let names = '';
  started.child.stdin.end();
  started.child.stderr.resume();
  started.child.stdout.setEncoding('utf8').on('data', (text: string) => {
    names = `${names}${text}`.slice(0, 100);
  });
  await exitAfterOutput(started).finally(() => signal.removeEventListener('abort', kill));
  signal.throwIfAborted();
  return names.split('\n');
}

/** The token once more: Claude Code does not expand its own variables in the configuration of tools. */
const tokenVariable = 'MUSTER_RUN_TOKEN';

/** Added to the environment of every process of the agent. */
function environmentOf(
  { claim, homeFolder, endpoint, mcpServers }: Work,
  used: ProviderModel,
  helper: ProviderModel,
): Record<string, string> {
  const temporary = join(homeFolder, 'tmp');
  return {
    HOME: homeFolder,
    CLAUDE_CONFIG_DIR: join(homeFolder, '.claude'),
    // By default its sockets and temporary files are in folders that all agents of a machine share.
    TMPDIR: temporary,
    CLAUDE_CODE_TMPDIR: temporary,
    XDG_RUNTIME_DIR: join(homeFolder, 'run'),
    ...protocolVariables(used, endpoint.url),
    ANTHROPIC_AUTH_TOKEN: endpoint.token,
    [tokenVariable]: endpoint.token,
    // For its background requests. The gateway allows only this model and those of the agent's settings.
    ANTHROPIC_DEFAULT_HAIKU_MODEL: helper.name,
    // A sub-agent may ask for another model, which the gateway would refuse.
    ...(allowsTool(claim, 'sub_agents') && {
      CLAUDE_CODE_SUBAGENT_MODEL: used.name,
      CLAUDE_CODE_SUBAGENT_MODEL_FORCE: '1',
    }),
    // By default it replaces old models in the settings with newer ones.
    CLAUDE_CODE_DISABLE_LEGACY_MODEL_REMAP: '1',
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
    CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS: '1',
    // Pieces of a text are joined for this time: one of each token would keep the runner busy.
    CLAUDE_CODE_STREAM_EVENT_HOLD_MS: '50',
    // With the default of ten, a wrong key fails only after minutes.
    CLAUDE_CODE_MAX_RETRIES: '4',
    // Only the session moves to another runner with the agent.
    CLAUDE_CODE_DISABLE_AUTO_MEMORY: '1',
    // It keeps its todo list with one tool, TodoWrite, which always names the whole list.
    CLAUDE_CODE_ENABLE_TASKS: '0',
    // Background commands would end with the run. Long commands may take their time in the foreground instead.
    CLAUDE_CODE_DISABLE_BACKGROUND_TASKS: '1',
    BASH_MAX_TIMEOUT_MS: String(60 * 60 * 1000),
    // By default it starts without a server that takes longer than 5 s.
    ...(mcpServers.servers.length > 0 && { MCP_CONNECT_TIMEOUT_MS: '30000' }),
    ...mcpServers.environment,
    // As root it refuses to run without permission prompts unless it is in a sandbox.
    IS_SANDBOX: '1',
  };
}

/**
 * Claude Code speaks the protocol of the cloud, because each has other features. The gateway signs: region and project
 * are its own, whatever is named here.
 */
function protocolVariables({ provider }: ProviderModel, url: string): Record<string, string> {
  if (provider === 'bedrock')
    return {
      CLAUDE_CODE_USE_BEDROCK: '1',
      CLAUDE_CODE_SKIP_BEDROCK_AUTH: '1',
      ANTHROPIC_BEDROCK_BASE_URL: `${url}/bedrock`,
    };
  if (provider === 'vertex')
    return {
      CLAUDE_CODE_USE_VERTEX: '1',
      CLAUDE_CODE_SKIP_VERTEX_AUTH: '1',
      ANTHROPIC_VERTEX_BASE_URL: `${url}/vertex`,
      ANTHROPIC_VERTEX_PROJECT_ID: 'muster',
      CLOUD_ML_REGION: 'global',
    };
  return { ANTHROPIC_BASE_URL: `${url}/anthropic` };
}

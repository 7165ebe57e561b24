import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Options, query, type SDKUserMessage } from '@anthropic-ai/claude-agent-sdk';
import { findClaudeCode } from '../../packages/service/src/harness/claude-code/claude-code.ts';
import {
  AppServer,
  type Delta,
  type Notification,
} from '../../packages/service/src/harness/codex/app-server.ts';
import { findCodex } from '../../packages/service/src/harness/codex/codex.ts';
import type { AgentProcess, ProcessExit } from '../../packages/service/src/harness/harness.ts';
import { ValueMask } from '../../packages/service/src/lib/value-mask.ts';
import type { ProviderStub } from '../provider/stub.ts';

/**
 * The harnesses without Muster: no service, no gateway, no sandbox, and a process per turn that resumes the session.
 * Model, prompt, tools and settings are the same as with Muster, including an MCP server and a clone of the same
 * repository with its instructions for agents.
 */
export interface BareHarness {
  /** A turn of the one session, from the start of the process to its end. */
  turn(text: string): Promise<void>;
}

export interface Place {
  readonly stub: ProviderStub;
  readonly model: string;
  readonly workspaceFolder: string;
  readonly homeFolder: string;
  /** Where its MCP server is. */
  readonly toolsUrl: string;
}

/** As long as Muster's prompt. */
const instructions = 'You work in turns, in a clone of your own. '.repeat(40);

export function bareClaudeCode({ stub, model, workspaceFolder, homeFolder, toolsUrl }: Place): BareHarness {
  const executable = findClaudeCode();
  if (executable === undefined) throw new Error('Claude Code is not installed: npm install');
  const temporary = join(homeFolder, 'tmp');
  mkdirSync(temporary, { recursive: true });
  const session = randomUUID();
  let turns = 0;
  const options: Options = {
    cwd: workspaceFolder,
    model,
    pathToClaudeCodeExecutable: executable,
    settings: { fastMode: false, cleanupPeriodDays: 36_500, enableAllProjectMcpServers: true },
    permissionMode: 'bypassPermissions',
    allowDangerouslySkipPermissions: true,
    systemPrompt: { type: 'preset', preset: 'claude_code', append: instructions, snapshot: false },
    settingSources: ['project'],
    tools: ['Bash', 'Read', 'Write', 'Edit', 'NotebookEdit', 'Glob', 'Grep', 'Skill', 'Agent'],
    skills: 'all',
    mcpServers: { bench: { type: 'http', url: toolsUrl, alwaysLoad: true } },
    verbatimPrompts: true,
    env: {
      PATH: process.env.PATH,
      LANG: 'C.UTF-8',
      HOME: homeFolder,
      CLAUDE_CONFIG_DIR: join(homeFolder, '.claude'),
      TMPDIR: temporary,
      CLAUDE_CODE_TMPDIR: temporary,
      XDG_RUNTIME_DIR: temporary,
      ANTHROPIC_BASE_URL: stub.anthropicUrl,
      ANTHROPIC_AUTH_TOKEN: 'bench',
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
      CLAUDE_CODE_DISABLE_AUTO_MEMORY: '1',
      CLAUDE_CODE_DISABLE_BACKGROUND_TASKS: '1',
      IS_SANDBOX: '1',
    },
  };
  return {
    async turn(text) {
      turns += 1;
      const which = turns === 1 ? { sessionId: session } : { resume: session };
      for await (const message of query({ prompt: said(text), options: { ...options, ...which } })) {
        if (message.type === 'result' && message.is_error) throw new Error('the bare Claude Code failed');
      }
    },
  };
}

async function* said(text: string): AsyncGenerator<SDKUserMessage, void> {
  yield { type: 'user', message: { role: 'user', content: text }, parent_tool_use_id: null };
}

export function bareCodex({ stub, model, workspaceFolder, homeFolder, toolsUrl }: Place): BareHarness {
  const executable = findCodex();
  if (executable === undefined) throw new Error('Codex is not installed: npm install');
  const temporary = join(homeFolder, 'tmp');
  const codexHome = join(homeFolder, '.codex');
  for (const folder of [temporary, codexHome]) mkdirSync(folder, { recursive: true });
  writeFileSync(join(codexHome, 'config.toml'), codexConfig(stub.openaiUrl, toolsUrl, workspaceFolder));
  let thread: string | undefined;
  return {
    async turn(text) {
      const env = {
        PATH: process.env.PATH,
        LANG: 'C.UTF-8',
        HOME: homeFolder,
        CODEX_HOME: codexHome,
        TMPDIR: temporary,
        BENCH_TOKEN: 'bench',
      };
      const child = spawn(executable, ['app-server'], { cwd: workspaceFolder, env });
      const exited = once(child, 'exit').then(([exitCode, signal]): ProcessExit => ({ exitCode, signal }));
      const kill = async (): Promise<void> => {
        child.kill('SIGKILL');
        await exited;
      };
      const program: AgentProcess = {
        child,
        exited,
        gatewayReady: Promise.resolve(),
        end: () => child.kill(),
        kill,
      };
      let rest: (error: unknown) => void = () => {};
      const rested = new Promise<unknown>((resolve) => {
        rest = resolve;
      });
      const onNotification = ({ method, params }: Notification | Delta) => {
        if (method === 'turn/completed') rest(params.turn.error ?? undefined);
      };
      const server = new AppServer(program, onNotification, new ValueMask().stream());
      await server.request('initialize', {
        clientInfo: { name: 'bench', title: 'Bench', version: '1' },
        capabilities: { experimentalApi: true, requestAttestation: false },
      });
      server.notify('initialized');
      const params = { cwd: workspaceFolder, model, developerInstructions: instructions };
      if (thread === undefined) thread = threadIdIn(await server.request('thread/start', params));
      else await server.request('thread/resume', { ...params, threadId: thread, excludeTurns: true });
      await server.request('turn/start', {
        threadId: thread,
        input: [{ type: 'text', text, text_elements: [] }],
        model,
        effort: null,
        serviceTier: null,
        summary: 'auto',
        outputSchema: null,
      });
      const error = await Promise.race([rested, server.ended]);
      if (error !== undefined) throw new Error(`the bare Codex failed: ${JSON.stringify(error)}`);
      child.stdin.end();
      await exited;
    },
  };
}

const codexConfig = (url: string, toolsUrl: string, workspaceFolder: string): string => `
model_provider = "bench"
approval_policy = "on-request"
sandbox_mode = "danger-full-access"
allow_login_shell = false
web_search = "disabled"
check_for_update_on_startup = false
[analytics]
enabled = false
[features]
plugins = false
apps = false
goals = false
multi_agent = false
[agents]
enabled = false
[skills.bundled]
enabled = false
[model_providers.bench]
name = "Bench"
base_url = "${url}"
wire_api = "responses"
env_key = "BENCH_TOKEN"
[mcp_servers.bench]
url = "${toolsUrl}"
[projects."${workspaceFolder}"]
trust_level = "trusted"
`;

const threadIdIn = (reply: unknown): string => (reply as { thread: { id: string } }).thread.id;

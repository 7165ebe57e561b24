import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { findClaudeCode } from '../../packages/service/src/harness/claude-code/claude-code.ts';
import { findCodex } from '../../packages/service/src/harness/codex/codex.ts';
import { type ProviderStub, startProviderStub } from '../provider/stub.ts';
import { Agents } from '../support/agents.ts';
import { apiOf } from '../support/api.ts';
import { type SharedServer, sharedServer } from '../support/shared-server.ts';

/** A coding agent on a user's machine, with Muster as an MCP server. */
interface HarnessClient {
  readonly isInstalled: boolean;
  /** Runs one turn from a shell, and returns the last message. */
  prompt(text: string, surroundings: Surroundings): Promise<string>;
}

interface Surroundings {
  readonly stub: ProviderStub;
  readonly server: SharedServer;
  /** An empty folder for the client alone. */
  readonly folder: string;
}

const claude = findClaudeCode() ?? '';
const claudeCodeClient: HarnessClient = {
  isInstalled: claude !== '',
  prompt(text, { stub, server, folder }) {
    const config = join(folder, 'mcp.json');
    const headers = { Authorization: `Bearer ${server.key}` };
    const muster = { type: 'http', url: `${server.url}/mcp`, headers };
    writeFileSync(config, JSON.stringify({ mcpServers: { muster } }));
    return run(
      [
        claude,
        ...['--print', text],
        ...['--model', 'claude-opus-4-8'],
        ...['--mcp-config', config, '--strict-mcp-config'],
        ...['--allowedTools', 'mcp__muster'],
      ],
      folder,
      {
        CLAUDE_CONFIG_DIR: join(folder, '.claude'),
        ANTHROPIC_BASE_URL: stub.anthropicUrl,
        ANTHROPIC_AUTH_TOKEN: 'not checked',
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
      },
    );
  },
};

const codex = findCodex() ?? '';
const codexClient: HarnessClient = {
  isInstalled: codex !== '',
  async prompt(text, { stub, server, folder }) {
    const home = join(folder, '.codex');
    mkdirSync(home);
    writeFileSync(join(home, 'config.toml'), codexConfig(stub, server));
    return run([codex, 'exec', '--skip-git-repo-check', ...['--model', 'gpt-5.4'], text], folder, {
      CODEX_HOME: home,
      PROVIDER_KEY: 'not checked',
      MUSTER_API_KEY: server.key,
    });
  },
};

const codexConfig = (stub: ProviderStub, server: SharedServer): string => `
model_provider = "stub"
check_for_update_on_startup = false
web_search = "disabled"
[analytics]
enabled = false
[features]
plugins = false
apps = false
[model_providers.stub]
name = "Stub"
base_url = "${stub.openaiUrl}"
wire_api = "responses"
env_key = "PROVIDER_KEY"
[mcp_servers.muster]
url = "${server.url}/mcp"
bearer_token_env_var = "MUSTER_API_KEY"
`;

async function run(
  [command = '', ...args]: readonly string[],
  folder: string,
  environment: Readonly<Record<string, string>>,
): Promise<string> {
  const temporary = join(folder, 'tmp');
  mkdirSync(temporary);
  const child = spawn(command, args, {
    cwd: folder,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { PATH: process.env.PATH, LANG: 'C.UTF-8', HOME: folder, TMPDIR: temporary, ...environment },
  });
  let output = '';
  let errors = '';
  child.stdout.on('data', (chunk: Buffer) => {
    output += chunk.toString();
  });
  child.stderr.on('data', (chunk: Buffer) => {
    errors += chunk.toString();
  });
  const [exitCode] = await once(child, 'close');
  if (exitCode !== 0) throw new Error(`${command} ended with ${exitCode}: ${output}${errors}`);
  return output;
}

/** The real Claude Code and Codex as MCP clients of a user, who manages rehearsal agents with them. */
let stub: ProviderStub;
let server: SharedServer;
let agents: Agents;
let folder: string;

beforeAll(async () => {
  stub = await startProviderStub();
  server = await sharedServer();
  agents = new Agents(apiOf(server), 'default');
});
afterAll(async () => {
  await server?.close();
  await stub?.close();
});
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'muster-client-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));

const clients = [
  ['claude', claudeCodeClient],
  ['codex', codexClient],
] as const;

describe.each(clients)('%s', (name, client) => {
  test.skipIf(!client.isInstalled)(
    'spawns an agent, waits for it, answers it and reads its result',
    async () => {
      const agent = `${name}-helper`;
      const wait = { tool: 'wait_for_agents', args: { agents: [agent], timeoutSeconds: 40 } };
      const marker = stub.script([
        { tool: 'spawn_agent', args: { agent, description: 'Paint it.\n!ask Red or blue?' } },
        wait,
        { tool: 'send_message', args: { agent, text: '!say Painted blue.\n!finish' } },
        wait,
        { tool: 'agent_status', args: { agent } },
        { say: 'It is painted.' },
      ]);
      expect(await client.prompt(`Have it painted. ${marker}`, { stub, server, folder })).toContain(
        'It is painted.',
      );
      expect(await agents.status(agent)).toMatchObject({
        phase: 'PHASE_COMPLETED',
        phaseReason: 'FINISHED',
        response: 'Painted blue.',
      });
      // Claude Code shows its model the text of a result, Codex the data.
      const conversation = JSON.stringify(stub.requestsOf(marker).at(-1)?.body);
      for (const answer of [
        /is spawned|phase\W+PHASE_PENDING/,
        /(Question: |question\W+)Red or blue\?/,
        /will get your message|deliverAt\W+null/,
        /COMPLETED \(FINISHED\)|reason\W+FINISHED/,
        /(Response: |response\W+)Painted blue\./,
      ])
        expect(conversation).toMatch(answer);
    },
  );
});

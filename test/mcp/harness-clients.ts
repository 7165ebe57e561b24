import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { findClaudeCode } from '../../packages/service/src/harness/claude-code/claude-code.ts';
import { findCodex } from '../../packages/service/src/harness/codex/codex.ts';
import type { ProviderStub } from '../provider/stub.ts';
import type { SharedServer } from '../support/shared-server.ts';

/** A coding agent on somebody's own machine, that has Muster among its MCP servers. */
export interface HarnessClient {
  readonly title: string;
  readonly isInstalled: boolean;
  /** One turn as a person has it from a shell: a prompt in, the last words out. */
  prompt(text: string, place: Place): Promise<string>;
}

export interface Place {
  readonly stub: ProviderStub;
  readonly server: SharedServer;
  /** Empty, and the client's alone. */
  readonly folder: string;
}

const claude = findClaudeCode()?.executable ?? '';
export const claudeCodeClient: HarnessClient = {
  title: 'Claude Code',
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

const codex = findCodex()?.executable ?? '';
export const codexClient: HarnessClient = {
  title: 'Codex',
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
  let said = '';
  let complaints = '';
  child.stdout.on('data', (chunk: Buffer) => {
    said += chunk.toString();
  });
  child.stderr.on('data', (chunk: Buffer) => {
    complaints += chunk.toString();
  });
  const [exitCode] = await once(child, 'close');
  if (exitCode !== 0) throw new Error(`${command} ended with ${exitCode}: ${said}${complaints}`);
  return said;
}

import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';

/** A Model Context Protocol server over standard input and output, with one tool, as a file of a repository. */
const mcpServer = `
import { createInterface } from 'node:readline';
const reply = (id, result) => console.log(JSON.stringify({ jsonrpc: '2.0', id, result }));
createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params } = JSON.parse(line);
  if (method === 'initialize')
    reply(id, { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'demo', version: '1' } });
  else if (method === 'tools/list')
    reply(id, { tools: [{ name: 'measure', description: 'Measures.', inputSchema: { type: 'object' } }] });
  else if (method === 'tools/call') reply(id, { content: [{ type: 'text', text: 'canary-mcp' }] });
  else if (id !== undefined) reply(id, {});
});`;

/** What the repository of a team may hold for Claude Code; each text is to be seen by the model. */
export const claudeProject = {
  'CLAUDE.md': 'Memory: canary-memory.\n@docs/rules.md\n',
  'docs/rules.md': 'Imported: canary-import.\n',
  '.claude/settings.json': JSON.stringify({
    env: { TEAM_NAME: 'canary-environment' },
    hooks: {
      UserPromptSubmit: [{ hooks: [{ type: 'command', command: 'echo "canary-hook $TEAM_NAME"' }] }],
    },
  }),
  '.claude/skills/weigh/SKILL.md': '---\nname: weigh\ndescription: canary-skill\n---\nWeigh it.\n',
  '.claude/commands/polish.md': '---\ndescription: canary-command\n---\nPolish it.\n',
  '.claude/agents/critic.md': '---\nname: critic\ndescription: canary-agent\n---\nCriticise.\n',
  '.mcp.json': JSON.stringify({ mcpServers: { team: { command: 'node', args: ['tools/mcp.mjs'] } } }),
  'tools/mcp.mjs': mcpServer,
} as const;

export const claudeCanaries = [
  'canary-memory',
  'canary-import',
  'canary-environment',
  'canary-hook',
  'canary-skill',
  'canary-command',
  'canary-agent',
  'canary-mcp',
] as const;

/** The same for Codex. */
export const codexProject = {
  'AGENTS.md': 'Memory: canary-memory.\n',
  '.agents/skills/weigh/SKILL.md': '---\nname: weigh\ndescription: canary-skill\n---\nWeigh it.\n',
  '.codex/config.toml': '[mcp_servers.team]\ncommand = "node"\nargs = ["tools/mcp.mjs"]\n',
  'tools/mcp.mjs': mcpServer,
} as const;

export const codexCanaries = ['canary-memory', 'canary-skill', 'canary-mcp'] as const;

/** Calls the tool of the repository's own server. */
export const projectTool = { tool: 'measure', args: {}, server: 'team' } as const;

/** Which of the canaries were on the wire. */
export const seenIn = (
  requests: readonly { readonly body: unknown }[],
  canaries: readonly string[],
): string[] => {
  const sent = JSON.stringify(requests.map(({ body }) => body));
  return canaries.filter((canary) => sent.includes(canary));
};

export async function writeFiles(folder: string, files: Readonly<Record<string, string>>): Promise<void> {
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(folder, path)), { recursive: true });
    await writeFile(join(folder, path), text);
  }
}

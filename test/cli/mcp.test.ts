import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import type { CallToolResult } from '@modelcontextprotocol/sdk/types.js';
import { expect, test } from 'vitest';
import { program } from '../support/server.ts';
import { userOfSharedServer } from './cli.ts';

const ada = userOfSharedServer();

async function connected(env: Readonly<Record<string, string>>): Promise<Client> {
  const client = new Client({ name: 'test', version: '1' });
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: [program, 'mcp'],
    env: { PATH: process.env.PATH ?? '', HOME: ada.home, ...env },
    stderr: 'ignore',
  });
  await client.connect(transport);
  return client;
}

test('the official MCP client spawns an agent through it, and reads a transcript', async () => {
  const client = await connected({ MUSTER_URL: ada.server.url, MUSTER_API_KEY: ada.server.key });
  const names = (await client.listTools()).tools.map(({ name }) => name);
  expect(names).toEqual(expect.arrayContaining(['spawn_agent', 'wait_for_agents', 'kill_agent']));
  const use = async (name: string, args: Record<string, unknown>): Promise<string> => {
    const result = (await client.callTool({ name, arguments: args })) as CallToolResult;
    return result.content.map((part) => (part.type === 'text' ? part.text : '')).join('');
  };
  await use('spawn_agent', { agent: 'helper', description: '!say From afar.' });
  expect(await use('wait_for_agents', { agents: ['helper'] })).toContain('From afar.');
  expect(await ada.prints(['logs', 'helper'])).toContain('From afar.');
  const [resource] = (await client.listResources()).resources;
  const { contents } = await client.readResource({ uri: resource?.uri ?? '' });
  expect(JSON.stringify(contents)).toContain('From afar.');
  await client.close();
});

test('an unknown API key is reported to the client', async () => {
  await expect(connected({ MUSTER_URL: ada.server.url, MUSTER_API_KEY: 'mst_no.body' })).rejects.toThrow();
});

test('requests from a pipe are answered, and the command ends with its input', async () => {
  const ask = { jsonrpc: '2.0', id: 1, method: 'initialize' };
  const params = { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 't', version: '1' } };
  const { code, out } = await ada.runProcess(['mcp'], { input: `${JSON.stringify({ ...ask, params })}\n` });
  expect(code).toBe(0);
  expect(JSON.parse(out)).toMatchObject({ id: 1, result: { serverInfo: {} } });
});

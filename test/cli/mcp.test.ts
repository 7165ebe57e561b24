import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import type { CallToolResult } from '@modelcontextprotocol/sdk/types.js';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { program } from '../support/server.ts';
import { type SharedServer, sharedServer } from '../support/shared-server.ts';
import { Person } from './cli.ts';

/** `muster mcp`, started as an editor or a chat client starts it. */
let server: SharedServer;
let ada: Person;

beforeAll(async () => {
  server = await sharedServer();
  ada = new Person(server);
});
afterAll(async () => {
  ada?.leave();
  await server?.close();
});

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

test('the official client runs a fleet through it, and reads a transcript', async () => {
  const client = await connected({ MUSTER_URL: server.url, MUSTER_API_KEY: server.key });
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

test('a key that the service does not take is told to the client', async () => {
  await expect(connected({ MUSTER_URL: server.url, MUSTER_API_KEY: 'mst_no.body' })).rejects.toThrow();
});

test('questions that are piped in are answered, and it ends with its input', async () => {
  const ask = { jsonrpc: '2.0', id: 1, method: 'initialize' };
  const params = { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 't', version: '1' } };
  const { code, out } = await ada.muster(['mcp'], { input: `${JSON.stringify({ ...ask, params })}\n` });
  expect(code).toBe(0);
  expect(JSON.parse(out)).toMatchObject({ id: 1, result: { serverInfo: {} } });
});

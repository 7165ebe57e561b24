import { execFileSync } from 'node:child_process';
import { limits } from '@muster/sdk/contract';
import { describe, expect, it } from 'vitest';
import { TenantRights } from '../tenant-allow.ts';
import { mcpServersOf } from './mcp-servers.ts';

const tenant = { provider: 'PROVIDER_CODEHOST_APP', org: 'acme' } as const;
const secret = (name: string, value: string) => ({ name, value, problem: '' });
const resolve = (
  servers: unknown,
  { isFirst = true, secrets = [secret('key', 'Bearer abcdefgh')], allow = new Map() } = {},
) =>
  mcpServersOf(servers, {
    runner: { TEAM: 'team-seven', MUSTER_SECRET: 'x' },
    rights: new TenantRights(allow, tenant, isFirst),
    secrets,
  });

const remote = (headers: Record<string, unknown>) => ({
  a: { url: 'http://mcp.internal:8080/mcp?x=y', headers },
});

describe('the MCP servers of a run', () => {
  it('have their values: headers for the gateway only, variables for the harness only', () => {
    const {
      remote: reached,
      servers,
      environment,
      headerValues,
      secretValues,
    } = resolve({
      ...remote({ Authorization: { fromSecret: 'key' }, 'X-Team': { fromRunner: 'TEAM' }, 'X-Plain': 'p' }),
      b: { command: 'run', env: { KEY: { fromSecret: 'key' }, PLAIN: 'p' } },
    });
    expect(reached).toEqual([
      {
        name: 'a',
        url: new URL('http://mcp.internal:8080/mcp?x=y'),
        headers: { Authorization: 'Bearer abcdefgh', 'X-Team': 'team-seven', 'X-Plain': 'p' },
        mayBeInner: true,
      },
    ]);
    expect(headerValues).toEqual(['Bearer abcdefgh', 'Bearer', 'abcdefgh', 'team-seven', 'team-seven']);
    expect(secretValues).toEqual([...headerValues, 'Bearer abcdefgh']);
    expect(JSON.stringify(servers)).not.toMatch(/abcdefgh|team-seven/);
    expect(environment).toMatchObject({ MUSTER_MCP_1_KEY: 'Bearer abcdefgh', MUSTER_MCP_1_PLAIN: 'p' });
  });

  it('are started with exactly their arguments and variables', () => {
    const args = [`it's`, '"$HOME" `id` \\', '', '-n', `$\{HOME}`, 'two\nlines'];
    const value = `'; echo no; '\n$HOME`;
    const { servers, environment } = resolve(
      {
        a: { command: 'printf', args: ['%s|', ...args] },
        b: { command: 'printenv', args: ['KEY'], env: { KEY: { fromSecret: 'key' } } },
      },
      { secrets: [secret('key', value)] },
    );
    const outputs = servers.map((server) =>
      'command' in server
        ? execFileSync(server.command, server.args, {
            env: { PATH: process.env.PATH, ...environment },
          }).toString()
        : '',
    );
    expect(outputs).toEqual([args.map((arg) => `${arg}|`).join(''), `${value}\n`]);
  });

  it('are refused if a value is missing, not allowed or not usable', () => {
    const problemOf = (servers: unknown, options = {}) => {
      try {
        return JSON.stringify(resolve(servers, options));
      } catch (error) {
        return (error as Error).message;
      }
    };
    const fromKey = remote({ 'X-A': { fromSecret: 'key' } });
    expect(problemOf(fromKey, { secrets: [] })).toMatch(
      /^mcpServers.a.headers.X-A: the service sent no secret "key"/,
    );
    const missing = { name: 'key', value: '', problem: 'secret "key" not found' };
    expect(problemOf(fromKey, { secrets: [missing] })).toBe(
      'mcpServers.a.headers.X-A: secret "key" not found',
    );
    for (const value of ['two\nlines', 'x'.repeat(limits.mcpTextLength + 1)]) {
      const problem = problemOf(fromKey, { secrets: [secret('key', value)] });
      expect(problem).toMatch(/^mcpServers.a.headers.X-A: must /);
      expect(problem).not.toContain(value);
    }
    expect(problemOf(remote({ 'X-A': { fromRunner: 'MUSTER_SECRET' } }))).toContain('belongs to the runner');
    const fromRunner = { a: { command: 'x', env: { A: { fromRunner: 'TEAM' } } } };
    expect(problemOf(fromRunner, { isFirst: false })).toMatch(
      /^mcpServers.a.env.A: this tenant may not use the runner's variable TEAM; .*MUSTER_TENANT_ALLOW=/,
    );
    const env = Object.fromEntries(Array.from({ length: 5 }, (_, i) => [`A${i}`, { fromSecret: 'key' }]));
    expect(problemOf({ a: { command: 'x', env } }, { secrets: [secret('key', 'x'.repeat(60_000))] })).toMatch(
      /^mcpServers: .* at most 262144 bytes together; got 300\d\d\d$/,
    );
    expect(problemOf({ muster: { command: 'x' } })).toMatch(/^mcpServers.muster: must have another name/);
    expect(problemOf('anything')).toMatch(/^mcpServers: must be an object/);
  });

  it('may be in an internal network for the first tenant, and for others if the operator lists them', () => {
    const innerOf = (options: Parameters<typeof resolve>[1]) =>
      resolve(remote({}), options).remote[0]?.mayBeInner;
    expect(innerOf({ isFirst: true })).toBe(true);
    expect(innerOf({ isFirst: false })).toContain(
      `MUSTER_TENANT_ALLOW='{"codehost_app/acme":{"mcpServers":["http://mcp.internal:8080/mcp"]}}'`,
    );
    const allowed = { fromRunner: [], repos: ['**'], mcpServers: ['http://mcp.internal:8080/*'] };
    expect(innerOf({ isFirst: false, allow: new Map([['codehost_app/acme', allowed]]) })).toBe(true);
    const others = { ...allowed, mcpServers: ['http://mcp.internal/*'] };
    expect(innerOf({ isFirst: false, allow: new Map([['codehost_app/acme', others]]) })).not.toBe(true);
  });
});

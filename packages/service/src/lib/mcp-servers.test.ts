import { limits } from '@muster/sdk/contract';
import { describe, expect, it } from 'vitest';
import { mcpServersProblem } from './mcp-servers.ts';

const url = 'https://mcp.example.com/mcp';
const problemOf = (servers: unknown): string => {
  const problem = mcpServersProblem(servers);
  return problem ? `${problem.field} ${problem.description}` : '';
};

describe('mcpServers of a workspace', () => {
  it('may be remote or local, with values from secrets and from the runner', () => {
    expect(
      problemOf({
        tracker: { url: 'http://mcp.internal:8080/mcp?team=7' },
        'Error-log2': { url, headers: { Authorization: { fromSecret: 'a' }, 'X-Team': 'ä', 'x-b': '' } },
        local_one: { command: './server', args: ['', '--x'], env: { A: 'b', _C: { fromRunner: 'D' } } },
      }),
    ).toBe('');
    expect(problemOf({})).toBe('');
  });

  const long = 'x'.repeat(limits.mcpTextLength + 1);
  const named = (name: string) => ({ [name]: { url } });
  it.each([
    [['a'], 'mcpServers must be an object; got an array'],
    [{ a: 'x' }, 'mcpServers.a must be an object; got a string'],
    [
      Object.fromEntries(Array.from({ length: 21 }, (_, i) => [`s${i}`, { url }])),
      'mcpServers must have at most 20 fields; got 21',
    ],
    [{ a: {} }, 'mcpServers.a must have either url or command; got neither'],
    [{ a: { url, command: 'x' } }, 'mcpServers.a must have either url or command; got both'],
    [{ a: { url, env: {} } }, 'mcpServers.a.env must be absent without command'],
    [{ a: { command: 'x', headers: {} } }, 'mcpServers.a.headers must be absent without url'],
    [
      { a: { url, type: 'sse' } },
      'mcpServers.a must have only the fields url, headers, command, args, env; got "type"',
    ],
    [{ a: { command: '' } }, 'mcpServers.a.command must not be empty'],
    [{ a: { command: 'x', args: [1] } }, 'mcpServers.a.args[0] must be a string; got a number'],
    [
      { a: { command: 'x', args: Array(3).fill('x'.repeat(8000)) } },
      'mcpServers.a.args must have at most 16384 characters together with command; got 24001',
    ],
    [named('muster'), 'mcpServers.muster must have another name: Muster uses this one itself'],
    [named('Muster'), 'mcpServers.Muster must have another name: Muster uses this one itself'],
    [
      named('computer-use'),
      'mcpServers.computer-use must have another name: Claude Code uses this one itself',
    ],
    [
      { 'a-b': { url }, A_b: { url } },
      'mcpServers.A_b must have a name that differs from a-b in more than case, - and _',
    ],
    ...['', 'a__b', '-a', 'a b', 'a.b', 'ä', 'x'.repeat(33)].map((name) => [
      named(name),
      `mcpServers must have names of 1 to 32 characters of A-Z a-z 0-9, with single - or _ between them; got "${name}"`,
    ]),
    ...['ftp://x/', 'mcp.example.com', '', 'file:///etc/passwd', 'http://'].map((bad) => [
      { a: { url: bad } },
      'mcpServers.a.url must be an address that begins with https:// or http://',
    ]),
    [
      { a: { url: 'https://me:secret@x/' } },
      'mcpServers.a.url must not have a user name or password; write them to a header from a secret',
    ],
    [{ a: { url: `${url}#x` } }, 'mcpServers.a.url must not have a fragment (#…)'],
    [
      { a: { url, headers: { 'a b': 'x' } } },
      'mcpServers.a.headers must have names of headers, such as Authorization; got "a b"',
    ],
    ...['Host', 'content-length', 'Transfer-Encoding', 'Mcp-Session-Id', 'accept'].map((name) => [
      { a: { url, headers: { [name]: 'x' } } },
      `mcpServers.a.headers.${name} must be absent: the agent's client sets this header itself`,
    ]),
    [
      { a: { url, headers: { 'X-A': '1', 'x-a': '2' } } },
      'mcpServers.a.headers.x-a must be written once, in one case',
    ],
    ...['a\nb', 'a\r\nX-B: c', '\u0000', '😀'].map((value) => [
      { a: { url, headers: { 'X-A': value } } },
      'mcpServers.a.headers.X-A must be one line of Latin characters, without line breaks and control characters',
    ]),
    [
      { a: { url, headers: { 'X-A': long } } },
      'mcpServers.a.headers.X-A must have at most 8192 characters; got 8193',
    ],
    [
      { a: { url, headers: { 'X-A': 7 } } },
      'mcpServers.a.headers.X-A must be a string, {"fromSecret": "NAME"} to take it from a secret, or {"fromRunner": "NAME"} to take it from the runner',
    ],
    [
      { a: { url, headers: { 'X-A': { fromSecret: 'a', fromRunner: 'b' } } } },
      'mcpServers.a.headers.X-A must be a string, {"fromSecret": "NAME"} to take it from a secret, or {"fromRunner": "NAME"} to take it from the runner',
    ],
    [
      { a: { command: 'x', env: { '1A': 'x' } } },
      'mcpServers.a.env must have names of letters, digits and _ that do not start with a digit; got "1A"',
    ],
    [
      { a: { command: 'x', env: { A: long } } },
      'mcpServers.a.env.A must have at most 8192 characters; got 8193',
    ],
  ] as [unknown, string][])('%j is refused', (servers, problem) => {
    expect(problemOf(servers)).toBe(problem);
  });
});

import { beforeAll, describe, expect, test } from 'vitest';
import type { Api } from '../support/api.ts';
import { createKey } from '../support/catalog.ts';
import { newTestTenant, type TestTenant } from '../support/test-tenant.ts';
import { McpFixture, type ToolUser } from './client.ts';

/** The transcripts of agents, as MCP resources and from a tool. */
const mcp = McpFixture.use();
let admin: Api;
let t: TestTenant;
let tools: ToolUser;
beforeAll(async () => {
  ({ admin, tenant: t } = mcp);
  tools = await mcp.toolsOf(admin);
});

describe('transcripts', () => {
  async function talked(): Promise<string> {
    const path = mcp.newName();
    await t.spawn(path, { description: 'fix the login' });
    const claim = await t.start(path);
    await t.report(claim, {
      items: [
        { type: 'THINKING', text: 'Where is it?' },
        { type: 'TOOL_CALL', text: 'grep -r login', data: { tool: 'shell' } },
        { type: 'TOOL_RESULT', text: '```\n# not a heading\n```', data: { tool: 'shell' } },
        { type: 'MESSAGE', text: 'Found it.' },
      ],
    });
    await t.end(claim, 'COMPLETED', { question: 'Shall I fix it?' });
    return path;
  }

  test('are Markdown, as a resource and from a tool', async () => {
    const path = await talked();
    const { text, mimeType } = await tools.read(`muster://agents/${t.workspace}/${path}/transcript`);
    expect(mimeType).toBe('text/markdown');
    expect(text).toMatch(new RegExp(`^# ${t.workspace}:${path}\n\nWAITING_FOR_INPUT \\(QUESTION\\) since `));
    const order = [
      '> fix the login',
      '> Where is it?',
      '```\ngrep -r login\n```',
      '> Found it.',
      '> Shall I fix it?',
    ];
    const places = order.map((part) => text.indexOf(part));
    expect(places).toEqual(places.toSorted((a, b) => a - b));
    expect(places).not.toContain(-1);
    expect(text).toContain('**Tool call** shell · ');
    expect(text, 'a longer fence around what has fences').toContain('````\n```\n# not a heading\n```\n````');
    expect(await tools.use('read_transcript', { agent: path, workspace: t.workspace })).toBe(text);
  });

  test('show the newest entries, or older ones before a number', async () => {
    const path = await talked();
    const newest = await tools.use('read_transcript', { agent: path, entries: 4 });
    expect(newest).toContain('Shall I fix it?');
    expect(newest).not.toContain('fix the login');
    const [, before = ''] = /Entries before (\d+) are not shown/.exec(newest) ?? [];
    const older = await tools.use('read_transcript', { agent: path, before });
    expect(older).toContain('fix the login');
    expect(older).not.toContain('Shall I fix it?');
  });

  test('are limited in size', async () => {
    const path = mcp.newName();
    await t.spawn(path);
    const claim = await t.start(path);
    for (let batch = 0; batch < 4; batch += 1)
      await t.report(claim, {
        items: Array.from({ length: 20 }, () => ({ type: 'MESSAGE', text: 'x'.repeat(6000) })),
      });
    const { text } = await tools.read(`muster://agents/${t.workspace}/${path}/transcript`);
    expect(text.length).toBeLessThan(110_000);
    expect(text).toMatch(/are not shown/);
    expect(text).toContain('… (truncated: 6000 characters in total)');
  });

  test('are listed for the live agents of the caller, including children', async () => {
    const tenant = await newTestTenant(admin);
    const user = await mcp.toolsOf((await createKey(admin, { role: 'member', account: 'carol' })).api);
    expect(await user.resources()).toEqual([]);
    for (const agent of ['root', 'root/kid', 'root/kid/grandkid', 'dead'])
      await user.use('spawn_agent', { agent: `${tenant.workspace}:${agent}`, description: 'work' });
    await user.use('kill_agent', { agent: 'dead' });
    const resources = await user.resources();
    const uriOf = (path: string) => `muster://agents/${tenant.workspace}/${path}/transcript`;
    expect(resources.map(({ uri }) => uri)).toEqual(['root', 'root/kid', 'root/kid/grandkid'].map(uriOf));
    for (const { uri, name } of resources) expect((await user.read(uri)).text).toContain(`# ${name}`);
    expect(await user.resourceTemplates()).toEqual([
      'muster://agents/{workspace}/{+path}/transcript{?account}',
    ]);
    expect((await tools.read(`${uriOf('root')}?account=carol`)).text).toContain(`# ${tenant.workspace}:root`);
    await expect(tools.read(uriOf('root'))).rejects.toThrow(/NOT_FOUND/);
  });

  test('refuse a URI that names no agent', async () => {
    for (const uri of [
      'muster://agents',
      'muster://agents/w/transcript',
      'file:///etc/passwd',
      'muster://agents/w/a',
    ])
      await expect(tools.read(uri), uri).rejects.toThrow(/INVALID_ARGUMENT: uri/);
    await expect(tools.read('muster://agents/w/a%20b/transcript')).rejects.toThrow(/INVALID_ARGUMENT/);
  });

  test('are not available to a run', async () => {
    const path = mcp.newName();
    await t.spawn(path);
    const claim = await t.start(path);
    const own = await mcp.toolsOf(admin.as(claim.token));
    await expect(own.resources()).rejects.toThrow();
  });
});

import { beforeAll, expect, test } from 'vitest';
import { createKey } from '../support/catalog.ts';
import { McpFixture, type ToolUser } from './client.ts';

/** What agents used, as a chat client asks for it. */
const mcp = McpFixture.use();
let tools: ToolUser;
beforeAll(async () => {
  tools = await mcp.toolsOf((await createKey(mcp.admin, { role: 'viewer' })).api);
});

test('what agents used is added up as the arguments say, page by page', async () => {
  const { tenant: t } = mcp;
  const only = { filter: { workspace: t.workspace } };
  expect(await tools.use('usage', only)).toBe('Nothing was used in this time.');
  for (const [name, costUsd] of [
    ['cheap', 0.25],
    ['dear', 1.5],
  ] as const) {
    await t.spawn(name);
    const claim = await t.start(name);
    await t.spend(claim, costUsd);
    await t.end(claim);
  }
  expect(await tools.use('usage', only)).toMatch(
    /^- \S+: \$1\.75, 2000 input tokens \(0 cached\), 0 output tokens, 2 runs of 2 agents$/,
  );
  const byAgent = { ...only, interval: 'month', groupBy: ['agent'], limit: 1 };
  const first = await tools.call('usage', byAgent);
  expect(first.text).toMatch(/ agent=cheap: \$0\.25,.*\nThere are more: pageToken \S+$/);
  const { nextPageToken } = first.data as { nextPageToken: string };
  const second = await tools.data('usage', { ...byAgent, pageToken: nextPageToken });
  expect(second).toMatchObject({ rows: [{ keys: { agent: 'dear' }, costUsd: 1.5 }], nextPageToken: '' });
});

test('an argument that is not valid is refused with what is accepted', async () => {
  expect(await tools.refused('usage', { groupBy: ['weather'] })).toContain('workspace, account');
});

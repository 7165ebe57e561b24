import type { Claim } from '@muster/sdk/contract';
import { beforeAll, expect, test } from 'vitest';
import { newTestTenant, type TestTenant } from '../support/test-tenant.ts';
import { userOfSharedServer } from './cli.ts';

const ada = userOfSharedServer({ runner: false });
const said = 1_100;
let t: TestTenant;
let claim: Claim;

beforeAll(async () => {
  t = await newTestTenant(ada.api);
  await t.spawn('long', { description: 'Begin <b>here</b>' });
  claim = await t.start('long');
  const items = Array.from({ length: said }, (_, at) => ({ type: 'MESSAGE', text: `Word ${at}`, data: {} }));
  for (let at = 0; at < said; at += 500) await t.report(claim, { items: items.slice(at, at + 500) });
  await t.spawn('long/kid', { description: 'From the child' });
});

test('--text finds entries by a text in upper or lower case, also of delivered messages', async () => {
  const lines = async (...args: string[]) => (await ada.prints(['logs', 'long', ...args])).trim().split('\n');
  expect(await lines('--text', 'WORD 1099')).toEqual([expect.stringMatching(/Word 1099$/)]);
  expect(await lines('--text', 'word 109')).toHaveLength(11);
  expect(await lines('--text', 'word 109', '-n', '2')).toEqual([
    expect.stringMatching(/Word 1098$/),
    expect.stringMatching(/Word 1099$/),
  ]);
  expect(await ada.prints(['logs', 'long', '--text', 'w.rd'])).toBe('');
  await t.queue('long', { description: 'Also sweep' });
  await t.end(claim);
  await t.turn('long');
  expect((await lines('--text', 'also SWEEP')).at(-1)).toMatch(/> Also sweep$/);
  expect(await ada.muster(['logs', 'long', '--text', ''])).toMatchObject({ code: 2, out: '' });
});

test('--format prints the whole transcript as a document, with children if asked', async () => {
  const json = JSON.parse(await ada.prints(['logs', 'long', '--format', 'json']));
  expect(json.agents).toHaveLength(1);
  expect(json.agents[0].entries).toEqual(await t.timeline('long'));
  const all = JSON.parse(await ada.prints(['logs', 'long', '--format', 'json', '--children']));
  expect(
    all.agents.map((each: { status: { agentId: { agent: string[] } } }) => each.status.agentId.agent),
  ).toEqual([['long'], ['long', 'kid']]);
  const markdown = await ada.prints(['logs', 'long', '--format', 'md']);
  expect(markdown).toMatch(/^# long\n/);
  expect(markdown.match(/^> Word \d+$/gm)).toHaveLength(said);
  const html = await ada.prints(['logs', 'long', '--format', 'html', '--children']);
  expect(html).toContain('Begin &lt;b&gt;here&lt;/b&gt;');
  expect(html).toContain('From the child');
  expect(html.trimEnd().endsWith('</html>')).toBe(true);
});

test.each([
  [['--format', 'pdf'], 'expected one of md, json, html; got "pdf"'],
  [['--children'], 'expected one of md, json, html; got ""'],
  [['--format', 'md', '--run', '1'], "can't be combined with --run"],
])('refuses %j', async (args, message) => {
  const { code, out, err } = await ada.muster(['logs', 'long', ...args]);
  expect({ code, out }).toEqual({ code: 2, out: '' });
  expect(err).toContain(message);
});

test('an agent that does not exist leaves no document', async () => {
  expect(await ada.muster(['logs', 'nobody', '--format', 'html'])).toMatchObject({ code: 3 });
});

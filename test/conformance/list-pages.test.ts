import type { AgentEntry } from '@muster/sdk/contract';
import { describe, expect, test } from 'vitest';
import type { Api } from '../support/api.ts';
import { newMember, writeResource } from '../support/catalog.ts';
import { expectError } from '../support/expect-reply.ts';
import { useSharedServer } from '../support/shared-server.ts';
import { openStream } from '../support/streams.ts';
import { newTenant } from '../support/tenants.ts';
import { inAnHour, newTestTenant, type TestTenant } from '../support/test-tenant.ts';

const server = await useSharedServer({ runner: false });
const { api: admin } = server;

type Fields = Record<string, unknown>;

interface Page {
  readonly entries: AgentEntry[];
  readonly nextPageToken: string;
}

const spawn = async (api: Api, agent: string[], more: Fields = {}) => {
  const answer = await api.post('/v1/agent/spawn', { agentId: { agent, ...more }, description: 'x' });
  expect(answer.status, JSON.stringify(answer.body)).toBe(200);
};

const page = async (api: Api, request: Fields = {}): Promise<Page> => {
  const { status, body } = await api.post<Page>('/v1/agents', request);
  expect(status, JSON.stringify(body)).toBe(200);
  return body;
};

const paths = async (api: Api, request: Fields = {}) =>
  (await page(api, request)).entries.map(({ agentId }) => agentId.agent.join('/'));

describe('fields of an entry', () => {
  const entryOf = async (t: TestTenant, path: string): Promise<AgentEntry> => {
    const { entries } = await page(admin, { workspace: t.workspace, includeTerminal: true, text: path });
    return entries[0] as AgentEntry;
  };

  test('sequence is that of the newest timeline entry', async () => {
    const t = await newTestTenant(admin);
    await t.spawn('a');
    for (const text of ['', 'more']) {
      if (text) await t.queue('a', text);
      expect((await entryOf(t, 'a')).sequence).toBe((await t.timeline('a')).at(-1)?.sequence);
    }
  });

  test('description has the first 200 characters', async () => {
    const t = await newTestTenant(admin);
    await t.spawn('short', { description: 'Fix it.' });
    await t.spawn('long', { description: `${'é'.repeat(150)}${'🙂'.repeat(100)}` });
    expect((await entryOf(t, 'short')).description).toBe('Fix it.');
    expect((await entryOf(t, 'long')).description).toBe(`${'é'.repeat(150)}${'🙂'.repeat(50)}`);
  });

  test('error is set on a failed agent only', async () => {
    const t = await newTestTenant(admin);
    await t.spawn('a');
    expect((await entryOf(t, 'a')).error).toBe('');
    const claim = await t.start('a');
    await t.end(claim, 'FAILED', { error: { code: 'REHEARSED_FAILURE', message: 'the disk is full' } });
    expect(await entryOf(t, 'a')).toMatchObject({ phase: 'PHASE_FAILED', error: 'the disk is full' });
  });

  test('news is the newest response, and a question or what has to be fixed comes first', async () => {
    const t = await newTestTenant(admin);
    await t.spawn('a');
    expect((await entryOf(t, 'a')).news).toBe('');
    const claim = await t.start('a');
    await t.report(claim, { items: [{ type: 'MESSAGE', text: '## Result\n\nAll **green**.\n' }] });
    expect((await entryOf(t, 'a')).news).toBe('Result All green.');
    await t.report(claim, { items: [{ type: 'MESSAGE', text: 'No, red.' }] });
    expect((await entryOf(t, 'a')).news).toBe('No, red.');
    await t.end(claim, 'COMPLETED', { question: 'Which `colour`?\n\n- red\n- blue' });
    expect((await entryOf(t, 'a')).news).toBe('Which colour? red blue');
    await t.queue('a', 'red');
    expect((await entryOf(t, 'a')).news).toBe('No, red.');
    const second = await t.start('a');
    await t.end(second, 'FAILED', { error: { code: 'INVALID_CREDENTIALS', message: 'The key expired.' } });
    const blocked = await entryOf(t, 'a');
    expect(blocked).toMatchObject({ phaseReason: 'BLOCKED', news: blocked.needsInput });
  });

  test('news has at most 280 characters, on one line, whatever the agent says', async () => {
    const t = await newTestTenant(admin);
    const rows: readonly (readonly [string, string, string])[] = [
      ['long', 'é'.repeat(120_000), `${'é'.repeat(279)}…`],
      ['wide', '🙂'.repeat(60_000), `${'🙂'.repeat(139)}…`],
      ['marks', '`'.repeat(250_000), ''],
      ['controls', `a\u0007\u001b[2J\u009bb\r\n\u2028c \u202egnp.exe`, 'a [2J b c gnp.exe'],
    ];
    for (const [name, text, news] of rows) {
      await t.spawn(name);
      const claim = await t.start(name);
      await t.report(claim, { items: [{ type: 'MESSAGE', text }], currentAction: text.slice(0, 512) });
      const entry = await entryOf(t, name);
      expect(entry.news).toBe(news);
      expect(entry.currentAction.length).toBeLessThanOrEqual(280);
      expect(entry.currentAction).not.toMatch(/[\p{Cc}\u202e]/u);
    }
  });

  test('currentAction is that of the run, and empty between runs', async () => {
    const t = await newTestTenant(admin);
    await t.spawn('a');
    const claim = await t.start('a');
    expect((await entryOf(t, 'a')).currentAction).toBe('');
    await t.report(claim, { currentAction: 'Running npm test' });
    expect((await entryOf(t, 'a')).currentAction).toBe('Running npm test');
    await t.end(claim);
    expect((await entryOf(t, 'a')).currentAction).toBe('');
  });

  test('tasks are counted without deleted ones', async () => {
    const t = await newTestTenant(admin);
    const counts = async () => {
      const { taskCount, tasksDone } = await entryOf(t, 'a');
      return [tasksDone, taskCount];
    };
    await t.spawn('a', { tasks: [{ id: 'one' }, { id: 'two' }, { id: 'three' }] });
    await t.spawn('b');
    expect(await entryOf(t, 'b')).toMatchObject({ taskCount: 0, tasksDone: 0 });
    expect(await counts()).toEqual([0, 3]);
    await t.updateTask({ id: 'one', status: 'TASK_STATUS_COMPLETED' });
    expect(await counts()).toEqual([1, 3]);
    await t.updateTask({ id: 'two', status: 'TASK_STATUS_DELETED' });
    expect(await counts()).toEqual([1, 2]);
  });

  test('queued counts undelivered follow-ups, deferred ones included', async () => {
    const t = await newTestTenant(admin);
    await t.spawn('a');
    expect((await entryOf(t, 'a')).queued).toBe(0);
    await t.queue('a', 'one');
    await t.queue('a', { description: 'later', deliverAt: inAnHour() });
    expect((await entryOf(t, 'a')).queued).toBe(2);
    await t.start('a');
    expect((await entryOf(t, 'a')).queued).toBe(1);
  });

  test('persona and rehearsed are those of the status', async () => {
    const t = await newTestTenant(admin);
    await writeResource(admin, 'persona', 'terse', { instructions: 'Be terse.' });
    await t.spawn('real', { persona: 'terse' });
    await t.spawn('rehearsed', { model: 'rehearsal-a' });
    for (const path of ['real', 'rehearsed']) {
      const { persona, rehearsed } = await t.status(path);
      expect(await entryOf(t, path)).toMatchObject({ persona, rehearsed });
    }
    expect((await entryOf(t, 'real')).persona).toBe('terse');
    expect((await entryOf(t, 'rehearsed')).rehearsed).toBe(true);
  });
});

describe('tenants', () => {
  test('`tenant` is the caller’s by default; another is refused, except to an operator', async () => {
    const operator = server.operator;
    const foreign = await newTenant(operator);
    await spawn(foreign.admin, ['theirs']);
    const { api } = await newMember(admin);
    await spawn(api, ['mine']);
    const own = server.tenant;
    expect(await paths(api, { tenant: own })).toEqual(['mine']);
    expect(await paths(api, { tenant: {} })).toEqual(['mine']);
    expectError(await api.post('/v1/agents', { tenant: foreign.tenant }), 'PERMISSION_DENIED');
    expect(await paths(operator, { tenant: foreign.tenant, account: '*' })).toEqual(['theirs']);
    expect(await paths(foreign.admin, { account: '*' })).toEqual(['theirs']);
  });
});

describe('further filters and pages', () => {
  test('`workspace` selects one workspace', async () => {
    const { api } = await newMember(admin);
    await spawn(api, ['one'], { workspace: 'w-one' });
    await spawn(api, ['two'], { workspace: 'w-two' });
    await spawn(api, ['three']);
    expect(await paths(api, { workspace: 'w-one' })).toEqual(['one']);
    expect(await paths(api, { workspace: 'default' })).toEqual(['three']);
    expect(await paths(api, { workspace: '' })).toEqual(['three', 'two', 'one']);
  });

  test('`text` selects what contains it literally', async () => {
    const { api } = await newMember(admin);
    for (const name of ['fix-parser', 'fix-lexer', 'write-docs', 'under_score']) await spawn(api, [name]);
    expect(await paths(api, { text: 'fix' })).toEqual(['fix-lexer', 'fix-parser']);
    expect(await paths(api, { text: 'PARSER' })).toEqual(['fix-parser']);
    expect(await paths(api, { text: '%' })).toEqual([]);
    expect(await paths(api, { text: 'fix_' })).toEqual([]);
    expect(await paths(api, { text: '_' })).toEqual(['under_score']);
    expect(await paths(api, { text: '' })).toHaveLength(4);
  });

  test('pages together are the list, even if agents are spawned meanwhile', async () => {
    const { api } = await newMember(admin);
    const names = Array.from({ length: 25 }, (_, i) => `p${i}`);
    for (const name of names) await spawn(api, [name]);
    const seen: string[] = [];
    let pageToken = '';
    let pages = 0;
    do {
      const { entries, nextPageToken } = await page(api, { pageSize: 10, pageToken });
      expect(entries.length).toBeLessThanOrEqual(10);
      seen.push(...entries.map(({ agentId }) => agentId.agent[0] ?? ''));
      await spawn(api, [`late-${pages}`]);
      pageToken = nextPageToken;
      pages += 1;
    } while (pageToken !== '');
    expect(seen).toEqual(names.toReversed());
    expect(pages).toBe(3);
  });

  test('a page ends at 4 MiB, and the stream of a list continues', async () => {
    const t = await newTestTenant(admin);
    const question = '?'.repeat(256 * 1024);
    const names = Array.from({ length: 20 }, (_, i) => `asks-${i}`).toReversed();
    for (const name of names.toReversed()) await t.rested(name, {}, { question });
    const filter = { workspace: t.workspace };
    const first = await page(admin, filter);
    expect(Buffer.byteLength(JSON.stringify(first))).toBeLessThan(5 * 1024 * 1024);
    const second = await page(admin, { ...filter, pageToken: first.nextPageToken });
    expect(second.nextPageToken).toBe('');
    const listed = [...first.entries, ...second.entries];
    expect(listed.map(({ agentId }) => agentId.agent.join('/'))).toEqual(names);
    expect(listed.every(({ needsInput }) => needsInput === question)).toBe(true);

    const stream = await openStream<AgentEntry>(admin, '/v1/agents/stream', filter);
    expect(await stream.until(({ type }) => type === 'whole')).toBe(true);
    const from = stream.seen.length;
    const changed = new Set<string>();
    await Promise.all(names.map((name) => t.send('agent/labels', name, { labels: { seen: 'yes' } })));
    await stream.until(({ type, data }) => {
      if (type === 'entry' && data.labels.seen) changed.add(data.agentId.agent.join('/'));
      return changed.size === names.length;
    });
    stream.close();
    expect(from).toBe(names.length + 1);
    expect(changed.size).toBe(names.length);
  });

  test('a page that is exactly full is the last', async () => {
    const { api } = await newMember(admin);
    for (const name of ['a', 'b']) await spawn(api, [name]);
    expect(await page(api, { pageSize: 2 })).toMatchObject({ nextPageToken: '' });
    expect((await page(api, { pageSize: 0 })).entries).toHaveLength(2);
  });

  test('a page has at most 1,000 entries; a token that the service did not create is refused', async () => {
    expectError(await admin.post('/v1/agents', { pageSize: 1001 }), 'INVALID_ARGUMENT', 'pageSize');
    expectError(await admin.post('/v1/agents', { pageSize: -1 }), 'INVALID_ARGUMENT', 'pageSize');
    expectError(await admin.post('/v1/agents', { pageToken: 'nonsense' }), 'INVALID_ARGUMENT', 'pageToken');
    expect((await admin.post('/v1/agents', { pageSize: 1000 })).status).toBe(200);
  });
});

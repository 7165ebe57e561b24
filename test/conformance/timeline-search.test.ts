import { limits, type TimelineEntry } from '@muster/sdk/contract';
import pg from 'pg';
import { beforeAll, describe, expect, test } from 'vitest';
import { expectError, expectOk } from '../support/expect-reply.ts';
import { useSharedServer } from '../support/shared-server.ts';
import { newTestTenant, type TestTenant } from '../support/test-tenant.ts';

const server = await useSharedServer({ runner: false });

interface Page {
  readonly entries: TimelineEntry[];
  readonly more: boolean;
  readonly nextSequence: string;
}

describe('a search in a timeline', () => {
  let tenant: TestTenant;

  beforeAll(async () => {
    tenant = await newTestTenant(server.api);
    await tenant.spawn('a', { description: 'Find the NEEDLE in the task' });
    const run = await tenant.start('a');
    const texts = [
      'a needle',
      'hay',
      'Größe und ÄNDERUNG',
      '100% of a_b\\c.*',
      'NeEdLe\nsecond line',
      "it's [x](y)",
    ];
    await tenant.report(run, {
      items: [
        ...texts.map((text) => ({ type: 'MESSAGE', text })),
        { type: 'TOOL_CALL', text: 'grep needle', data: { tool: 'shell' } },
        { type: 'TOOL_RESULT', text: 'done', data: { tool: 'needle' } },
      ],
    });
    await tenant.queue('a', { followUpId: 'f', description: 'One more needle, please' });
    await tenant.end(run);
    await tenant.turn('a');
  });

  const pageOf = async (fields: Record<string, unknown>, path = 'a'): Promise<Page> =>
    expectOk(await tenant.send<Page>('agent/timeline', path, fields));
  const textsOf = async (text: string): Promise<string[]> =>
    (await pageOf({ text })).entries.map((entry) => entry.text);

  test('finds the text in upper and lower case, in tasks, messages and commands', async () => {
    const { entries, more, nextSequence } = await pageOf({ text: 'needle' });
    expect(entries.map(({ type, text }) => [type, text])).toEqual([
      ['AGENT_SPAWNED', 'Find the NEEDLE in the task'],
      ['MESSAGE', 'a needle'],
      ['MESSAGE', 'NeEdLe\nsecond line'],
      ['TOOL_CALL', 'grep needle'],
      ['FOLLOW_UP_QUEUED', 'One more needle, please'],
      // By the text of its message.
      ['FOLLOW_UP_DELIVERED', ''],
    ]);
    expect({ more, nextSequence }).toEqual({ more: false, nextSequence: '' });
    const whole = await tenant.timeline('a');
    for (const entry of entries) expect(whole).toContainEqual(entry);
  });

  test('letters of other languages have two cases, too', async () => {
    expect(await textsOf('GRÖSSE')).toEqual([]);
    expect(await textsOf('GRÖßE')).toEqual(['Größe und ÄNDERUNG']);
    expect(await textsOf('änderung')).toEqual(['Größe und ÄNDERUNG']);
  });

  test.each([
    ['%', '100% of a_b\\c.*'],
    ['a_b', '100% of a_b\\c.*'],
    ['\\c.*', '100% of a_b\\c.*'],
    ['e\nsecond', 'NeEdLe\nsecond line'],
    ["it's [x](", "it's [x](y)"],
  ])('takes %j as it is', async (text, found) => {
    expect(await textsOf(text)).toEqual([found]);
  });

  test.each(['.', '***=hay', '(?i)hay', '[h]ay', 'h.y', 'hay|needle', '^hay', '\\', '(', '😀'])(
    'is never a pattern: %j',
    async (text) => {
      const expected = (await tenant.timeline('a')).filter((entry) => entry.text.includes(text));
      expect(await textsOf(text)).toEqual(expected.map((entry) => entry.text));
    },
  );

  test('refuses what can’t be in a text, or is too long', async () => {
    for (const text of ['x\0y', '\ud800', 'x'.repeat(257), 7])
      expectError(await tenant.send('agent/timeline', 'a', { text }), 'INVALID_ARGUMENT', 'text');
    expect(await textsOf('ab'.repeat(128))).toEqual([]);
  });

  test('goes with types, a limit and both directions; nextSequence continues', async () => {
    expect((await pageOf({ text: 'needle', types: ['TOOL_CALL', 'TOOL_RESULT'] })).entries).toHaveLength(1);
    const forth: TimelineEntry[] = [];
    for (let next = '0'; next !== ''; ) {
      const page = await pageOf({ text: 'needle', limit: 2, afterSequence: next });
      expect(page.more).toBe(page.nextSequence !== '');
      forth.push(...page.entries);
      next = page.nextSequence;
    }
    const back: TimelineEntry[] = [];
    for (let next = '9223372036854775807'; next !== ''; ) {
      const page = await pageOf({ text: 'needle', limit: 2, beforeSequence: next });
      back.unshift(...page.entries);
      next = page.nextSequence;
    }
    expect(back).toEqual(forth);
    expect(forth).toEqual((await pageOf({ text: 'needle' })).entries);
  });

  test('without a text, nextSequence continues a page as well', async () => {
    const { entries, nextSequence } = await pageOf({ limit: 3 });
    expect(nextSequence).toBe(entries[2]?.sequence);
    const back = await pageOf({ limit: 3, beforeSequence: '7' });
    expect(back.nextSequence).toBe(back.entries[0]?.sequence);
  });

  test('another tenant’s timeline is not searched', async () => {
    const other = await newTestTenant(server.api);
    expectError(await other.send('agent/timeline', 'a', { text: 'needle' }), 'NOT_FOUND');
  });
});

describe('a search in a timeline of 200,000 entries', () => {
  let tenant: TestTenant;
  const needles = [150, 99_999, 199_990];

  beforeAll(async () => {
    tenant = await newTestTenant(server.api);
    await tenant.rested('vast');
    const database = new pg.Client({ connectionString: server.databaseUrl });
    await database.connect();
    try {
      await database.query(
        `INSERT INTO timeline (tenant, agent, sequence, at, run, type, follow_up_id, text, data)
         SELECT a.tenant, a.id, n, now(), 1, 'MESSAGE', '',
           'line ' || n || CASE WHEN n = ANY ($2::int[]) THEN ' with a needle' ELSE repeat(' of a log', 20) END, '{}'
         FROM agents a CROSS JOIN generate_series(a.sequence::int + 1, 200000) n WHERE a.path = 'vast' AND a.workspace = $1`,
        [tenant.workspace, needles],
      );
      await database.query(`UPDATE agents SET sequence = 200000 WHERE path = 'vast' AND workspace = $1`, [
        tenant.workspace,
      ]);
    } finally {
      await database.end();
    }
  });

  test('looks through a bounded part per page, and finds all of them with nextSequence', async () => {
    const found: number[] = [];
    let pages = 0;
    for (let next = '9223372036854775807'; next !== ''; pages += 1) {
      const { body, status } = await tenant.send<Page>('agent/timeline', 'vast', {
        text: 'NEEDLE',
        beforeSequence: next,
      });
      expect(status).toBe(200);
      found.unshift(...body.entries.map(({ sequence }) => Number(sequence)));
      next = body.nextSequence;
    }
    expect(found).toEqual(needles);
    expect(pages).toBe(Math.ceil(200_000 / limits.searchedEntries));
  });

  test('a text that almost matches everywhere takes no longer', async () => {
    const { status } = await tenant.send<Page>('agent/timeline', 'vast', {
      text: `${' of a log'.repeat(19)} of a lox`,
    });
    expect(status).toBe(200);
  });
});

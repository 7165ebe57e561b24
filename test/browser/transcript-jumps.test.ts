import pg from 'pg';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Visitor } from '../support/browser.ts';
import { expectOk } from '../support/expect-reply.ts';
import { png, uploadTo } from '../support/images.ts';
import { sharedServer } from '../support/shared-server.ts';
import { newTestTenant, type TestTenant } from '../support/test-tenant.ts';
import { addressOf, rowWith } from './agent-page.ts';
import { browserFixture, describeInBrowser } from './fixture.ts';

const entryCount = 10_000;

describeInBrowser('jumps in a long transcript', () => {
  const fixture = browserFixture(() => sharedServer({ runner: false }));
  let tenant: TestTenant;
  let visitor: Visitor;
  let page: Page;
  let path: string;

  beforeAll(async () => {
    tenant = await newTestTenant(fixture.api);
    await tenant.rested('vast');
    const { agentId } = await tenant.status('vast');
    const image = expectOk(await uploadTo(fixture.api, agentId, png()));
    await writeEntries('vast', image.attachmentId);
    path = await addressOf(tenant, 'vast');
    visitor = await fixture.visit({ path });
    page = visitor.page;
    await rowWith(page, `word ${entryCount}`).waitFor();
  });
  afterAll(() => visitor?.leave());

  // Together 100, in two tests because of the timeout.
  it.each([7, 11])(
    'shows the right entry in 50 of 50 jumps, with images and expanded rows (seed %i)',
    async (seed) => {
      const jumps = await page.evaluate(makeJumps, { entryCount, count: 50, seed });
      expect(jumps.filter(({ isShown }) => !isShown)).toEqual([]);
      expect(jumps).toHaveLength(50);
    },
  );

  /** Half of the entries are rows of other heights than estimated: images, several lines, expanded output. */
  async function writeEntries(agent: string, imageId: string): Promise<void> {
    const database = new pg.Client({ connectionString: fixture.server.databaseUrl });
    await database.connect();
    try {
      await database.query(seed, [agent, entryCount, imageId]);
      await database.query('UPDATE agents SET sequence = $2 WHERE path = $1', [agent, entryCount]);
    } finally {
      await database.end();
    }
  }
});

const seed = `
INSERT INTO timeline (tenant, agent, sequence, at, run, type, follow_up_id, text, data)
SELECT a.tenant, a.id, n, now(), 1, kind, '', words, data::json
FROM agents a
CROSS JOIN generate_series(a.sequence::int + 1, $2::int) n
CROSS JOIN LATERAL (VALUES
  (0, 'MESSAGE', 'word ' || n, '{}'),
  (1, 'TOOL_CALL', 'grep -rn needle src', json_build_object('tool', 'shell', 'id', 'call-' || (n - n % 5))::text),
  (2, 'TOOL_RESULT', repeat('src/some/file.ts:12: a line with the needle in it' || chr(10), n % 40),
    json_build_object('tool', 'shell', 'id', 'call-' || (n - n % 5), 'attachmentIds',
      CASE WHEN n % 3 = 0 THEN json_build_array($3::text) ELSE '[]'::json END)::text),
  (3, 'MESSAGE', repeat('A longer text, which takes several lines on a screen. ', n % 17) || 'word ' || n, '{}'),
  (4, CASE WHEN n % 50 = 4 THEN 'RUN_STARTED' ELSE 'WARNING' END, 'word ' || n, '{}')
) AS kinds (turn, kind, words, data)
WHERE a.path = $1 AND turn = n % 5`;

interface Jump {
  readonly to: number;
  readonly shown: string;
  readonly isShown: boolean;
}

/** Runs in the page: changes the address, and looks at what is on the screen when nothing moves any more. */
async function makeJumps({
  entryCount,
  count,
  seed,
}: {
  entryCount: number;
  count: number;
  seed: number;
}): Promise<Jump[]> {
  const scroller = document.querySelector('.transcript-scroller') as HTMLElement;
  const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
  const isBusy = () => scroller.getAttribute('aria-busy') === 'true';
  const settled = async (target: () => Element | null) => {
    let before = Number.NaN;
    for (let same = 0, frames = 0; same < 6 && frames < 1000; frames++) {
      await frame();
      const top = target()?.getBoundingClientRect().y ?? scroller.scrollTop;
      same = top === before && !isBusy() ? same + 1 : 0;
      before = top;
    }
  };
  const jumps: Jump[] = [];
  let random = seed;
  for (let at = 0; at < count; at++) {
    random = (random * 48_271) % 2_147_483_647;
    // Near and far, in both directions.
    const last = jumps.at(-1)?.to ?? entryCount;
    const near = last + (random % 2 === 0 ? 1 : -1) * (random % 300);
    const to = 10 + ((at % 3 === 0 ? Math.abs(near) : random) % (entryCount - 20));
    location.hash = `e${to}`;
    const target = () => scroller.querySelector('[data-target="true"]');
    await settled(target);
    const row = target();
    const view = scroller.getBoundingClientRect();
    const box = row?.getBoundingClientRect();
    const sequence = /#e(\d+)$/.exec(row?.querySelector('a')?.href ?? '')?.[1] ?? '';
    // A result is in the row of its call.
    const isRow = [to, to - 1].includes(Number(sequence));
    const isInView = box !== undefined && box.top >= view.top - 1 && box.top < view.bottom - 20;
    jumps.push({
      to,
      shown: `${sequence} at ${box && Math.round(box.top - view.top)}`,
      isShown: isRow && isInView,
    });
    if (at % 4 === 0) row?.querySelector<HTMLElement>('[aria-expanded="false"]')?.click();
  }
  return jumps;
}

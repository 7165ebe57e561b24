import { agentOfPage, agentPage } from '@muster/sdk/contract';
import type { Browser } from 'playwright-core';
import { alternated, post, type Service } from '../../bench/tools.ts';
import { Visitor } from '../../support/browser.ts';
import { paintOf, transcriptPlace, watchPaint } from './painted.ts';

const lengths = { short: 500, long: 50_000 } as const;
const rounds = 9;

/** Measures from the navigation until the newest entry is on the screen, for short and long transcripts in turn. */
export async function openTranscripts(
  browser: Browser,
  service: Service,
): Promise<{ shortMs: number; longMs: number }> {
  const pages = {
    short: await transcriptOf(service, 'short', lengths.short),
    long: await transcriptOf(service, 'long', lengths.long),
  };
  const open = (name: keyof typeof pages) => async (): Promise<number> => {
    const visitor = await Visitor.arrive(browser, service, {
      path: pages[name],
      prepare: (context) => watchPaint(context, /entry-\d+/, transcriptPlace),
    });
    const paintedMs = await paintOf(visitor.page, `entry-${lengths[name]}`);
    const beganMs = await visitor.page.evaluate(() => performance.timeOrigin);
    await visitor.leave();
    return paintedMs - beganMs;
  };
  // The first page warms up the browser.
  await open('short')();
  await open('long')();
  const { short, long } = await alternated({ short: open('short'), long: open('long') }, rounds);
  return { shortMs: short, longMs: long };
}

/** An idle agent whose timeline is written directly into the database. Returns the path of its page. */
async function transcriptOf(service: Service, name: string, entries: number): Promise<string> {
  const agentId = { agent: [name] };
  const { dashboardUrl } = await post<{ dashboardUrl: string }>(service, '/v1/agent/spawn', {
    agentId,
    description: '!say hello',
    model: 'rehearsal-a',
  });
  await post(service, '/v1/agent/wait', { agentId });
  await service.database.query(seed, [name, entries]);
  await service.database.query('UPDATE agents SET sequence = $2 WHERE path = $1', [name, entries]);
  await service.database.query('ANALYZE');
  const id = agentOfPage(new URL(dashboardUrl).pathname);
  if (!id) throw new Error(`not the address of an agent: ${dashboardUrl}`);
  return agentPage(id);
}

/** Typical entries: a message, a tool call, and its result. */
const seed = `
INSERT INTO timeline (tenant, agent, sequence, at, run, type, follow_up_id, text, data)
SELECT a.tenant, a.id, n, now(), 1, kind, '', words, data::json
FROM agents a
CROSS JOIN generate_series(a.sequence + 1, $2::int) n
CROSS JOIN LATERAL (VALUES
  (0, 'MESSAGE', 'Looking at **part ' || n || '** of the code, entry-' || n || '.', '{}'),
  (1, 'TOOL_CALL', 'grep -rn needle src', json_build_object('tool', 'shell', 'id', 'call-' || (n - n % 4))::text),
  (2, 'TOOL_RESULT', repeat('src/some/file.ts:12: a line with the needle in it' || chr(10), 12),
    json_build_object('tool', 'shell', 'id', 'call-' || (n - n % 4))::text),
  (3, 'MESSAGE', 'Found it, and went on to the next one.', '{}')
) AS kinds (turn, kind, words, data)
WHERE a.path = $1 AND turn = n % 4`;

import type { Browser } from 'playwright-core';
import { alternated, type Service, seedAgents, spawnTemplate, startService } from '../../bench/tools.ts';
import { until } from '../../support/async.ts';
import { Visitor } from '../../support/browser.ts';
import { paintedIn, watchPaint } from './painted.ts';

export const fewAgents = 60;
export const manyAgents = 3_000;
const rounds = 9;

/** From the navigation until the first row of the list is on the screen, of few and of many agents in turn. */
export async function firstRows(
  browser: Browser,
): Promise<{ readonly fewMs: number; readonly manyMs: number }> {
  const [few, many] = [await fleetOf(fewAgents), await fleetOf(manyAgents)];
  try {
    const pages = { fewMs: () => openList(browser, few), manyMs: () => openList(browser, many) };
    // The first pages warm up the browser and the services.
    for (const page of Object.values(pages)) for (let i = 0; i < 2; i += 1) await page();
    return await alternated(pages, rounds);
  } finally {
    await Promise.all([few.close(), many.close()]);
  }
}

/** The worst case: each agent has the longest response that a list shows. */
async function fleetOf(agents: number): Promise<Service> {
  const service = await startService({ MUSTER_RUNNER: 'off' });
  await spawnTemplate(service);
  await seedAgents(service, 'resting-', 0, agents - 1);
  await service.database.query(
    `UPDATE agents SET phase = 'PHASE_WAITING_FOR_INPUT', reason = 'RESTING', claimable_at = NULL WHERE path LIKE 'resting-%'`,
  );
  await service.database.query(
    `UPDATE agent_states SET response = left(repeat('The shop builds and tests green. ', 20), 280)`,
  );
  await service.database.query('ANALYZE');
  return service;
}

async function openList(browser: Browser, service: Service): Promise<number> {
  const visitor = await Visitor.arrive(browser, service, {
    prepare: (context) => watchPaint(context, /resting-\d+/, 'main'),
  });
  const [paintedMs = Number.NaN] = await until(
    'a row on the screen',
    async () => Object.values(await paintedIn(visitor.page)),
    (painted) => painted.length > 0,
  );
  const beganMs = await visitor.page.evaluate(() => performance.timeOrigin);
  await visitor.leave();
  return paintedMs - beganMs;
}

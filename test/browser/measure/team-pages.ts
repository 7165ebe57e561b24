import type { Browser } from 'playwright-core';
import { alternated, type Service, seedAgents, spawnTemplate } from '../../bench/tools.ts';
import { until } from '../../support/async.ts';
import { Visitor } from '../../support/browser.ts';
import { paintedIn, watchPaint } from './painted.ts';

const agents = 200;
export const members = 2_000;
export const runners = 500;
const rounds = 7;

export interface FirstLoads {
  readonly homeMs: number;
  readonly teamMs: number;
  readonly runnersMs: number;
  readonly settingsMs: number;
}

/** From the navigation until the first rows are on the screen, of the home list and of the pages of a team in turn. */
export async function openTeamPages(browser: Browser, service: Service): Promise<FirstLoads> {
  await spawnTemplate(service);
  await seedAgents(service, 'resting-', 0, agents);
  for (const statement of [seedMembers, seedRunners, 'ANALYZE']) await service.database.query(statement);
  const open = (path: string, mark: RegExp) => async (): Promise<number> => {
    const visitor = await Visitor.arrive(browser, service, {
      path,
      prepare: (context) => watchPaint(context, mark, 'main'),
    });
    const [paintedMs = Number.NaN] = await until(
      `${mark} on the screen`,
      async () => Object.values(await paintedIn(visitor.page)),
      (painted) => painted.length > 0,
    );
    const beganMs = await visitor.page.evaluate(() => performance.timeOrigin);
    await visitor.leave();
    return paintedMs - beganMs;
  };
  const pages = {
    homeMs: open('/', /resting-\d+/),
    teamMs: open('/team', /person-\d+/),
    runnersMs: open('/runners', /builder-\d+/),
    settingsMs: open('/settings', /This browser/),
  };
  // The first pages warm up the browser and the service.
  for (const page of Object.values(pages)) await page();
  return alternated(pages, rounds);
}

/** Each with a key, and every second signed in, with an hour of usage for each day of the month. */
const seedMembers = `
WITH people AS (
  SELECT t.id AS tenant, 'person-' || lpad(n::text, 5, '0') AS account, n
  FROM (SELECT min(id) AS id FROM tenants WHERE id > 0) t CROSS JOIN generate_series(1, ${members}) n
), signed_in AS (
  INSERT INTO members (tenant, owner_provider, account, display_name, sign_in, role, signed_in_at, created_at)
  SELECT tenant, 'PROVIDER_CODEHOST_OAUTH', account, 'Person ' || n, 'acme', 'member', now(), now() FROM people WHERE n % 2 = 0
), used AS (
  INSERT INTO usage_hours (tenant, hour, agent, run, model, provider_account, root, owner_provider, account, workspace, backend,
    cost, input_tokens, cached_tokens, output_tokens, unpriced_tokens, is_estimated)
  SELECT tenant, date_trunc('month', now(), 'UTC') + d * interval '1 day', md5(account)::uuid, d, 'm', '', md5(account)::uuid,
    'PROVIDER_CODEHOST_OAUTH', account, 'default', 'BACKEND_A', 0.5, 1, 1, 1, 0, false
  FROM people CROSS JOIN generate_series(0, 27) d
)
INSERT INTO keys (tenant, key_id, hash, role, owner_provider, account, kind, name, created)
SELECT tenant, 'key-' || n, '', 'member', 'PROVIDER_CODEHOST_OAUTH', account, 'token', account, 1 FROM people`;

const seedRunners = `
INSERT INTO runners (tenant, id, name, pool, build, capabilities, backends, rehearses, free_real, free_rehearsed, polls, leaving,
  accounts, machine, token, lease_until, polled_at)
SELECT t.id, gen_random_uuid(), 'builder-' || lpad(n::text, 5, '0'), 'builders', '', '{sandbox}', '{}', false, 4, 4, 1, false,
  '[{"account": "anthropic/default", "state": "FREE", "runs": 0, "pausedUntil": null, "error": ""}]',
  '{"system": "linux x64", "freeBytes": 1000000000, "totalBytes": 2000000000}', '', now() + interval '1 hour', now()
FROM (SELECT min(id) AS id FROM tenants WHERE id > 0) t CROSS JOIN generate_series(1, ${runners}) n`;

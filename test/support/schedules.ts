import type { ScheduleFire } from '@muster/sdk/contract';
import pg from 'pg';
import { accepted, type Fields } from './agents.ts';
import type { Api } from './api.ts';
import { eventually } from './async.ts';
import { readDocument, uniqueName, writeResource } from './catalog.ts';

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;

/** A schedule that fires each hour, at the minute in which the test began, by the clocks in UTC. */
export class TestSchedule {
  readonly name: string;
  readonly api: Api;
  readonly #database: string;
  readonly #startMs: number;
  readonly cron: string;

  private constructor(api: Api, database: string, name: string, startMs: number) {
    this.api = api;
    this.#database = database;
    this.name = name;
    this.#startMs = startMs;
    this.cron = `${new Date(startMs).getUTCMinutes()} * * * *`;
  }

  static async write(api: Api, databaseUrl: string, document: Fields, admin = api): Promise<TestSchedule> {
    const startMs = Math.floor(Date.now() / minuteMs) * minuteMs;
    const schedule = new TestSchedule(admin, databaseUrl, uniqueName('schedule'), startMs);
    await writeResource(api, 'schedule', schedule.name, { cron: schedule.cron, ...document });
    return schedule;
  }

  /** One of its times, some hours before the test began. */
  time(hoursAgo: number): string {
    return new Date(this.#startMs - hoursAgo * hourMs).toISOString();
  }

  /** As if the service had not run since this time, or had just not looked yet. */
  async due(hoursAgo = 0): Promise<void> {
    const times = [this.time(hoursAgo), this.name];
    await this.query('UPDATE schedules SET scheduled_at = $1, next_at = now() WHERE name = $2', times);
  }

  async query<R extends pg.QueryResultRow>(text: string, values: unknown[] = [this.name]): Promise<R[]> {
    const client = new pg.Client({ connectionString: this.#database });
    await client.connect();
    try {
      return (await client.query<R>(text, values)).rows;
    } finally {
      await client.end();
    }
  }

  async history(): Promise<ScheduleFire[]> {
    const reply = await this.api.post<{ entries: ScheduleFire[] }>('/v1/schedule/history', {
      name: this.name,
    });
    return accepted('history', reply).entries;
  }

  /** `FIRED reason`, newest first, once there are this many. */
  outcomes(count: number): Promise<string[]> {
    return eventually(async () => {
      const entries = await this.history();
      if (entries.length < count) throw new Error(`${entries.length} of ${count} entries`);
      return entries.map(({ outcome, reason }) => `${outcome} ${reason}`.trim());
    });
  }

  /** What became of the time at which the test began, or of an earlier one. */
  async fires(hoursAgo = 0): Promise<ScheduleFire> {
    await this.due(hoursAgo);
    return eventually(async () => {
      const found = (await this.history()).find(({ scheduledAt }) => scheduledAt === this.time(hoursAgo));
      if (!found) throw new Error('no entry');
      return found;
    });
  }

  run() {
    return this.api.post<ScheduleFire>('/v1/schedule/run', { name: this.name });
  }

  async document(): Promise<Fields> {
    return (await readDocument(this.api, 'schedule', this.name)).document;
  }

  change(document: Fields): Promise<Fields> {
    return writeResource(this.api, 'schedule', this.name, document, {
      updateMask: Object.keys(document).join(','),
    });
  }
}

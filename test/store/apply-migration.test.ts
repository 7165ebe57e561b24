import pg from 'pg';
import { expect, test } from 'vitest';
import {
  type MigrationOptions,
  MigrationSession,
  SchemaError,
} from '../../packages/service/src/store/apply-migration.ts';
import { expectMigrated, migrate, newestMigration } from '../../packages/service/src/store/migrate.ts';
import { migrationIn } from '../../packages/service/src/store/migration-plan.ts';
import { muster } from '../archive/archives.ts';
import { until } from '../support/async.ts';
import { type Database, emptyDatabase } from '../support/database.ts';

/** A database with one table, on which migrations run as on several nodes. */
class Place {
  readonly client: pg.Client;
  readonly #database: Database;
  readonly #opened: pg.Client[] = [];

  private constructor(database: Database) {
    this.#database = database;
    this.client = new pg.Client({ connectionString: database.url });
  }

  static async create(): Promise<Place> {
    const place = new Place(await emptyDatabase());
    await place.client.connect();
    place.#opened.push(place.client);
    expect(await place.apply('0001-start.sql', 'CREATE TABLE items (number int, name text);')).toBe(true);
    return place;
  }

  async #connect(): Promise<pg.Client> {
    const connected = new pg.Client({ connectionString: this.#database.url });
    this.#opened.push(connected);
    await connected.connect();
    return connected;
  }

  async apply(name: string, sql: string, options: MigrationOptions = {}): Promise<boolean> {
    const connection = { connectionString: this.#database.url };
    return new MigrationSession(await this.#connect(), connection, options).apply(migrationIn(name, sql));
  }

  async isRecorded(number: number): Promise<boolean> {
    return (await this.client.query('SELECT FROM migrations WHERE number = $1', [number])).rowCount === 1;
  }

  /** A transaction that has read the table, such as a forgotten one of psql. */
  async readItems(): Promise<{ pid: number; end: () => Promise<unknown> }> {
    const reader = await this.#connect();
    await reader.query('BEGIN ISOLATION LEVEL REPEATABLE READ');
    const { rows } = await reader.query<{ pid: number }>(
      'SELECT pg_backend_pid() AS pid FROM (SELECT count(*) FROM items) i',
    );
    return { pid: rows[0]?.pid ?? 0, end: () => reader.query('COMMIT') };
  }

  /** Resolves when a session waits for a lock of this kind. */
  async untilWaiting(lock: string): Promise<void> {
    const sql = `SELECT l.locktype FROM pg_locks l JOIN pg_stat_activity a USING (pid)
      WHERE NOT l.granted AND a.datname = current_database()`;
    await until(
      `a session that waits for ${lock}`,
      async () => (await this.client.query<{ locktype: string }>(sql)).rows.map(({ locktype }) => locktype),
      (locks) => locks.includes(lock),
    );
  }

  async close(): Promise<void> {
    for (const connected of this.#opened) await connected.end();
    await this.#database.drop();
  }
}

/** They mostly wait, and each has its own database. */
const testInPlace = (name: string, run: (place: Place) => Promise<void>): void =>
  test.concurrent(name, async () => {
    const place = await Place.create();
    try {
      await run(place);
    } finally {
      await place.close();
    }
  });

testInPlace(
  'a migration that waits for a lock lets other statements pass, and succeeds when the lock is free',
  async (place) => {
    const forgotten = await place.readItems();
    const applying = place.apply(
      '0002-column.sql',
      'ALTER TABLE items ADD COLUMN added int NOT NULL DEFAULT 7;',
    );
    await place.untilWaiting('relation');
    // It waits behind the migration, which waits for a transaction that is still open. Without `lock_timeout` that is for ever.
    await place.client.query("SET statement_timeout = '30s'");
    await place.client.query('INSERT INTO items (number) VALUES (1)');
    expect(await place.isRecorded(2)).toBe(false);
    await forgotten.end();
    expect(await applying).toBe(true);
    expect((await place.client.query('SELECT number, added FROM items')).rows).toEqual([
      { number: 1, added: 7 },
    ]);
    expect(await place.isRecorded(2)).toBe(true);
  },
);

testInPlace(
  'a migration that never gets its lock fails with the holder and what to do, and changes nothing',
  async (place) => {
    const forgotten = await place.readItems();
    const error = await place
      .apply('0003-late.sql', 'ALTER TABLE items ADD COLUMN late int;', {
        withinMs: 3_000,
      })
      .catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(SchemaError);
    expect((error as Error).message).toMatch(
      /^Migration 0003-late\.sql did not get its lock within 3 s: AccessExclusiveLock of table items, held by pid \d+ \(application "", idle in transaction for \d+ s\)\. Nothing was changed\. End that session, for example with SELECT pg_terminate_backend\(\d+\), and start again\.$/,
    );
    expect((error as Error).message.split(String(forgotten.pid))).toHaveLength(3);
    await forgotten.end();
    expect(await place.isRecorded(3)).toBe(false);
  },
);

testInPlace(
  'an index is built concurrently by one of two nodes; the other waits without being in its way',
  async (place) => {
    const forgotten = await place.readItems();
    const waits: string[] = [];
    const create = () =>
      place.apply(
        '0004-index.sql',
        '-- kind: concurrent\nCREATE INDEX CONCURRENTLY items_by_number ON items (number);',
        {
          onWait: (waitsFor) => waits.push(waitsFor),
        },
      );
    const first = create();
    await place.untilWaiting('virtualxid');
    const second = create();
    await until(
      'both say what they wait for',
      async () => waits,
      ({ length }) => length === 2,
    );
    expect(waits.sort()).toEqual([
      expect.stringMatching(
        /^0004-index\.sql: ShareLock of virtualxid, held by pid \d+ \(.*idle in transaction/,
      ),
      expect.stringMatching(/^0004-index\.sql: another migration, held by pid \d+ \(.*active for \d+ s\)$/),
    ]);
    await place.client.query('INSERT INTO items (number) VALUES (2)');
    await forgotten.end();
    expect(await Promise.all([first, second])).toEqual([true, false]);
  },
);

testInPlace('an index that a failed attempt left invalid is built again', async (place) => {
  await place.client.query("INSERT INTO items (number, name) VALUES (3, 'same'), (4, 'same')");
  const create = () =>
    place.apply(
      '0005-unique.sql',
      '-- kind: concurrent\nCREATE UNIQUE INDEX CONCURRENTLY items_by_name ON items (name);',
    );
  await expect(create()).rejects.toThrow('could not create unique index');
  const valid = "SELECT indisvalid FROM pg_index WHERE indexrelid = 'items_by_name'::regclass";
  expect((await place.client.query(valid)).rows).toEqual([{ indisvalid: false }]);
  expect(await place.isRecorded(5)).toBe(false);
  await place.client.query("UPDATE items SET name = 'other' WHERE number = 4");
  expect(await create()).toBe(true);
  expect((await place.client.query(valid)).rows).toEqual([{ indisvalid: true }]);
  // As if it was killed after the index and before its record.
  await place.client.query('DELETE FROM migrations WHERE number = 5');
  expect(await create()).toBe(true);
  expect(await place.isRecorded(5)).toBe(true);
});

testInPlace('an index of a partitioned table is built concurrently in each partition', async (place) => {
  await place.client.query('CREATE TABLE events (at int NOT NULL, name text) PARTITION BY RANGE (at)');
  for (const [from, to] of [
    [0, 10],
    [10, 20],
  ])
    await place.client.query(
      `CREATE TABLE events_${from} PARTITION OF events FOR VALUES FROM (${from}) TO (${to})`,
    );
  const create = () =>
    place.apply(
      '0007-events.sql',
      '-- kind: concurrent\nCREATE UNIQUE INDEX CONCURRENTLY events_by_name ON events (at, name);',
    );
  await place.client.query("INSERT INTO events VALUES (1, 'a'), (11, 'same'), (11, 'same')");
  await expect(create()).rejects.toThrow('could not create unique index');
  await place.client.query("DELETE FROM events WHERE name = 'same'");
  expect(await create()).toBe(true);
  await place.client.query('CREATE TABLE events_20 PARTITION OF events FOR VALUES FROM (20) TO (30)');
  const { rows } = await place.client.query(
    "SELECT tablename AS name, count(*)::int AS indexes FROM pg_indexes WHERE tablename LIKE 'events%' GROUP BY 1 ORDER BY 1",
  );
  expect(rows).toEqual(
    ['events', 'events_0', 'events_10', 'events_20'].map((name) => ({ name, indexes: 1 })),
  );
  const invalid = 'SELECT indexrelid::regclass FROM pg_index WHERE NOT indisvalid';
  expect((await place.client.query(invalid)).rows).toEqual([]);
});

testInPlace('an index is dropped concurrently, also if it is gone', async (place) => {
  await place.client.query('CREATE INDEX items_by_name ON items (name)');
  const drop = () =>
    place.apply('0006-drop.sql', '-- kind: concurrent\nDROP INDEX CONCURRENTLY IF EXISTS items_by_name;');
  expect(await drop()).toBe(true);
  await place.client.query('DELETE FROM migrations WHERE number = 6');
  expect(await drop()).toBe(true);
});

test('without MUSTER_MIGRATE a start refuses a schema that is too old; muster migrate applies what is missing', async () => {
  const empty = await emptyDatabase();
  const env = { PATH: process.env.PATH, DATABASE_URL: empty.url, MUSTER_DATA: '/nonexistent', HOME: '/' };
  const connection = { connectionString: empty.url };
  try {
    const tooOld = await expectMigrated(connection).catch((thrown: unknown) => thrown);
    expect(tooOld).toBeInstanceOf(SchemaError);
    expect((tooOld as Error).message).toMatch(
      /^The schema of the database is too old: this build also needs 0001-start\.sql.*\. Run muster migrate with this build, or start it without MUSTER_MIGRATE=off\.$/,
    );
    const newest = await newestMigration();
    const first = await muster(['migrate'], env);
    expect([first.code, first.stderr]).toEqual([0, '']);
    expect(first.stdout).toMatch(
      new RegExp(`^applied 0001-start\\.sql\\n(applied .*\\n)*The schema is at migration ${newest}\\.\\n$`),
    );
    expect((await muster(['migrate', '-o', 'json'], env)).stdout).toBe(
      `${JSON.stringify({ migrated: [], newest }, null, 2)}\n`,
    );
    await expectMigrated(connection);
  } finally {
    await empty.drop();
  }
});

test('a start refuses a schema that is too new for it, in one line', async () => {
  const newer = await emptyDatabase();
  const connection = { connectionString: newer.url };
  const other = new pg.Client(connection);
  try {
    await migrate(connection);
    const newest = await newestMigration();
    await other.connect();
    const insert = 'INSERT INTO migrations (number, name, compatible_since) VALUES ($1, $2, $3)';
    await other.query(insert, [newest + 1, 'compatible.sql', newest]);
    await expectMigrated(connection);
    expect(await migrate(connection)).toEqual([]);
    await other.query(insert, [newest + 2, 'incompatible.sql', newest + 1]);
    await expect(expectMigrated(connection)).rejects.toThrow(SchemaError);
    const { code, stdout, stderr } = await muster(['migrate'], {
      PATH: process.env.PATH,
      DATABASE_URL: newer.url,
    });
    expect({ code, stdout, stderr }).toEqual({
      code: 1,
      stdout: '',
      stderr:
        `muster: The schema of the database is too new: it is at migration ${newest + 2} (incompatible.sql), which works with builds that have ` +
        `migration ${newest + 1}; this build ends at ${newest}. Start a newer version of Muster, or restore a backup from before the upgrade.\n`,
    });
  } finally {
    await other.end();
    await newer.drop();
  }
});

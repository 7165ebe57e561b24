import { cpSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { MusterClient } from '@muster/sdk';
import { afterAll, expect, test } from 'vitest';
import { until } from '../support/async.ts';
import { emptyDatabase } from '../support/database.ts';
import { program } from '../support/server.ts';
import { Load } from './load.ts';
import { Node } from './node.ts';
import { RetryingClient } from './retrying-client.ts';
import { Store } from './store.ts';
import { printFigures } from './tier.ts';

/**
 * The build before a migration and the build after it, as two nodes on one database under load. By default both are this
 * build, and the later one has more migrations. `MUSTER_BUILD_BEFORE` names a built checkout of an earlier version: this
 * build is then the later one, with its own migrations.
 */
const root = fileURLToPath(new URL('../../', import.meta.url));
const buildBefore = process.env.MUSTER_BUILD_BEFORE;
const copy = mkdtempSync(join(tmpdir(), 'muster-after-'));

const cleanUps: (() => unknown)[] = [() => rmSync(copy, { recursive: true, force: true })];
afterAll(async () => {
  for (const cleanUp of cleanUps.reverse()) await cleanUp();
});

/** Of readers and of each lane of the load: they have to go on through all migrations, not to be fast. */
const pauseMs = 50;

/** The second one is partitioned. */
const indexed = ['agents', 'timeline'];

/** A copy of this build with more migrations: each adds a column to a table, or an index. */
function buildWithMigrations(tables: readonly string[]): string {
  const service = join(copy, 'packages/service');
  for (const part of ['package.json', 'bin', 'dist', 'migrations', 'prices.json', 'scripts', 'static'])
    cpSync(join(root, 'packages/service', part), join(service, part), { recursive: true });
  symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'));
  const folder = join(service, 'migrations');
  const newest = Number(readdirSync(folder).sort().at(-1)?.slice(0, 4));
  const write = (at: number, name: string, header: string, sql: string): void =>
    writeFileSync(
      join(folder, `${String(newest + 1 + at).padStart(4, '0')}-${name}.sql`),
      `-- compatible since: ${newest}\n${header}${sql};\n`,
    );
  for (const [at, table] of tables.entries())
    write(at, `widen-${table}`, '', `ALTER TABLE ${table} ADD COLUMN added text NOT NULL DEFAULT 'new'`);
  for (const [at, table] of indexed.entries())
    write(
      tables.length + at,
      `index-${table}`,
      '-- kind: concurrent\n',
      `CREATE INDEX CONCURRENTLY ${table}_by_added ON ${table} (added)`,
    );
  return join(service, 'bin/muster.js');
}

const tablesIn = async (store: Store): Promise<string[]> =>
  (
    await store.rows<{ name: string }>(
      `SELECT relname AS name FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')
         AND NOT relispartition AND relname <> 'migrations' ORDER BY 1`,
    )
  ).map(({ name }) => name);

/** Does not repeat a request that failed. */
const impatient = (target: { readonly url: string; readonly key: string }): RetryingClient => {
  const client: RetryingClient = new RetryingClient(target, {
    check: () => expect([client.unexpected, client.retries]).toEqual([[], 0]),
  });
  return client;
};

/** Everything that people read, again and again, and streams that stay open; and every error that they see. */
class Readers {
  readonly errors: string[] = [];
  readonly listed = new Set<string>();
  readonly sequences: string[] = [];
  reads = 0;
  readonly #client: MusterClient;
  readonly #closing = new AbortController();
  readonly #loops: Promise<void>[];

  constructor(node: string, target: { readonly url: string; readonly key: string }, watched: string) {
    const { signal } = this.#closing;
    const note = (error: unknown): void => void this.errors.push(`${node}: ${error}`);
    this.#client = new MusterClient({
      url: target.url,
      apiKey: target.key,
      // A stream may end and be opened again; nothing else may have to be repeated.
      onRetry: ({ error }) => {
        if (error.message !== 'the stream ended') note(error);
      },
    });
    const client = this.#client;
    const reads: readonly (() => Promise<unknown>)[] = [
      () => client.status(watched),
      () => client.list({ allDepths: true, includeTerminal: true }),
      () => client.timeline(watched, { limit: 20 }),
      () => client.runs(watched),
      () => client.tasks(watched),
      () => client.wait(watched, { timeoutSeconds: 1 }),
      () => client.followUps(watched).next(),
      () => client.whoami(),
      () => client.catalog.list('persona'),
    ];
    const readAll = async (): Promise<void> => {
      for (; !signal.aborted; this.reads += 1) {
        await reads[this.reads % reads.length]?.();
        await new Promise((resolve) => setTimeout(resolve, pauseMs));
      }
    };
    const followList = async (): Promise<void> => {
      for await (const { agentId } of client.listStream({}, { signal }))
        this.listed.add(agentId.agent.join('/'));
    };
    const followTimeline = async (): Promise<void> => {
      for await (const { sequence } of client.timelineStream(watched, { signal }))
        this.sequences.push(sequence);
    };
    this.#loops = [readAll(), followList(), followTimeline()].map((loop) => loop.catch(note));
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await Promise.all(this.#loops);
  }
}

test('a node of the build before and one of the build after serve all callers through a migration', async () => {
  const database = await emptyDatabase();
  cleanUps.push(database.drop);
  const start = async (at: string): Promise<Node> => {
    const node = await Node.start({ databaseUrl: database.url, program: at });
    cleanUps.push(() => node.close());
    return node;
  };
  const before = await start(buildBefore ? join(buildBefore, 'packages/service/bin/muster.js') : program);
  const store = await Store.open(database.url);
  cleanUps.push(() => store.close());
  const applied = () => store.count('SELECT FROM migrations');
  const appliedBefore = await applied();
  const tables = await tablesIn(store);
  const { key } = before;
  const client = impatient(before);
  const watched = 'watched';
  await client.accepted({
    path: '/v1/agent/spawn',
    body: { agentId: { agent: [watched] }, description: '!say ready', model: 'rehearsal-a' },
  });

  const load = new Load(client, 'before');
  const readers = new Readers('before', before, watched);
  load.open(3, pauseMs);
  await load.more(30);
  const after = await start(buildBefore ? program : buildWithMigrations(tables));
  if (!buildBefore) expect(await applied()).toBe(appliedBefore + tables.length + indexed.length);

  const clientAfter = impatient({ url: after.url, key });
  const loadAfter = new Load(clientAfter, 'after');
  const readersAfter = new Readers('after', { url: after.url, key }, watched);
  loadAfter.open(3, pauseMs);
  for (const [sender, name] of [
    [clientAfter, 'through-after'],
    [client, 'through-before'],
  ] as const) {
    await Promise.all([load.more(20), loadAfter.more(20)]);
    await sender.accepted({
      path: '/v1/agent/queue',
      body: { agentId: { agent: [watched] }, followUpId: name, description: `!say ${name}` },
    });
  }
  await Promise.all([load.close(), loadAfter.close()]);
  await until(
    'every agent idle',
    () => store.agentsNotIdle(),
    (found) => found.length === 0,
  );

  for (const each of [load, loadAfter]) {
    await each.replay(store);
    await each.checkCounts(store);
  }
  expect(await store.violations()).toEqual([]);
  // Streams of both nodes show what was done through either.
  const [agent] = await store.rows<{ sequence: number }>(
    `SELECT sequence::int FROM agents WHERE path = '${watched}'`,
  );
  const expected = Array.from({ length: agent?.sequence ?? 0 }, (_, i) => String(i + 1));
  const spawned = [...load.spawns, ...loadAfter.spawns].map(({ reply }) => reply.agentId.agent.join('/'));
  for (const each of [readers, readersAfter]) {
    await until(
      'the end of both streams',
      async () => ({
        sequences: each.sequences,
        missing: spawned.filter((name) => !each.listed.has(name)),
        errors: each.errors,
      }),
      ({ sequences, missing, errors }) =>
        errors.length > 0 || (sequences.length >= expected.length && missing.length === 0),
    );
    await each.close();
    expect(each.errors).toEqual([]);
    expect(each.sequences).toEqual(expected);
  }

  // A node of the build before that restarts in the meantime works too.
  await before.server.end();
  await before.start();
  await client.accepted({
    path: '/v1/agent/queue',
    body: { agentId: { agent: [watched] }, followUpId: 'restarted', description: '!say restarted' },
  });
  await until(
    'the answer',
    async () =>
      (await before.api.post<{ response: string }>('/v1/agent/status', { agentId: { agent: [watched] } }))
        .body,
    ({ response }) => response === 'restarted',
  );
  printFigures('rolling upgrade', {
    migrations: (await applied()) - appliedBefore,
    acknowledged: load.acknowledged + loadAfter.acknowledged,
    reads: readers.reads + readersAfter.reads,
    errors: 0,
  });
});

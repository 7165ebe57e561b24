import { randomUUID } from 'node:crypto';
import type { Claim, Task } from '@muster/sdk/contract';
import pg from 'pg';
import { formatKey, hashSecret, mintKey, parseKey } from '../../packages/service/src/lib/token.ts';
import { Agents, accepted, type Fields } from './agents.ts';
import type { Api } from './api.ts';
import { writeResource } from './catalog.ts';
import { FakeRunner, newFakeRunner } from './fake-runner.ts';

export { inAnHour, inMs } from './agents.ts';

/**
 * What one test uses of a tenant: its own workspace, its own pool and a fake runner in that pool. Tests that share a
 * server do not disturb each other, because a runner claims only the agents of its own pool.
 */
export class TestTenant extends Agents {
  readonly runner: FakeRunner;
  readonly #unusedClaims: Claim[] = [];

  constructor(api: Api, workspace: string, runner: FakeRunner) {
    super(api, workspace);
    this.runner = runner;
  }

  /** One poll: the paths of what can be claimed now (and is, for a later `claim`). */
  async offered(overrides: Fields = {}): Promise<string[]> {
    const { claims } = accepted('poll', await this.runner.poll(overrides));
    this.#unusedClaims.push(...claims);
    return claims.map(({ agentId }) => agentId.agent.join('/'));
  }

  /** The stops that a poll brings, as `run kind`. */
  async stops(): Promise<string[]> {
    const { stops, claims } = accepted('poll', await this.runner.poll());
    this.#unusedClaims.push(...claims);
    return stops.map(({ runId, kind }) => `${runId} ${kind}`);
  }

  /** Polls until it holds a run of this agent. */
  async claim(path: string, overrides: Fields = {}): Promise<Claim> {
    for (let tries = 0; tries < 60; tries += 1) {
      const found = this.#unusedClaims.findIndex(({ agentId }) => agentId.agent.join('/') === path);
      const [claim] = found < 0 ? [] : this.#unusedClaims.splice(found, 1);
      if (claim) return claim;
      await this.offered({ waitMs: 300, ...overrides });
    }
    throw new Error(`never got a run of ${path}: ${JSON.stringify(await this.status(path))}`);
  }

  /** Claims the agent's run and says that it works. */
  async start(path: string): Promise<Claim> {
    const claim = await this.claim(path);
    await this.report(claim, { started: true });
    return claim;
  }

  async report(claim: Claim, fields: Fields) {
    return accepted('report', await this.runner.report(claim, fields));
  }

  /** Asks for money for the run. */
  async credit(claim: Claim, upToUsd: number, more: Fields = {}) {
    return accepted('credit', await this.runner.credit(claim, upToUsd, more));
  }

  /** Reports what the run has cost more. */
  spend(claim: Claim, costUsd: number) {
    return this.report(claim, { usage: { costUsd, inputTokens: 1000 } });
  }

  async end(claim: Claim, outcome = 'COMPLETED', more: Fields = {}) {
    return accepted('end', await this.runner.end(claim, outcome, more));
  }

  /** One whole turn. */
  async turn(path: string, end: Fields = {}): Promise<Claim> {
    const claim = await this.start(path);
    await this.end(claim, 'COMPLETED', end);
    return claim;
  }

  /** The answer to a message, also to one that is refused. */
  add(message: Fields, path = 'a') {
    return this.send<{ followUpId: string }>('agent/queue', path, message);
  }

  /** The ids of the undelivered messages in the agent's status. */
  async followUpIds(path: string): Promise<string[]> {
    return (await this.status(path)).followUps.map(({ followUpId }) => followUpId);
  }

  /** The timeline entries of one message to the agent `a`: type, `from`, `to` and run. */
  async historyOf(followUpId: string) {
    return (await this.timeline('a'))
      .filter((entry) => entry.type.startsWith('FOLLOW_UP_') && entry.followUpId === followUpId)
      .map(({ type, data, runId }) => ({ type, from: data.from, to: data.to, runId }));
  }

  /** `id: QUEUED → CLEARED` for each state change of the agent's messages. */
  async movesOf(path: string): Promise<string[]> {
    return (await this.timeline(path))
      .filter(({ type, data }) => type.startsWith('FOLLOW_UP_') && data.from)
      .map(({ followUpId, data }) => `${followUpId}: ${data.from} → ${data.to}`);
  }

  /** A task of the agent `a`. */
  async task(id: string): Promise<Task | undefined> {
    return (await this.tasks('a')).find((task) => task.id === id);
  }

  /** The answer to a change of a task of the agent `a`. */
  updateTask(fields: Fields) {
    return this.send<{ task: Task }>('agent/tasks/update', 'a', fields);
  }

  /** An agent that has done its first turn and is idle. */
  async rested(path: string, more: Fields = {}, end: Fields = {}): Promise<Claim> {
    await this.spawn(path, more);
    return this.turn(path, end);
  }

  /** The same workspace and pool, seen by one more runner. */
  async withAnotherRunner(): Promise<TestTenant> {
    return new TestTenant(this.api, this.workspace, await newFakeRunner(this.api, this.workspace));
  }
}

/** The databases of shared servers. */
const databases = new Map<string, pg.Pool>();

function databaseAt(connectionString: string): pg.Pool {
  const known = databases.get(connectionString);
  if (known) return known;
  const database = new pg.Pool({ connectionString, max: 2, allowExitOnIdle: true });
  // Its connections end with the test run.
  database.on('error', () => {});
  databases.set(connectionString, database);
  return database;
}

/**
 * Writes a pool, a workspace and a runner's key into the database, as three catalog writes would: those cost more than
 * most tests. Returns the key.
 */
async function insertPool(admin: Api, databaseUrl: string, name: string): Promise<string> {
  const key = mintKey();
  const at = new Date().toISOString();
  const common = { name, createdAt: at, createdBy: 'test', updatedAt: at, updatedBy: 'test' };
  await databaseAt(databaseUrl).query({
    name: 'insert-pool',
    text: `WITH caller AS (SELECT tenant, owner_provider, account FROM keys WHERE key_id = $1),
      written AS (
        INSERT INTO resources (tenant, kind, name, generation, document)
        SELECT tenant, kind, $2, 1, document::json
        FROM caller, (VALUES ('pool', $3), ('workspace', $4), ('token', $5)) AS written (kind, document))
      INSERT INTO keys (tenant, key_id, hash, role, owner_provider, account, pool, kind, name, created)
      SELECT tenant, $6, $7, 'runner', owner_provider, account, $2, 'token', $2, 1 FROM caller`,
    values: [
      parseKey(admin.key)?.keyId,
      name,
      JSON.stringify(common),
      JSON.stringify({ ...common, pool: name }),
      JSON.stringify({ ...common, role: 'runner', pool: name, keyId: key.keyId }),
      key.keyId,
      hashSecret(key.secret),
    ],
  });
  return formatKey(key);
}

export async function newTestTenant(
  admin: Api,
  pool: Fields = {},
  workspace: Fields = {},
): Promise<TestTenant> {
  const name = `test-${randomUUID().slice(0, 8)}`;
  if (admin.databaseUrl && Object.keys({ ...pool, ...workspace }).length === 0)
    return new TestTenant(
      admin,
      name,
      new FakeRunner(admin.as(await insertPool(admin, admin.databaseUrl, name))),
    );
  await writeResource(admin, 'pool', name, pool);
  await writeResource(admin, 'workspace', name, { pool: name, ...workspace });
  return new TestTenant(admin, name, await newFakeRunner(admin, name));
}

/** A test tenant with the agent `a` in its first run. */
export async function newWorkingTenant(
  admin: Api,
  spawn: Fields = {},
): Promise<{ readonly t: TestTenant; readonly run: Claim }> {
  const t = await newTestTenant(admin);
  await t.spawn('a', spawn);
  return { t, run: await t.start('a') };
}

/** The same, and the agent has said `count` things. */
export async function newTalkativeTenant(admin: Api, count: number): Promise<TestTenant> {
  const { t, run } = await newWorkingTenant(admin);
  const items = Array.from({ length: count }, (_, i) => ({ type: 'MESSAGE', text: `message ${i}` }));
  for (let i = 0; i < count; i += 500) await t.report(run, { items: items.slice(i, i + 500) });
  return t;
}

export const textsOf = (claim: Claim): string[] => claim.messages.map(({ text }) => text);

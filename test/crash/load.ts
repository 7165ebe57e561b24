import type { AgentStatus, SpawnReply } from '@muster/sdk/contract';
import { expect } from 'vitest';
import { runConcurrently } from '../support/async.ts';
import { encode } from '../support/catalog.ts';
import type { RetryingClient, Sent } from './retrying-client.ts';
import type { Store } from './store.ts';

interface Acknowledged<T> {
  readonly sent: Sent;
  readonly reply: T;
}

/**
 * A mixed load of mutations, and a record of what was acknowledged. Each lane sends one request at a time, and repeats it
 * unchanged until it is answered; so at the end the effects of all requests are known and can be counted.
 */
export class Load {
  readonly spawns: Acknowledged<SpawnReply>[] = [];
  readonly followUps: Acknowledged<{ followUpId: string }>[] = [];
  /** The last acknowledged value of each counter, by resource and by task. */
  readonly documents = new Map<string, number>();
  readonly tasks = new Map<string, number>();
  acknowledged = 0;
  readonly #client: RetryingClient;
  readonly #name: string;
  readonly #watchers = new Set<() => void>();
  #lanes: Promise<void>[] = [];
  #isOpen = false;
  #spawned = 0;

  constructor(client: RetryingClient, name: string) {
    this.#client = client;
    this.#name = name;
  }

  /**
   * Begins to send, with this many lanes of spawns and follow-ups, and one that alternates between a document and a
   * task. Each pauses between its jobs: 0 where requests have to be open at a certain moment, more where they only have
   * to go on for long.
   */
  open(lanes = 3, pauseMs = 0): void {
    this.#isOpen = true;
    const jobs = [
      ...Array.from({ length: lanes }, () => () => this.#spawnAndQueue()),
      async () => {
        await this.#writeDocument();
        await this.#updateTask();
      },
    ];
    this.#lanes = jobs.map(async (job) => {
      while (this.#isOpen) {
        await job();
        if (pauseMs > 0) await new Promise((resolve) => setTimeout(resolve, pauseMs));
      }
    });
    // The error of a lane is thrown by `more` and `close`.
    for (const lane of this.#lanes) lane.catch(() => {});
  }

  /** Resolves when this number of further requests was acknowledged. */
  async more(count: number): Promise<void> {
    const wanted = this.acknowledged + count;
    await Promise.race([
      ...this.#lanes,
      new Promise<void>((resolve) => {
        const look = () => {
          if (this.acknowledged < wanted) return;
          this.#watchers.delete(look);
          resolve();
        };
        this.#watchers.add(look);
      }),
    ]);
  }

  /** Sends no more, and resolves when every request was answered. */
  async close(): Promise<void> {
    this.#isOpen = false;
    await Promise.all(this.#lanes);
  }

  #acknowledge(): void {
    this.acknowledged += 1;
    for (const look of [...this.#watchers]) look();
  }

  async #spawnAndQueue(): Promise<void> {
    this.#spawned += 1;
    const name = `${this.#name}-${this.#spawned}`;
    const agentId = { agent: [name] };
    const spawn: Sent = {
      path: '/v1/agent/spawn',
      body: { agentId, description: `the work of ${name}`, model: 'rehearsal-a' },
      headers: { 'idempotency-key': name },
    };
    this.spawns.push({ sent: spawn, reply: await this.#client.accepted<SpawnReply>(spawn) });
    this.#acknowledge();
    for (let message = 1; message <= 3 && this.#isOpen; message += 1) {
      const followUpId = `${name}-message-${message}`;
      const queue: Sent = {
        path: '/v1/agent/queue',
        body: { agentId, followUpId, description: `!say ${followUpId}` },
      };
      this.followUps.push({ sent: queue, reply: await this.#client.accepted(queue) });
      this.#acknowledge();
    }
  }

  /** Counts up in a document; each write is conditional on the generation. */
  async #writeDocument(): Promise<void> {
    const name = `${this.#name}-document`;
    const before = this.documents.get(name) ?? 0;
    const write: Sent = {
      path: `/v1/catalog/persona/${name}`,
      body: { payload: encode({ instructions: `count ${before + 1}` }), ifGenerationMatch: String(before) },
    };
    const { answer, attempts } = await this.#client.send(write);
    const isRepeated = attempts > 1 && answer.status === 400;
    if (!isRepeated) expect(answer.status, JSON.stringify(answer.body)).toBe(200);
    // If the repeated write was refused, the first one had been accepted.
    await this.#expectDocument(name, before + 1);
    this.documents.set(name, before + 1);
    this.#acknowledge();
  }

  async #expectDocument(name: string, count: number): Promise<void> {
    const read = await this.#client.accepted<{ generation: string; payload: string }>({
      method: 'GET',
      path: `/v1/catalog/persona/${name}`,
    });
    const document = JSON.parse(Buffer.from(read.payload, 'base64').toString()) as { instructions: string };
    expect([read.generation, document.instructions]).toEqual([String(count), `count ${count}`]);
  }

  /** Counts up in the subject of a task. The first call spawns its agent. */
  async #updateTask(): Promise<void> {
    const name = `${this.#name}-checklist`;
    const agentId = { agent: [name] };
    const before = this.tasks.get(name);
    if (before === undefined) {
      const spawn: Sent = {
        path: '/v1/agent/spawn',
        body: { agentId, description: '!ask what now', model: 'rehearsal-a', tasks: [{ id: 'counter' }] },
        headers: { 'idempotency-key': name },
      };
      this.spawns.push({ sent: spawn, reply: await this.#client.accepted<SpawnReply>(spawn) });
    } else {
      const body = { agentId, id: 'counter', subject: `count ${before + 1}` };
      await this.#client.accepted({ path: '/v1/agent/tasks/update', body });
    }
    this.tasks.set(name, (before ?? -1) + 1);
    this.#acknowledge();
  }

  /** Returns a function that finds what was acknowledged by now and is not in the store. */
  snapshot(): (store: Store) => Promise<string[]> {
    const agents = this.spawns.map(({ reply }) => reply.agentId.agent.join('/'));
    const followUps = this.followUps.map(({ reply }) => reply.followUpId);
    const documents = [...this.documents];
    const tasks = [...this.tasks];
    return async (store) => {
      const lost = [
        ...(await store.missing('agents', 'path', agents)),
        ...(await store.missing('follow_ups', 'id', followUps)),
      ];
      for (const [name, count] of documents) {
        const sql = 'SELECT FROM resources WHERE name = $1 AND generation >= $2';
        if ((await store.count(sql, [name, count])) !== 1) lost.push(`${name} of generation ${count}`);
      }
      for (const [name, count] of tasks) {
        const sql = `SELECT FROM timeline t JOIN agents a ON a.id = t.agent
          WHERE a.path = $1 AND t.type = 'TASK_CHANGED'`;
        if ((await store.count(sql, [name])) < count) lost.push(`${count} changes of ${name}`);
      }
      return lost;
    };
  }

  /** When all agents are idle: repeats every request. The replies are the same, and the store does not change. */
  async replay(store: Store): Promise<void> {
    const everything = async () => [
      await store.rows('SELECT path, run_count, sequence FROM agents ORDER BY path'),
      await store.rows('SELECT name, generation FROM resources ORDER BY name'),
    ];
    const before = await everything();
    const all: readonly Acknowledged<unknown>[] = [...this.spawns, ...this.followUps];
    await runConcurrently(all.length, 8, async (index) => {
      const { sent, reply } = all[index] as Acknowledged<unknown>;
      // The state of a message is its current one.
      const expected = 'state' in (reply as object) ? { ...(reply as object), state: 'DELIVERED' } : reply;
      expect(await this.#client.accepted(sent)).toEqual(expected);
    });
    expect(await everything()).toEqual(before);
  }

  /** When all agents are idle: the effects are exactly those of the requests. */
  async checkCounts(store: Store): Promise<void> {
    const like = `${this.#name}-%`;
    const names = (table: string, column: string) =>
      store.rows<{ n: string }>(`SELECT ${column} AS n FROM ${table} WHERE ${column} LIKE $1 ORDER BY 1`, [
        like,
      ]);
    const sorted = (values: string[]) => values.map((n) => ({ n })).sort((a, b) => (a.n < b.n ? -1 : 1));
    expect(await names('agents', 'path')).toEqual(
      sorted(this.spawns.map(({ reply }) => reply.agentId.agent.join('/'))),
    );
    expect(await names('follow_ups', 'id')).toEqual(
      sorted(this.followUps.map(({ reply }) => reply.followUpId)),
    );
    const failed =
      "SELECT path, result, memory FROM agents JOIN agent_states ON agent = id WHERE path LIKE $1 AND reason IN ('ERROR', 'BLOCKED')";
    expect(await store.rows(failed, [like]), 'agents that failed').toEqual([]);
    const undelivered = "SELECT id, state FROM follow_ups WHERE id LIKE $1 AND state <> 'DELIVERED'";
    expect(await store.rows(undelivered, [like]), 'messages that were not delivered').toEqual([]);
    for (const [name, count] of this.documents) await this.#expectDocument(name, count);
    for (const [name, count] of this.tasks) {
      const { tasks } = await this.#client.accepted<AgentStatus>({
        path: '/v1/agent/status',
        body: { agentId: { agent: [name] } },
      });
      expect(tasks[0]?.subject).toBe(count === 0 ? '' : `count ${count}`);
    }
  }
}

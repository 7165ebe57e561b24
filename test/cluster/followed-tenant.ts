import { MusterClient } from '@muster/sdk';
import { expect } from 'vitest';
import { Load } from '../crash/load.ts';
import type { Node } from '../crash/node.ts';
import { RetryingClient } from '../crash/retrying-client.ts';
import type { Store } from '../crash/store.ts';
import { until } from '../support/async.ts';

const talker = 'talker';

/**
 * A tenant under load, whose clients use different nodes: one load of spawns, messages, documents and tasks, an agent whose
 * timeline is followed, a stream of the list, and a wait during each fault.
 */
export class FollowedTenant {
  readonly load: Load;
  readonly client: RetryingClient;
  readonly #name: string;
  readonly #follower: MusterClient;
  readonly #waiter: MusterClient;
  readonly #stop = new AbortController();
  readonly #sequences: number[] = [];
  readonly #phases = new Map<string, string>();
  readonly #following: Promise<void>[] = [];
  readonly #waits: Promise<string>[] = [];

  constructor(name: string, key: string, nodes: readonly [Node, Node, Node]) {
    const [loaded, followed, waited] = nodes;
    this.#name = name;
    this.client = new RetryingClient(
      { url: loaded.url, key },
      // A request may wait for a connection, and then for its turn in a batch.
      { timeoutMs: 60_000, withinMs: 180_000 },
    );
    this.load = new Load(this.client, name);
    this.#follower = new MusterClient({ url: followed.url, apiKey: key });
    this.#waiter = new MusterClient({ url: waited.url, apiKey: key });
  }

  /** Spawns the agent that is followed, and opens the streams. */
  async follow(): Promise<void> {
    await this.#spawn(talker, '!say hello');
    const { signal } = this.#stop;
    const timeline = async () => {
      for await (const entry of this.#follower.timelineStream(this.#path(talker), { signal }))
        this.#sequences.push(Number(entry.sequence));
    };
    const list = async () => {
      for await (const { agentId, phase } of this.#follower.listStream({}, { signal }))
        this.#phases.set(agentId.agent.join('/'), phase);
    };
    this.#following.push(timeline(), list());
    // An error is thrown by `check`.
    for (const following of this.#following) following.catch(() => {});
  }

  /** Before a fault: something to wait for, and something to follow. */
  async beginFault(number: number): Promise<void> {
    const name = `waited-${number}`;
    await this.#spawn(name, '!sleep 3\n!say woken');
    const wait = this.#waiter.wait(this.#path(name)).then(({ response }) => response);
    wait.catch(() => {});
    this.#waits.push(wait);
    await this.#queue(`before-${number}`);
  }

  async endFault(number: number): Promise<void> {
    await this.#queue(`after-${number}`);
  }

  /** When all agents are idle. */
  async check(store: Store): Promise<void> {
    expect(await Promise.all(this.#waits), 'every wait ends').toEqual(this.#waits.map(() => 'woken'));
    const [row] = await store.rows<{ sequence: string }>('SELECT sequence FROM agents WHERE path = $1', [
      this.#path(talker),
    ]);
    await until(
      'the whole timeline',
      async () => this.#sequences.at(-1),
      (last) => last === Number(row?.sequence),
    );
    expect(this.#sequences, 'each entry once, in order').toEqual(this.#sequences.map((_, i) => i + 1));
    const phases = async (): Promise<Record<string, string>> => {
      const found: Record<string, string> = {};
      for await (const { agentId, phase } of this.#follower.listAll()) found[agentId.agent.join('/')] = phase;
      return found;
    };
    const expected = await phases();
    await until(
      'the list as it is',
      async () => Object.entries(expected).filter(([path, phase]) => this.#phases.get(path) !== phase),
      (different) => different.length === 0,
    );
    await this.load.checkCounts(store);
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await Promise.allSettled(this.#following);
  }

  /** Unique among the tenants, because the store is searched by path. */
  #path(name: string): string {
    return `${this.#name}_${name}`;
  }

  #spawn(name: string, description: string): Promise<unknown> {
    const path = this.#path(name);
    return this.client.accepted({
      path: '/v1/agent/spawn',
      body: { agentId: { agent: [path] }, description, model: 'rehearsal-a' },
      headers: { 'idempotency-key': path },
    });
  }

  #queue(followUpId: string): Promise<unknown> {
    const agentId = { agent: [this.#path(talker)] };
    return this.client.accepted({
      path: '/v1/agent/queue',
      body: { agentId, followUpId, description: `!say ${followUpId}` },
    });
  }
}

import type { PollReply } from '@muster/sdk/contract';
import { expect, test } from 'vitest';
import { isRefusal, type Refusal } from '../../packages/service/src/domain/refusal.ts';
import { identity, spawn } from './samples.ts';
import { SimNode } from './sim-node.ts';
import { runnerPrincipal } from './sim-runner.ts';
import { Simulation } from './simulation.ts';

test('each poll of a runner begins with the tenant after the one whose run it claimed last', async () => {
  const simulation = new Simulation(1, 0);
  const { clock, tables } = simulation;
  simulation.hasFaults = false;
  const restore = clock.install();
  const node = new SimNode(simulation);
  const finished = async <T>(work: Promise<T>): Promise<T> => {
    let isDone = false;
    const result = work.finally(() => {
      isDone = true;
    });
    while (!isDone) await clock.step(Number.POSITIVE_INFINITY);
    return result;
  };
  try {
    for (const tenant of [1, 2])
      for (const name of ['a', 'b', 'c']) {
        const of = identity([name], tenant);
        const command = { ...spawn(`${name}${tenant}`, [name]), identity: of };
        await finished(node.transact.command({ identity: of }, command));
      }
    const claimed: (number | undefined)[] = [];
    const runs: { agentKey: string; runId: number }[] = [];
    for (let poll = 1; poll <= 4; poll += 1) {
      const reply: PollReply | Refusal = await finished(
        node.runners.poll(
          runnerPrincipal,
          {
            ...{ runnerId: 'r.1', name: 'r', poll, capabilities: [], backends: ['BACKEND_A'] },
            ...{ rehearses: true, free: { real: 0, rehearsed: 1 }, runs, waitMs: 0 },
          },
          new AbortController().signal,
        ),
      );
      if (isRefusal(reply)) throw new Error(reply.message);
      for (const { agentKey, runId } of reply.claims) {
        claimed.push(tables.agents.get(agentKey)?.agent.tenant);
        runs.push({ agentKey, runId });
      }
    }
    expect(claimed).toEqual([1, 2, 1, 2]);
  } finally {
    node.crash();
    restore();
  }
});

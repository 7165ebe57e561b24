import fc from 'fast-check';
import { afterAll, beforeAll, test } from 'vitest';
import type { Entry } from '../../packages/service/src/domain/agent.ts';
import { isRefusal } from '../../packages/service/src/domain/refusal.ts';
import { TimelineAudit } from '../simulation/timeline-audit.ts';
import { ModelService, type ModelTenant } from './model-tenant.ts';
import { anyStep, type Expected } from './steps.ts';

const runs = Number(process.env.MUSTER_MODEL_RUNS ?? 50);
const commands = Number(process.env.MUSTER_MODEL_COMMANDS ?? 40);
const concurrentRuns = 8;

let service: ModelService;
beforeAll(async () => {
  service = await ModelService.open();
});
afterAll(() => service?.close());

/** Every timeline is gapless, and the states of each follow-up follow each other as they may. */
async function checkTimelines({ agents }: Expected, real: ModelTenant): Promise<void> {
  for (const path of agents.keys()) {
    const page = await real.control.operations.timeline(real.caller, {
      agentId: real.agentId(path),
      limit: 1000,
    });
    if (isRefusal(page)) throw new Error(page.message);
    const audit = new TimelineAudit((id) => id.startsWith('set-'));
    for (const entry of page.entries) {
      // The suite moves times of delivery, so every message counts as due here.
      const data = entry.data.deliverAt ? { ...entry.data, deliverAt: entry.at } : entry.data;
      audit.take({ ...entry, data, sequence: Number(entry.sequence), runId: Number(entry.runId) } as Entry);
    }
    audit.atCommit();
  }
}

test(`${runs} runs of up to ${commands} commands behave as the model expects`, {
  timeout: 60_000 + runs * commands * 20,
}, async () => {
  const startedMs = performance.now();
  let steps = 0;
  const property = fc.asyncProperty(
    fc.commands([anyStep], { maxCommands: commands, size: 'max' }),
    async (sequence) => {
      const real = await service.newTenant();
      const expected: Expected = { agents: new Map(), held: new Map(), count: 0 };
      try {
        await fc.asyncModelRun(() => ({ model: expected, real }), sequence);
        await checkTimelines(expected, real);
        steps += [...sequence].length;
      } finally {
        // Leftover agents must not keep the timers of later runs busy.
        for (const path of ['a', 'b'])
          await real.control.operations.kill(real.caller, { agentId: real.agentId(path) });
      }
    },
  );
  // Each run has its own tenant, so several at once share the commits of the service and don't affect each other.
  const shares = Array.from({ length: concurrentRuns }, (_, i) =>
    Math.floor((runs + i) / concurrentRuns),
  ).filter((numRuns) => numRuns > 0);
  const results = await Promise.allSettled(
    shares.map((numRuns) => fc.assert(property, { numRuns, endOnFailure: false })),
  );
  const seconds = ((performance.now() - startedMs) / 1000).toFixed(1);
  process.stdout.write(`model: ${runs} runs, ${steps} commands, ${seconds} s\n`);
  for (const result of results) if (result.status === 'rejected') throw result.reason;
});

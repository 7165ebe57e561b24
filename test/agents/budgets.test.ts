import { describe, expect, it } from 'vitest';
import { until } from '../support/async.ts';
import { expectOk } from '../support/expect-reply.ts';
import { backends, patienceMs, reasonOf, type TestAgents, useTestService } from './test-service.ts';

/** An answer costs at least five dollars, more than a request reserves. */
const service = useTestService({}, async ({ stub }) => {
  stub.tokens = { input: 0, cached: 0, output: 200_000 };
});

const raise = async (agents: TestAgents, path: string, budgetUsd: number) =>
  expectOk(await agents.api.post('/v1/agent/budget', { agentId: agents.id(path), budgetUsd }));

const stoppedByBudget = (agents: TestAgents, path: string) =>
  until(
    `the budget of ${path}`,
    () => agents.idle(path),
    (status) => reasonOf(status) === 'WAITING_FOR_INPUT/BUDGET',
    patienceMs,
  );

describe('a budget', { timeout: 3 * patienceMs }, () => {
  it.each(backends)(
    'stops $title before and within a turn, which goes on when it is raised',
    async ({ name, model }) => {
      const agents = await service().emptyWorkspace();
      const marker = service().script({ shell: 'echo first' }, { say: 'Done.' });
      await agents.spawn(name, { model, description: `Begin. ${marker}`, budgetUsd: 0.01 });
      const { needsInput, cost } = await stoppedByBudget(agents, name);
      expect(needsInput).toContain('$0.01');
      expect(cost).toBe(0);
      expect(service().stub.requestsOf(marker)).toEqual([]);
      await raise(agents, name, 5.5);
      await agents.runEnded(name, 2);
      const stopped = await stoppedByBudget(agents, name);
      expect(stopped.cost).toBeGreaterThan(0);
      expect(service().stub.requestsOf(marker)).toHaveLength(1);
      await raise(agents, name, 1_000);
      const { response } = await agents.runEnded(name, 3);
      expect(response).toBe('Done.');
      expect(await agents.outcomes(name)).toEqual(['PARKED', 'PARKED', 'COMPLETED']);
      const warnings = await agents.warnings(name);
      expect(warnings.filter((text) => /budget/.test(text))).toHaveLength(2);
      expect(warnings.join('\n')).not.toMatch(/limit|continues at|takes over/i);
    },
  );

  it('stops a rehearsed turn in the same way', async () => {
    const agents = await service().emptyWorkspace();
    const description = '!usage 1 0 1 0.6\n!usage 1 0 1 0.6\n!say done';
    await agents.spawn('rehearsed', { description, budgetUsd: 1 });
    expect((await stoppedByBudget(agents, 'rehearsed')).cost).toBeCloseTo(0.6);
    await raise(agents, 'rehearsed', 2);
    const { response, cost } = await agents.runEnded('rehearsed', 2);
    expect(response).toBe('done');
    expect(cost).toBeCloseTo(1.8);
  });
});

import type { Claim, TimelineEntry } from '@muster/sdk/contract';
import { expect, test } from 'vitest';
import { useDatabase } from '../support/database.ts';
import { expectRunFenced } from '../support/expect-reply.ts';
import { useSharedServer } from '../support/shared-server.ts';
import { newTestTenant, newWorkingTenant } from '../support/test-tenant.ts';

/** Reports that only append to a timeline are stored without loading the agent. */
const { api, databaseUrl } = await useSharedServer({ runner: false });
const database = await useDatabase(databaseUrl);

const items = [
  { type: 'TOOL_CALL', text: 'npm test', data: { id: '1', nested: { list: [1, 'two', null] } } },
  { type: 'MESSAGE', text: 'It fails.' },
  { type: 'MESSAGE', text: '' },
  { type: 'THINKING' },
];

test('a report of output has the effects of one that is decided', async () => {
  const t = await newTestTenant(api);
  const seen = [];
  // `started` has to be decided, and changes nothing once the run works.
  for (const [path, more] of Object.entries({ stored: {}, decided: { started: true } })) {
    await t.spawn(path, { tasks: [{ id: 'one', subject: 'One' }] });
    const run = await t.start(path);
    const replies = [
      await t.report(run, { items, currentAction: 'Running npm test', ...more }),
      await t.report(run, { currentAction: 'Thinking', ...more }),
      await t.report(run, { items: [{ type: 'WARNING', text: 'Full.' }], omitTasks: true, ...more }),
    ];
    const { run: live, response, phase, phaseReason } = await t.status(path);
    const timeline = await t.timeline(path);
    seen.push({
      replies,
      status: { response, phase, phaseReason, state: live?.state, currentAction: live?.currentAction },
      responses: (await t.runs(path)).map((each) => each.response),
      timeline: timeline.map(({ at: _at, ...entry }) => entry),
    });
  }
  expect(seen[0]).toMatchObject({ status: { response: 'It fails.', currentAction: 'Thinking' } });
  expect(seen[0]).toEqual(seen[1]);
});

test('a repeated report of output is stored once, even if both arrive together', async () => {
  const { t, run } = await newWorkingTenant(api);
  const send = (report: number) =>
    t.runner.report(run, { items: [{ type: 'MESSAGE', text: `report ${report}` }] }, report);
  const answers = await Promise.all([send(2), send(2), send(2)]);
  answers.push(await send(3), await send(2));
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200]);
  expect((await t.timeline('a', 'MESSAGE')).map(({ text }) => text)).toEqual(['report 2', 'report 3']);
});

test('a report of output on an agent that another transaction has locked is stored after it', async () => {
  const { t, run } = await newWorkingTenant(api);
  const other = await newWorkingTenant(api);
  let isAnswered = false;
  await database.query('BEGIN');
  await database.query('SELECT FROM agents WHERE id = $1 FOR UPDATE', [run.agentKey]);
  const report = t.report(run, { items }).finally(() => {
    isAnswered = true;
  });
  // A report on another agent does not wait for it.
  await other.t.report(other.run, { items });
  expect(isAnswered).toBe(false);
  await database.query('COMMIT');
  await report;
  expect(await t.timeline('a', 'TOOL_CALL')).toHaveLength(1);
});

test('output, messages and a kill at the same time leave an ordered timeline without gaps', async () => {
  const { t, run } = await newWorkingTenant(api);
  let acknowledged = 0;
  const write = async (): Promise<void> => {
    for (;;) {
      const answer = await t.runner.report(run, { items });
      if (answer.status !== 200) return expectRunFenced(answer);
      acknowledged += 1;
    }
  };
  const talk = async (): Promise<void> => {
    for (let i = 0; i < 40; i += 1) await t.queue('a', `message ${i}`);
    await t.kill('a');
  };
  await Promise.all([write(), talk()]);
  const timeline = await t.timeline('a');
  expectOrdered(timeline);
  expect(timeline.filter(({ type }) => type === 'TOOL_CALL')).toHaveLength(acknowledged);
  const end = timeline.findIndex(({ type }) => type === 'RUN_ENDED');
  expect(timeline.slice(end).filter(({ type }) => type === 'TOOL_CALL')).toEqual([]);
});

test('reports of many agents that are stored together get their own replies', async () => {
  const t = await newTestTenant(api);
  const paths = Array.from({ length: 20 }, (_, i) => `agent-${i}`);
  const runs: Claim[] = [];
  for (const path of paths) {
    await t.spawn(path, { tasks: [{ id: `task of ${path}`, subject: path }] });
    runs.push(await t.start(path));
  }
  const killed = runs[3] as Claim;
  await t.kill('agent-3');
  const answers = await Promise.all(
    runs.map((run, i) => t.runner.report(run, { items: [{ type: 'MESSAGE', text: `said ${i}` }] })),
  );
  for (const [i, path] of paths.entries()) {
    const answer = answers[i];
    if (runs[i] === killed) {
      expectRunFenced(answer as never);
      continue;
    }
    expect(answer?.body).toMatchObject({ stop: '', activeTaskIds: [`task of ${path}`] });
    expect((await t.timeline(path, 'MESSAGE')).map(({ text }) => text)).toEqual([`said ${i}`]);
    expectOrdered(await t.timeline(path));
  }
});

test('a plan of an unknown shape is an entry, and no plan in the status', async () => {
  const { t, run } = await newWorkingTenant(api);
  const steps = [{ text: 'Read', status: 'COMPLETED' }];
  await t.report(run, {
    items: [{ type: 'PLAN', text: '1 of 1', data: { steps } }],
    currentAction: 'Reading',
  });
  expect((await t.status('a')).plan?.steps).toEqual(steps);
  for (const data of [{}, { steps: 'all' }, { steps: [null, 7, { text: 7, status: 'DONE' }] }])
    await t.report(run, { items: [{ type: 'PLAN', data }] });
  expect((await t.status('a')).plan).toBeNull();
  expect(await t.timeline('a', 'PLAN')).toHaveLength(4);
});

function expectOrdered(timeline: readonly TimelineEntry[]): void {
  expect(timeline.map(({ sequence }) => Number(sequence))).toEqual(timeline.map((_, i) => i + 1));
  const times = timeline.map(({ at }) => Date.parse(at));
  expect(times).toEqual([...times].sort((a, b) => a - b));
}

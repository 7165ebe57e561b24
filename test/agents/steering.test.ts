import { describe, expect, it } from 'vitest';
import { until } from '../support/async.ts';
import { expectOk } from '../support/expect-reply.ts';
import { png, uploadTo } from '../support/images.ts';
import { TestRunners } from './test-runners.ts';
import {
  backends,
  claudeCode,
  codex,
  contentOf,
  gate,
  patienceMs,
  type TestAgents,
  timesIn,
  useTestService,
} from './test-service.ts';

const service = useTestService();

/** How often the live runners have polled. */
const polls = async (): Promise<number> => {
  const rows = await service().query<{ polls: string }>('SELECT sum(polls) AS polls FROM runners');
  return Number(rows[0]?.polls);
};

/** Sends a message into the running turn. Resolves when its runner has polled again, after it gave it to the harness. */
async function steer(
  agents: TestAgents,
  path: string,
  text: string,
  more: { readonly tasks?: readonly object[]; readonly attachmentIds?: readonly string[] } = {},
): Promise<string> {
  const before = await polls();
  const followUpId = await agents.queue(path, { description: text, ...more, steer: true });
  await until('another poll', polls, (count) => count > before, patienceMs);
  const delivered = 'SELECT id FROM attachments WHERE id = ANY ($1) AND delivered_at IS NOT NULL';
  const { attachmentIds = [] } = more;
  await until(
    'its runner has the images',
    () => service().query(delivered, [attachmentIds]),
    ({ length }) => length === attachmentIds.length,
    patienceMs,
  );
  return followUpId;
}

const uploaded = async (agents: TestAgents, path: string, image: Buffer): Promise<string> =>
  expectOk(await uploadTo(agents.api, agents.id(path), image)).attachmentId;

/** How the agent got messages, without the description of its spawn. */
const deliveries = async (agents: TestAgents, path: string) =>
  (await agents.timeline(path, 'FOLLOW_UP_DELIVERED')).map(({ runId, followUpId, data }) => ({
    followUpId,
    runId,
    steer: data.steer === true,
  }));

describe.concurrent.each(backends)('$title', ({ model }) => {
  it('gets a steering message in the turn that is running, with its tasks and images, and images of other messages', async () => {
    const agents = await service().emptyWorkspace();
    const begin = gate();
    const marker = service().script(
      { until: begin.promise },
      { shell: 'true' },
      { shell: 'true' },
      { tool: 'complete_task', args: { id: 'left' } },
      { say: 'I turned left.' },
      { say: 'I turned left.' },
    );
    const parking = service().script({ say: 'I parked.' });
    await agents.spawn('a', { model, description: `Drive. ${marker}` });
    await service().asked(marker);
    const [now, later] = [png(model), png(`${model} later`)];
    await agents.queue('a', {
      followUpId: 'later',
      description: `Park. ${parking}`,
      model,
      attachmentIds: [await uploaded(agents, 'a', later)],
    });
    const followUpId = await steer(agents, 'a', 'Turn left at the mill.', {
      tasks: [{ id: 'left', subject: 'Turn left' }],
      attachmentIds: [await uploaded(agents, 'a', now)],
    });
    begin.open();
    const rested = await agents.runEnded('a', 2);
    expect(await deliveries(agents, 'a')).toEqual([
      { followUpId, runId: '1', steer: true },
      { followUpId: 'later', runId: '2', steer: false },
    ]);
    const [second, first] = await agents.runs('a');
    expect(first).toMatchObject({
      outcome: 'COMPLETED',
      followUpIds: [followUpId],
      response: 'I turned left.',
    });
    expect(second).toMatchObject({ followUpIds: ['later'] });
    expect(rested.tasks).toMatchObject([{ id: 'left', status: 'TASK_STATUS_COMPLETED' }]);
    const requests = service().stub.requestsOf(marker).map(contentOf);
    const told = requests.findIndex((text) => text.includes('Turn left at the mill.'));
    expect(told).toBeGreaterThan(0);
    expect(requests[told]).toContain('left: Turn left');
    expect(requests[told]).toContain(now.toString('base64'));
    expect(contentOf(service().firstRequest(parking))).toContain(later.toString('base64'));
    // In the same turn: the model had not got the next message yet.
    expect(requests[told]).not.toContain('Park.');
    expect(timesIn(requests.at(-1) ?? '', 'Turn left at the mill.')).toBe(1);
  });
});

it('no steering message is lost when the runner dies, whether or not the harness had taken it', {
  timeout: 150_000,
}, async () => {
  const runners = await TestRunners.create(service());
  const { agents } = runners;
  const here = await runners.start();
  const [begin, stuck] = [gate(), gate()];
  const isTaken = (name: string) => name === codex.name;
  const markers = await Promise.all(
    backends.map(async ({ name, model }) => {
      const marker = service().script(
        ...(isTaken(name) ? [{ until: begin.promise }, { shell: 'true' }] : []),
        { until: stuck.promise },
        { shell: 'true' },
        { say: 'Done.' },
        { say: 'Done.' },
      );
      await agents.spawn(name, { model, description: `Drive. ${marker}` });
      await service().asked(marker);
      await steer(agents, name, 'Turn left at the mill.');
      return marker;
    }),
  );
  begin.open();
  await until(
    'taken by Codex',
    () => deliveries(agents, codex.name),
    ({ length }) => length === 1,
    patienceMs,
  );
  expect(await deliveries(agents, claudeCode.name)).toEqual([]);
  await runners.lose(here);
  await Promise.all(backends.map(({ name }) => runners.lost(name)));
  stuck.open();
  await runners.start();
  for (const [i, { name }] of backends.entries()) {
    expect(await agents.idle(name)).toMatchObject({ followUps: [], error: null });
    expect(await deliveries(agents, name)).toMatchObject([{ steer: true }]);
    expect(contentOf(service().lastRequest(markers[i] ?? ''))).toContain('Turn left at the mill.');
  }
});

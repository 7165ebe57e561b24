import type { AgentStatus } from '@muster/sdk/contract';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { SeenRequest, Step } from '../provider/script.ts';
import { type Agents, inMs } from '../support/agents.ts';
import { until } from '../support/async.ts';
import { uniqueName, writeResource } from '../support/catalog.ts';
import { held, patienceMs, timesIn } from './crew.ts';
import { backends, type Fleet, startFleet } from './fleet.ts';
import { sessionOf, settingsIn, toldIn } from './requests.ts';

let fleet: Fleet;
beforeAll(async () => {
  fleet = await startFleet();
});
afterAll(() => fleet.close());

const script = (...steps: Step[]): string => fleet.stub.script(steps);

/** The first request of a script. */
const firstOf = (marker: string): SeenRequest => {
  const [first] = fleet.stub.requestsOf(marker);
  if (!first) throw new Error(`no request of ${marker}`);
  return first;
};

const whenAsked = (marker: string): Promise<unknown> =>
  until(
    `a request of ${marker}`,
    async () => fleet.stub.requestsOf(marker).length,
    (n) => n > 0,
    patienceMs,
  );

const untilRuns = (agents: Agents, path: string, count: number): Promise<AgentStatus> =>
  until(
    `${path} at rest after ${count} runs`,
    () => agents.status(path),
    ({ run }) => Number(run?.runId) === count && run?.state === 'ENDED',
    patienceMs,
  );

const outcomes = async (agents: Agents, path: string): Promise<string[]> =>
  (await agents.runs(path)).map(({ outcome }) => outcome).reverse();

const reasonOf = ({ phase, phaseReason }: AgentStatus): string =>
  `${phase.slice('PHASE_'.length)}/${phaseReason}`;

async function persona(instructions: string): Promise<string> {
  const name = uniqueName('persona');
  await writeResource(fleet.api, 'persona', name, { instructions });
  return name;
}

const schemaOf = (field: string, type: string): string =>
  JSON.stringify({
    type: 'object',
    properties: { [field]: { type } },
    required: [field],
    additionalProperties: false,
  });

describe.each(backends)('$title', ({ model, otherModel, provider }) => {
  const isCodex = provider === 'openai';

  it('is given a message that came while it worked in the next run of the same session', async () => {
    const agents = await fleet.plain();
    const gate = held();
    const first = script({ until: gate.promise }, { say: 'The first answer.' });
    const second = script({ say: 'The second answer.' });
    await agents.spawn('a', { model, description: `Begin. ${first}` });
    await whenAsked(first);
    const followUpId = await agents.queue('a', `Go on. ${second}`);
    expect((await agents.status('a')).followUps).toMatchObject([{ followUpId, state: 'QUEUED' }]);
    expect(fleet.stub.requestsOf(second)).toEqual([]);
    gate.release();

    const status = await untilRuns(agents, 'a', 2);
    expect(status).toMatchObject({ response: 'The second answer.', followUps: [] });
    expect(await outcomes(agents, 'a')).toEqual(['COMPLETED', 'COMPLETED']);
    const [delivered, ...more] = await agents.timeline('a', 'FOLLOW_UP_DELIVERED');
    expect(more).toEqual([]);
    expect(delivered).toMatchObject({ followUpId, runId: '2' });
    const told = toldIn(firstOf(second));
    for (const words of ['Begin.', 'The first answer.', 'Go on.']) expect(told).toContain(words);
    expect(sessionOf(firstOf(second))).toBe(sessionOf(firstOf(first)));
  });

  it('is cut by a preempting message, which clears the queue and goes first', async () => {
    const agents = await fleet.plain();
    const first = script({ until: held().promise }, { say: 'Never said.' });
    const cleared = script({ say: 'Never said either.' });
    const urgent = script({ say: 'At once.' });
    await agents.spawn('a', { model, description: `Begin. ${first}` });
    await whenAsked(first);
    const clearedId = await agents.queue('a', `Later. ${cleared}`);
    const urgentId = await agents.queue('a', { description: `Now. ${urgent}`, preempt: true });

    const status = await untilRuns(agents, 'a', 2);
    expect(reasonOf(status)).toBe('WAITING_FOR_INPUT/RESTING');
    expect(status).toMatchObject({ response: 'At once.', followUps: [] });
    expect(await outcomes(agents, 'a')).toEqual(['INTERRUPTED', 'COMPLETED']);
    expect(fleet.stub.requestsOf(cleared)).toEqual([]);
    expect(await agents.timeline('a', 'FOLLOW_UP_CLEARED')).toMatchObject([{ followUpId: clearedId }]);
    expect(await agents.timeline('a', 'FOLLOW_UP_DELIVERED')).toMatchObject([
      { followUpId: urgentId, runId: '2' },
    ]);
    expect(toldIn(firstOf(urgent))).toContain('Begin.');
    expect(sessionOf(firstOf(urgent))).toBe(sessionOf(firstOf(first)));
  });

  it('is woken from its rest by a deferred message', async () => {
    const agents = await fleet.plain();
    const first = script({ say: 'Done for now.' });
    const later = script({ say: 'Good morning.' });
    await agents.spawn('a', { model, description: `Begin. ${first}` });
    await agents.wait('a');
    const deliverAt = inMs(1500);
    const followUpId = await agents.queue('a', { description: `Wake up. ${later}`, deliverAt });
    expect((await agents.status('a')).followUps).toMatchObject([{ followUpId, state: 'DEFERRED' }]);

    expect(await untilRuns(agents, 'a', 2)).toMatchObject({ response: 'Good morning.' });
    expect(firstOf(later).at).toBeGreaterThanOrEqual(Date.parse(deliverAt));
    expect(toldIn(firstOf(later))).toContain('Done for now.');
  });

  it('works with new settings from the next run on, and keeps them and its session', async () => {
    const agents = await fleet.plain();
    const gate = held();
    const before = script({ until: gate.promise }, { shell: 'true' }, { say: 'The old way.' });
    const changed = script({ shell: 'true' }, { say: 'The new way.' });
    const kept = script({ say: 'Still the new way.' });
    const [sailor, pirate] = [await persona('Speak like a sailor.'), await persona('Speak like a pirate.')];
    await agents.spawn('a', {
      model: otherModel,
      reasoningEffort: 'low',
      persona: sailor,
      description: `Begin. ${before}`,
    });
    await whenAsked(before);
    await agents.queue('a', {
      description: `Change. ${changed}`,
      model,
      reasoningEffort: 'xhigh',
      fastMode: true,
      agent: pirate,
    });
    gate.release();
    await untilRuns(agents, 'a', 2);
    await agents.queue('a', `Keep. ${kept}`);
    const status = await untilRuns(agents, 'a', 3);

    const fast = isCodex ? 'priority' : 'fast';
    expect(fleet.stub.requestsOf(before).map(settingsIn)).toEqual(
      Array(2).fill({ model: otherModel, effort: 'low', speed: undefined }),
    );
    for (const marker of [changed, kept]) {
      for (const request of fleet.stub.requestsOf(marker)) {
        expect(settingsIn(request)).toEqual({ model, effort: 'xhigh', speed: fast });
        expect(toldIn(request)).toContain('Speak like a pirate.');
        expect(sessionOf(request)).toBe(sessionOf(firstOf(before)));
      }
    }
    for (const request of fleet.stub.requestsOf(before)) {
      expect(toldIn(request)).toContain('Speak like a sailor.');
      expect(toldIn(request)).not.toContain('Speak like a pirate.');
    }
    const told = toldIn(firstOf(kept));
    for (const words of ['Begin.', 'The old way.', 'Change.', 'The new way.']) expect(told).toContain(words);
    expect(status).toMatchObject({ model, reasoningEffort: 'xhigh', fastMode: true, persona: pirate });
    expect(await agents.timeline('a', 'ERROR')).toEqual([]);
  });

  if (isCodex)
    it('asks for another service tier from the next run on', async () => {
      const agents = await fleet.plain();
      const markers = [1, 2, 3].map(() => script({ say: 'Done.' }));
      const [first = '', second = '', third = ''] = markers;
      await agents.spawn('a', { model, description: first });
      await agents.wait('a');
      await agents.queue('a', { description: second, serviceTier: 'flex' });
      await untilRuns(agents, 'a', 2);
      await agents.queue('a', third);
      await untilRuns(agents, 'a', 3);
      expect(markers.map((marker) => settingsIn(firstOf(marker)).speed)).toEqual([undefined, 'flex', 'flex']);
    });

  it('is told its persona, its checklist and what is expected before anything else', async () => {
    const agents = await fleet.plain();
    const marker = script({ say: 'I see.' });
    await agents.spawn('a', {
      model,
      description: `Begin. ${marker}`,
      expectedOutput: 'A haiku about clouds.',
      persona: await persona('You never use the letter q.'),
      tasks: [
        { id: 'sweep', subject: 'Sweep the floor', activation: { filesModified: { pattern: '*.md' } } },
      ],
    });
    await agents.wait('a');
    const told = toldIn(firstOf(marker));
    for (const words of ['A haiku about clouds.', 'You never use the letter q.', 'sweep: Sweep the floor'])
      expect(told).toContain(words);
  });

  describe('with an output schema', () => {
    const schema = schemaOf('answer', 'integer');
    /** How often the runner sent an output back. */
    const corrections = (marker: string): number => {
      const last = fleet.stub.requestsOf(marker).at(-1);
      return last ? timesIn(toldIn(last), 'Your structured output does not match the schema:') : 0;
    };

    it('corrects what does not fit', async () => {
      const agents = await fleet.plain();
      const marker = script({ output: { answer: 'many' } }, { output: { answer: 42 } });
      await agents.spawn('a', { model, description: marker, outputSchema: schema });
      const status = await agents.wait('a');
      expect(status).toMatchObject({ structuredOutput: { answer: 42 }, error: null });
      expect(await outcomes(agents, 'a')).toEqual(['COMPLETED']);
      expect(fleet.stub.requestsOf(marker).length).toBeGreaterThanOrEqual(2);
    });

    it('is sent back by the runner once when it gives none, and then follows a new schema', async () => {
      const agents = await fleet.plain();
      // Claude Code reminds the model by itself before it rests.
      const silent: Step[] = isCodex ? [{ say: 'No.' }] : [{ say: 'No.' }, { say: 'No.' }];
      const marker = script(...silent, { output: { answer: 42 } });
      await agents.spawn('a', { model, description: marker, outputSchema: schema });
      expect(await agents.wait('a')).toMatchObject({ structuredOutput: { answer: 42 }, error: null });
      expect(corrections(marker)).toBe(1);

      const other = script({ output: { name: 'Ada' } });
      await agents.queue('a', { description: other, outputSchema: schemaOf('name', 'string') });
      expect(await untilRuns(agents, 'a', 2)).toMatchObject({
        structuredOutput: { name: 'Ada' },
        error: null,
      });
      expect(sessionOf(firstOf(other))).toBe(sessionOf(firstOf(marker)));
    });

    it('blocks the agent when it does not fit after the correction', async () => {
      const agents = await fleet.plain();
      const marker = script(...Array<Step>(20).fill({ output: { answer: 'many' } }));
      await agents.spawn('a', { model, description: marker, outputSchema: schema });
      const status = await agents.wait('a');
      expect(reasonOf(status)).toBe('WAITING_FOR_INPUT/BLOCKED');
      expect(status.error).toMatchObject({ code: 'INVALID_STRUCTURED_OUTPUT' });
      expect(await outcomes(agents, 'a')).toEqual(['FAILED']);
      if (isCodex) expect(fleet.stub.requestsOf(marker)).toHaveLength(2);
    });

    it('blocks the agent when it gives none after the correction', async () => {
      const agents = await fleet.plain();
      const marker = script({ say: 'No.' });
      await agents.spawn('a', { model, description: marker, outputSchema: schema });
      expect((await agents.wait('a')).error).toMatchObject({ code: 'INVALID_STRUCTURED_OUTPUT' });
      expect(corrections(marker)).toBe(1);
    });
  });

  describe('with a checklist', () => {
    const tasks = [{ id: 'sweep', subject: 'Sweep the floor' }];
    const reminders = async (agents: Agents): Promise<number> =>
      (await agents.timeline('a', 'WARNING')).filter(({ text }) => /^Reminder \d of 3/.test(text)).length;

    it('is reminded three times of what is unfinished, and then rests', async () => {
      const agents = await fleet.plain();
      const marker = script({ say: 'Done, I think.' });
      await agents.spawn('a', { model, description: marker, tasks });
      expect(reasonOf(await agents.wait('a'))).toBe('WAITING_FOR_INPUT/TASKS_UNFINISHED');
      expect(await reminders(agents)).toBe(3);
      expect(await outcomes(agents, 'a')).toEqual(['COMPLETED']);
      const requests = fleet.stub.requestsOf(marker);
      expect(requests).toHaveLength(4);
      expect(requests.map((request) => timesIn(toldIn(request), 'Your turn is not over:'))).toEqual([
        0, 1, 2, 3,
      ]);
    });

    it('is not reminded again of what it then finishes', async () => {
      const agents = await fleet.plain();
      const marker = script(
        { say: 'Done.' },
        { tool: 'complete_task', args: { id: 'sweep' } },
        { say: 'Done indeed.' },
      );
      await agents.spawn('a', { model, description: marker, tasks });
      const status = await agents.wait('a');
      expect(reasonOf(status)).toBe('WAITING_FOR_INPUT/RESTING');
      expect(status).toMatchObject({
        response: 'Done indeed.',
        tasks: [{ status: 'TASK_STATUS_COMPLETED' }],
      });
      expect(await reminders(agents)).toBe(1);
    });
  });

  it('asks, goes on with the answer in the same session, and finishes', async () => {
    const agents = await fleet.plain();
    const asking = script({ tool: 'ask', args: { question: 'Red or blue?' } }, { say: 'I have asked.' });
    await agents.spawn('a', { model, description: `Paint it. ${asking}` });
    const asked = await agents.wait('a');
    expect(reasonOf(asked)).toBe('WAITING_FOR_INPUT/QUESTION');
    expect(asked.needsInput).toBe('Red or blue?');
    expect(await agents.timeline('a', 'QUESTION')).toMatchObject([{ text: 'Red or blue?', runId: '1' }]);

    const finishing = script({ tool: 'finish', args: { summary: 'It is blue.' } }, { say: 'Painted.' });
    await agents.queue('a', `Blue. ${finishing}`);
    const finished = await untilRuns(agents, 'a', 2);
    expect(reasonOf(finished)).toBe('COMPLETED/FINISHED');
    expect(finished).toMatchObject({ needsInput: '', response: 'Painted.' });
    expect(toldIn(firstOf(finishing))).toContain('I have asked.');
    expect(sessionOf(firstOf(finishing))).toBe(sessionOf(firstOf(asking)));
  });

  describe('with a child', () => {
    const spawnChild = (description: string): Step => ({
      tool: 'spawn_child',
      args: { name: 'kid', description, model },
    });

    it('that starts from its branch, rests until the child ends, and is told how', async () => {
      const { agents } = await fleet.workspace();
      const gate = held();
      const child = script(
        { shell: 'cat heirloom.txt; git log --format=%s' },
        { until: gate.promise },
        { tool: 'finish', args: { summary: 'It is read.' } },
        { say: 'I have read it.' },
      );
      const parent = script(
        { write: { path: 'heirloom.txt', text: 'a golden watch\n' } },
        { shell: 'git add --all && git commit --quiet --message "Leave it" && git push' },
        spawnChild(`Read the file. ${child}`),
        { say: 'I wait.' },
        { say: 'My child is done.' },
      );
      await agents.spawn('a', { model, description: `Delegate. ${parent}` });
      await until(
        'a parent at rest',
        () => agents.phase('a'),
        (phase) => phase === 'PENDING/CHILDREN',
        patienceMs,
      );
      gate.release();

      const status = await untilRuns(agents, 'a', 2);
      expect(reasonOf(status)).toBe('WAITING_FOR_INPUT/RESTING');
      expect(status.response).toBe('My child is done.');
      expect(await agents.phase('a/kid')).toBe('COMPLETED/FINISHED');
      const [, read] = fleet.stub.requestsOf(child);
      expect(read && toldIn(read)).toContain('a golden watch');
      expect(read && toldIn(read)).toContain('Leave it');
      const woken = fleet.stub.requestsOf(parent).at(-1);
      const news = 'Your child a/kid has finished. It said: I have read it.';
      expect(woken && toldIn(woken)).toContain(news);
      expect(woken && sessionOf(woken)).toBe(sessionOf(firstOf(parent)));
      expect(sessionOf(firstOf(child))).not.toBe(sessionOf(firstOf(parent)));
      expect(await outcomes(agents, 'a')).toEqual(['COMPLETED', 'COMPLETED']);
    });

    it('that it waits for, hears of it within the run, and there is no further run', async () => {
      const agents = await fleet.plain();
      const gate = held();
      const child = script({ until: gate.promise }, { say: 'Seven of nine.' });
      const parent = script(
        spawnChild(`Count. ${child}`),
        { tool: 'wait_for_children', args: { timeoutSeconds: 600 } },
        { say: 'I have heard.' },
      );
      await agents.spawn('a', { model, description: `Delegate. ${parent}` });
      await until(
        'a parent that waits',
        () => agents.timeline('a', 'TOOL_CALL'),
        (calls) => calls.some(({ data }) => String(data.tool).endsWith('wait_for_children')),
        patienceMs,
      );
      gate.release();
      const status = await agents.wait('a');
      expect(reasonOf(status)).toBe('WAITING_FOR_INPUT/RESTING');
      expect(status).toMatchObject({ runCount: '1', response: 'I have heard.' });
      const told = fleet.stub.requestsOf(parent).at(-1);
      expect(told && toldIn(told)).toContain('Seven of nine.');
    });

    it('that it messages and kills', async () => {
      const agents = await fleet.plain();
      const first = script({ say: 'What now?' });
      const second = script({ until: held().promise }, { say: 'Never said.' });
      const parent = script(
        spawnChild(`Begin. ${first}`),
        { tool: 'wait_for_children', args: { timeoutSeconds: 600 } },
        { tool: 'message_child', args: { child: 'kid', text: `Go on. ${second}` } },
        { until: fleet.stub.whenSeen((request) => fleet.stub.requestsOf(second).includes(request)) },
        { tool: 'kill_child', args: { child: 'kid' } },
        { say: 'It is gone.' },
      );
      await agents.spawn('a', { model, description: `Delegate. ${parent}` });
      const status = await agents.wait('a');
      expect(reasonOf(status)).toBe('WAITING_FOR_INPUT/RESTING');
      expect(status).toMatchObject({ runCount: '1', response: 'It is gone.' });
      expect(await agents.phase('a/kid')).toBe('CANCELED/KILLED');
      expect(toldIn(firstOf(second))).toContain('What now?');
      expect(await outcomes(agents, 'a/kid')).toEqual(['COMPLETED', 'KILLED']);
    });
  });
});

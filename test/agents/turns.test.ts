import { describe, expect, it } from 'vitest';
import type { SeenRequest, Step } from '../provider/script.ts';
import { inMs } from '../support/agents.ts';
import { until } from '../support/async.ts';
import { uniqueName, writeResource } from '../support/catalog.ts';
import {
  backends,
  contentOf,
  gate,
  patienceMs,
  reasonOf,
  sessionOf,
  settingsIn,
  type TestAgents,
  timesIn,
  useTestService,
} from './test-service.ts';

const service = useTestService();

const script = (...steps: Step[]): string => service().script(...steps);
const requestsOf = (marker: string): SeenRequest[] => service().stub.requestsOf(marker);
const firstOf = (marker: string): SeenRequest => service().firstRequest(marker);
const lastContent = (marker: string): string => contentOf(service().lastRequest(marker));

async function persona(instructions: string): Promise<string> {
  const name = uniqueName('persona');
  await writeResource(service().api, 'persona', name, { instructions });
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

  it('gets queued, deferred and preempting messages in later runs of the same session', async () => {
    const agents = await service().emptyWorkspace();
    const answer = gate();
    const first = script({ until: answer.promise }, { say: 'The first answer.' });
    const second = script({ say: 'The second answer.' });
    await agents.spawn('a', { model, description: `Begin. ${first}` });
    await service().asked(first);
    // Only Codex has service tiers.
    const tier = isCodex ? { serviceTier: 'flex' } : {};
    const queuedId = await agents.queue('a', { description: `Continue. ${second}`, ...tier });
    expect((await agents.status('a')).followUps).toMatchObject([{ followUpId: queuedId, state: 'QUEUED' }]);
    expect(requestsOf(second)).toEqual([]);
    answer.open();
    expect(await agents.runEnded('a', 2)).toMatchObject({ response: 'The second answer.', followUps: [] });
    for (const text of ['Begin.', 'The first answer.', 'Continue.'])
      expect(contentOf(firstOf(second))).toContain(text);

    const later = script({ say: 'Good morning.' });
    const deliverAt = inMs(1500);
    const deferredId = await agents.queue('a', { description: `Wake up. ${later}`, deliverAt });
    expect((await agents.status('a')).followUps).toMatchObject([
      { followUpId: deferredId, state: 'DEFERRED' },
    ]);
    expect(await agents.runEnded('a', 3)).toMatchObject({ response: 'Good morning.' });
    expect(firstOf(later).at).toBeGreaterThanOrEqual(Date.parse(deliverAt));
    expect(contentOf(firstOf(later))).toContain('The second answer.');
    if (isCodex)
      expect([first, second, later].map((marker) => settingsIn(firstOf(marker)).speed)).toEqual([
        undefined,
        'flex',
        'flex',
      ]);

    const endless = script({ until: gate().promise }, { say: 'Never said.' });
    const cleared = script({ say: 'Never said either.' });
    const urgent = script({ say: 'Immediately.' });
    const endlessId = await agents.queue('a', `Start something long. ${endless}`);
    await service().asked(endless);
    const clearedId = await agents.queue('a', `Later. ${cleared}`);
    const urgentId = await agents.queue('a', { description: `Now. ${urgent}`, preempt: true });
    const status = await agents.runEnded('a', 5);
    expect(reasonOf(status)).toBe('WAITING_FOR_INPUT/RESTING');
    expect(status).toMatchObject({ response: 'Immediately.', followUps: [] });
    expect(requestsOf(cleared)).toEqual([]);
    expect(await agents.timeline('a', 'FOLLOW_UP_CLEARED')).toMatchObject([{ followUpId: clearedId }]);
    expect(contentOf(firstOf(urgent))).toContain('Begin.');

    const completed = 'COMPLETED';
    expect(await agents.outcomes('a')).toEqual([completed, completed, completed, 'INTERRUPTED', completed]);
    const delivered = await agents.timeline('a', 'FOLLOW_UP_DELIVERED');
    expect(delivered.map(({ followUpId, runId }) => [followUpId, runId])).toEqual([
      [queuedId, '2'],
      [deferredId, '3'],
      [endlessId, '4'],
      [urgentId, '5'],
    ]);
    const sessions = [first, second, later, endless, urgent].map((marker) => sessionOf(firstOf(marker)));
    expect(new Set(sessions).size).toBe(1);
  });

  it('gets its persona, checklist and expected output first; new settings apply from the next run on', async () => {
    const agents = await service().emptyWorkspace();
    const answer = gate();
    const before = script({ until: answer.promise }, { shell: 'true' }, { say: 'The old way.' });
    const changed = script({ shell: 'true' }, { say: 'The new way.' });
    const kept = script({ say: 'Still the new way.' });
    const [sailor, pirate] = [await persona('Speak like a sailor.'), await persona('Speak like a pirate.')];
    await agents.spawn('a', {
      model: otherModel,
      reasoningEffort: 'low',
      persona: sailor,
      description: `Begin. ${before}`,
      expectedOutput: 'A haiku about clouds.',
      tasks: [
        { id: 'sweep', subject: 'Sweep the floor', activation: { filesModified: { pattern: '*.md' } } },
      ],
    });
    await service().asked(before);
    for (const text of ['A haiku about clouds.', 'Speak like a sailor.', 'sweep: Sweep the floor'])
      expect(contentOf(firstOf(before))).toContain(text);
    await agents.queue('a', {
      description: `Change. ${changed}`,
      model,
      reasoningEffort: 'xhigh',
      fastMode: true,
      agent: pirate,
    });
    answer.open();
    await agents.runEnded('a', 2);
    await agents.queue('a', `Keep. ${kept}`);
    const status = await agents.runEnded('a', 3);

    const fast = isCodex ? 'priority' : 'fast';
    expect(requestsOf(before).map(settingsIn)).toEqual(
      Array(2).fill({ model: otherModel, effort: 'low', speed: undefined }),
    );
    for (const request of [...requestsOf(changed), ...requestsOf(kept)]) {
      expect(settingsIn(request)).toEqual({ model, effort: 'xhigh', speed: fast });
      expect(contentOf(request)).toContain('Speak like a pirate.');
      expect(sessionOf(request)).toBe(sessionOf(firstOf(before)));
    }
    for (const request of requestsOf(before)) {
      expect(contentOf(request)).toContain('Speak like a sailor.');
      expect(contentOf(request)).not.toContain('Speak like a pirate.');
    }
    for (const text of ['Begin.', 'The old way.', 'Change.', 'The new way.'])
      expect(contentOf(firstOf(kept))).toContain(text);
    expect(status).toMatchObject({ model, reasoningEffort: 'xhigh', fastMode: true, persona: pirate });
    expect(await agents.timeline('a', 'ERROR')).toEqual([]);
  });

  describe('with an output schema', () => {
    const schema = schemaOf('answer', 'integer');
    /** How often the runner sent an output back. */
    const corrections = (marker: string): number =>
      timesIn(lastContent(marker), 'Your structured output does not match the schema:');

    it('is asked once for a missing output, then follows a new schema and corrects an output', async () => {
      const agents = await service().emptyWorkspace();
      // Claude Code reminds the model by itself before the turn ends.
      const missing: Step[] = isCodex ? [{ say: 'No.' }] : [{ say: 'No.' }, { say: 'No.' }];
      const marker = script(...missing, { output: { answer: 42 } });
      await agents.spawn('a', { model, description: marker, outputSchema: schema });
      expect(await agents.wait('a')).toMatchObject({ structuredOutput: { answer: 42 }, error: null });
      expect(corrections(marker)).toBe(1);

      const other = script({ output: { name: 7 } }, { output: { name: 'Ada' } });
      await agents.queue('a', { description: other, outputSchema: schemaOf('name', 'string') });
      expect(await agents.runEnded('a', 2)).toMatchObject({
        structuredOutput: { name: 'Ada' },
        error: null,
      });
      expect(await agents.outcomes('a')).toEqual(['COMPLETED', 'COMPLETED']);
      expect(requestsOf(other).length).toBeGreaterThanOrEqual(2);
      expect(sessionOf(firstOf(other))).toBe(sessionOf(firstOf(marker)));
    });

    it('is blocked if the output does not match after the correction', async () => {
      const agents = await service().emptyWorkspace();
      const marker = script(...Array<Step>(20).fill({ output: { answer: 'many' } }));
      await agents.spawn('a', { model, description: marker, outputSchema: schema });
      const status = await agents.wait('a');
      expect(reasonOf(status)).toBe('WAITING_FOR_INPUT/BLOCKED');
      expect(status.error).toMatchObject({ code: 'INVALID_STRUCTURED_OUTPUT' });
      expect(await agents.outcomes('a')).toEqual(['FAILED']);
      if (isCodex) expect(requestsOf(marker)).toHaveLength(2);
    });

    it('is blocked if there is no output after the correction', async () => {
      const agents = await service().emptyWorkspace();
      const marker = script({ say: 'No.' });
      await agents.spawn('a', { model, description: marker, outputSchema: schema });
      expect((await agents.wait('a')).error).toMatchObject({ code: 'INVALID_STRUCTURED_OUTPUT' });
      expect(corrections(marker)).toBe(1);
    });
  });

  describe('with a checklist', () => {
    const tasks = [{ id: 'sweep', subject: 'Sweep the floor' }];
    const reminders = async (agents: TestAgents): Promise<number> =>
      (await agents.warnings('a')).filter((text) => /^Reminder \d of 3/.test(text)).length;

    it('is reminded three times of unfinished tasks, and then waits for input', async () => {
      const agents = await service().emptyWorkspace();
      const marker = script({ say: 'Done, I think.' });
      await agents.spawn('a', { model, description: marker, tasks });
      expect(reasonOf(await agents.wait('a'))).toBe('WAITING_FOR_INPUT/TASKS_UNFINISHED');
      expect(await reminders(agents)).toBe(3);
      expect(await agents.outcomes('a')).toEqual(['COMPLETED']);
      expect(
        requestsOf(marker).map((request) => timesIn(contentOf(request), 'Your turn is not over:')),
      ).toEqual([0, 1, 2, 3]);
    });

    it('is not reminded again of a task that it then finishes', async () => {
      const agents = await service().emptyWorkspace();
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

  it('asks a question, continues with the answer in the same session, and finishes', async () => {
    const agents = await service().emptyWorkspace();
    const asking = script({ tool: 'ask', args: { question: 'Red or blue?' } }, { say: 'I have asked.' });
    await agents.spawn('a', { model, description: `Paint it. ${asking}` });
    const asked = await agents.wait('a');
    expect(reasonOf(asked)).toBe('WAITING_FOR_INPUT/QUESTION');
    expect(asked.needsInput).toBe('Red or blue?');
    expect(await agents.timeline('a', 'QUESTION')).toMatchObject([{ text: 'Red or blue?', runId: '1' }]);

    const finishing = script({ tool: 'finish', args: { summary: 'It is blue.' } }, { say: 'Painted.' });
    await agents.queue('a', `Blue. ${finishing}`);
    const finished = await agents.runEnded('a', 2);
    expect(reasonOf(finished)).toBe('COMPLETED/FINISHED');
    expect(finished).toMatchObject({ needsInput: '', response: 'Painted.' });
    expect(contentOf(firstOf(finishing))).toContain('I have asked.');
    expect(sessionOf(firstOf(finishing))).toBe(sessionOf(firstOf(asking)));
  });

  describe('with a child', () => {
    const spawnChild = (description: string): Step => ({
      tool: 'spawn_child',
      args: { name: 'kid', description, model },
    });

    it('that starts from its branch, is idle until the child ends, and gets its result', async () => {
      const { agents } = await service().workspace();
      const answer = gate();
      const child = script(
        { shell: 'cat heirloom.txt; git log --format=%s' },
        { until: answer.promise },
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
        'a parent that waits for its child',
        () => agents.phase('a'),
        (phase) => phase === 'PENDING/CHILDREN',
        patienceMs,
      );
      answer.open();

      const status = await agents.runEnded('a', 2);
      expect(reasonOf(status)).toBe('WAITING_FOR_INPUT/RESTING');
      expect(status.response).toBe('My child is done.');
      expect(await agents.phase('a/kid')).toBe('COMPLETED/FINISHED');
      const [, read] = requestsOf(child).map(contentOf);
      expect(read).toContain('a golden watch');
      expect(read).toContain('Leave it');
      const result = 'Your child a/kid has finished. It said: I have read it.';
      expect(lastContent(parent)).toContain(result);
      expect(sessionOf(service().lastRequest(parent))).toBe(sessionOf(firstOf(parent)));
      expect(sessionOf(firstOf(child))).not.toBe(sessionOf(firstOf(parent)));
      expect(await agents.outcomes('a')).toEqual(['COMPLETED', 'COMPLETED']);
    });

    it('that it waits for, messages and kills within one run', async () => {
      const agents = await service().emptyWorkspace();
      const answer = gate();
      const first = script({ until: answer.promise }, { say: 'Seven of nine. What now?' });
      const second = script({ until: gate().promise }, { say: 'Never said.' });
      const parent = script(
        spawnChild(`Count. ${first}`),
        { tool: 'wait_for_children', args: { timeoutSeconds: 600 } },
        { tool: 'message_child', args: { child: 'kid', text: `Continue. ${second}` } },
        { until: service().stub.whenSeen((request) => requestsOf(second).includes(request)) },
        { tool: 'kill_child', args: { child: 'kid' } },
        { say: 'It is gone.' },
      );
      await agents.spawn('a', { model, description: `Delegate. ${parent}` });
      await until(
        'a parent that waits',
        () => agents.timeline('a', 'TOOL_CALL'),
        (calls) => calls.some(({ data }) => String(data.tool).endsWith('wait_for_children')),
        patienceMs,
      );
      answer.open();
      const status = await agents.wait('a');
      expect(reasonOf(status)).toBe('WAITING_FOR_INPUT/RESTING');
      expect(status).toMatchObject({ runCount: '1', response: 'It is gone.' });
      expect(lastContent(parent)).toContain('Seven of nine.');
      expect(await agents.phase('a/kid')).toBe('CANCELED/KILLED');
      expect(contentOf(firstOf(second))).toContain('What now?');
      expect(await agents.outcomes('a/kid')).toEqual(['COMPLETED', 'KILLED']);
    });
  });
});

import { describe, expect, it } from 'vitest';
import type { SeenRequest, Step } from '../provider/script.ts';
import { inMs } from '../support/agents.ts';
import { until } from '../support/async.ts';
import { uniqueName, writeResource } from '../support/catalog.ts';
import {
  claudeCanaries,
  claudeProject,
  codexCanaries,
  codexProject,
  projectTool,
  seenIn,
} from '../support/project-settings.ts';
import {
  backends,
  claudeCode,
  codex,
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

const service = useTestService({}, async ({ stub }) => {
  stub.tokens = { input: 1000, cached: 400, output: 50 };
});

const script = (...steps: Step[]): string => service().script(...steps);
const requestsOf = (marker: string): SeenRequest[] => service().stub.requestsOf(marker);
const firstOf = (marker: string): SeenRequest => service().firstRequest(marker);
const lastContent = (marker: string): string => contentOf(service().lastRequest(marker));

async function persona(instructions: string): Promise<string> {
  const name = uniqueName('persona');
  await writeResource(service().api, 'persona', name, { instructions });
  return name;
}

/** How often the agent `a` was reminded of unfinished tasks. */
const reminders = async (agents: TestAgents): Promise<number> =>
  (await agents.warnings('a')).filter((text) => /^Reminder \d of 3/.test(text)).length;

const schemaOf = (field: string, type: string): string =>
  JSON.stringify({
    type: 'object',
    properties: { [field]: { type } },
    required: [field],
    additionalProperties: false,
  });

/** How often the runner sent an output back. */
const correctionsOf = (marker: string): number =>
  timesIn(lastContent(marker), 'Your structured output does not match the schema:');

describe.concurrent.each(backends)('$title', ({ model, otherModel, provider }) => {
  const isCodex = provider === 'openai';

  it('gets queued, deferred and preempting messages, answers and new settings in later runs of the same session, and finishes', async () => {
    const agents = await service().emptyWorkspace();
    const begin = gate();
    const first = script(
      { until: begin.promise },
      { say: 'Done.' },
      { tool: 'complete_task', args: { id: 'dust' } },
      { say: 'The old way.' },
    );
    const [sailor, pirate] = [await persona('Speak like a sailor.'), await persona('Speak like a pirate.')];
    await agents.spawn('a', {
      model: otherModel,
      reasoningEffort: 'low',
      persona: sailor,
      description: `Begin. ${first}`,
      expectedOutput: 'A haiku about clouds.',
      tasks: [
        { id: 'sweep', subject: 'Sweep the floor', activation: { filesModified: { pattern: '*.md' } } },
        { id: 'dust', subject: 'Dust the shelves' },
      ],
    });
    await service().asked(first);
    for (const text of ['A haiku about clouds.', 'Speak like a sailor.', 'sweep: Sweep the floor'])
      expect(contentOf(firstOf(first))).toContain(text);

    const steps = [{ text: 'Look at the new way', status: 'in_progress' as const }];
    const second = script({ plan: steps }, { say: 'The new way.' });
    const settings = { model, reasoningEffort: 'xhigh', fastMode: true };
    const queuedId = await agents.queue('a', {
      description: `Change. ${second}`,
      ...settings,
      agent: pirate,
    });
    expect((await agents.status('a')).followUps).toMatchObject([{ followUpId: queuedId, state: 'QUEUED' }]);
    expect(requestsOf(second)).toEqual([]);
    begin.open();
    const rested = await agents.runEnded('a', 2);
    expect(reasonOf(rested)).toBe('WAITING_FOR_INPUT/RESTING');
    const completing = (await agents.timeline('a', 'TOOL_CALL', 'TASK_CHANGED')).filter(
      ({ data }) => String(data.tool).endsWith('complete_task') || data.status === 'TASK_STATUS_COMPLETED',
    );
    expect(completing.map(({ type }) => type)).toEqual(['TOOL_CALL', 'TASK_CHANGED']);
    expect(rested).toMatchObject({
      ...settings,
      persona: pirate,
      response: 'The new way.',
      followUps: [],
      tasks: [{ status: 'TASK_STATUS_PENDING' }, { status: 'TASK_STATUS_COMPLETED' }],
      plan: { steps: [{ text: 'Look at the new way', status: 'IN_PROGRESS' }] },
    });
    expect(Number(rested.context?.usedTokens)).toBeGreaterThanOrEqual(1400);
    expect(Number(rested.context?.windowTokens)).toBeGreaterThan(100_000);
    // Not again after the task was finished.
    expect(await reminders(agents)).toBe(1);

    const asking = script({ tool: 'ask', args: { question: 'Red or blue?' } }, { say: 'I have asked.' });
    const deliverAt = inMs(3000);
    const deferredId = await agents.queue('a', { description: `Paint it. ${asking}`, deliverAt });
    expect((await agents.status('a')).followUps).toMatchObject([
      { followUpId: deferredId, state: 'DEFERRED' },
    ]);
    const asked = await agents.runEnded('a', 3);
    expect(firstOf(asking).at).toBeGreaterThanOrEqual(Date.parse(deliverAt));
    expect(reasonOf(asked)).toBe('WAITING_FOR_INPUT/QUESTION');
    expect(asked).toMatchObject({ needsInput: 'Red or blue?', response: 'I have asked.' });
    expect(await agents.timeline('a', 'QUESTION')).toMatchObject([{ text: 'Red or blue?', runId: '3' }]);
    for (const text of ['Begin.', 'The old way.', 'Change.', 'The new way.'])
      expect(contentOf(firstOf(asking))).toContain(text);

    const endless = script({ until: gate().promise }, { say: 'Never said.' });
    const cleared = script({ say: 'Never said either.' });
    const urgent = script({ tool: 'finish', args: { summary: 'It is blue.' } }, { say: 'Painted.' });
    // Only Codex has service tiers.
    const tier = isCodex ? { serviceTier: 'flex', fastMode: false } : {};
    const endlessId = await agents.queue('a', { description: `Blue. ${endless}`, ...tier });
    await service().asked(endless);
    const clearedId = await agents.queue('a', `Later. ${cleared}`);
    const urgentId = await agents.queue('a', { description: `Now. ${urgent}`, preempt: true });
    const finished = await agents.runEnded('a', 5);
    expect(reasonOf(finished)).toBe('COMPLETED/FINISHED');
    expect(finished).toMatchObject({ response: 'Painted.', needsInput: '', followUps: [] });
    expect(requestsOf(cleared)).toEqual([]);
    expect(await agents.timeline('a', 'FOLLOW_UP_CLEARED')).toMatchObject([{ followUpId: clearedId }]);
    expect(contentOf(firstOf(endless))).toContain('I have asked.');
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
    expect(await agents.timeline('a', 'ERROR')).toEqual([]);

    const fast = isCodex ? 'priority' : 'fast';
    expect(requestsOf(first).map(settingsIn)).toEqual(
      Array(3).fill({ model: otherModel, effort: 'low', speed: undefined }),
    );
    for (const request of requestsOf(first)) {
      expect(contentOf(request)).toContain('Speak like a sailor.');
      expect(contentOf(request)).not.toContain('Speak like a pirate.');
    }
    const speeds = [second, asking, endless, urgent].flatMap((marker) =>
      requestsOf(marker).map((request) => {
        expect(settingsIn(request)).toMatchObject({ model, effort: 'xhigh' });
        expect(contentOf(request)).toContain('Speak like a pirate.');
        expect(sessionOf(request)).toBe(sessionOf(firstOf(first)));
        return settingsIn(request).speed;
      }),
    );
    const last = isCodex ? 'flex' : fast;
    expect(speeds).toEqual([fast, fast, fast, fast, last, last, last]);
  });

  it('is blocked if its structured output does not match after the correction', async () => {
    const agents = await service().emptyWorkspace();
    const marker = script(...Array<Step>(20).fill({ output: { answer: 'many' } }));
    await agents.spawn('a', { model, description: marker, outputSchema: schemaOf('answer', 'integer') });
    const status = await agents.wait('a');
    expect(reasonOf(status)).toBe('WAITING_FOR_INPUT/BLOCKED');
    expect(status.error).toMatchObject({ code: 'INVALID_STRUCTURED_OUTPUT' });
    expect(await agents.outcomes('a')).toEqual(['FAILED']);
    if (isCodex) expect(requestsOf(marker)).toHaveLength(2);
  });
});

// What happens between the turns does not depend on the backend.
describe.concurrent('Codex', () => {
  const { model } = codex;

  it('is blocked if the structured output is still missing after the correction', async () => {
    const agents = await service().emptyWorkspace();
    const marker = script({ say: 'No.' });
    await agents.spawn('a', { model, description: marker, outputSchema: schemaOf('answer', 'integer') });
    expect((await agents.wait('a')).error).toMatchObject({ code: 'INVALID_STRUCTURED_OUTPUT' });
    expect(correctionsOf(marker)).toBe(1);
  });

  it('starts a child from its branch, is idle until it ends and gets its result; then waits for, messages and kills one within a run', async () => {
    const spawnChild = (name: string, description: string): Step => ({
      tool: 'spawn_child',
      args: { name, description, model },
    });
    const { agents } = await service().workspace();
    const reading = gate();
    const reader = script(
      { shell: 'cat heirloom.txt; git log --format=%s' },
      { until: reading.promise },
      { tool: 'finish', args: { summary: 'It is read.' } },
      { say: 'I have read it.' },
    );
    const counting = gate();
    const counter = script({ until: counting.promise }, { say: 'Seven of nine. What now?' });
    const counterAgain = script({ until: gate().promise }, { say: 'Never said.' });
    const parent = script(
      { write: { path: 'heirloom.txt', text: 'a golden watch\n' } },
      { shell: 'git add --all && git commit --quiet --message "Leave it" && git push' },
      spawnChild('reader', `Read the file. ${reader}`),
      { say: 'I wait.' },
      spawnChild('counter', `Count. ${counter}`),
      { tool: 'wait_for_children', args: { timeoutSeconds: 600 } },
      { tool: 'message_child', args: { child: 'counter', text: `Continue. ${counterAgain}` } },
      { until: service().stub.whenSeen((request) => requestsOf(counterAgain).includes(request)) },
      { tool: 'kill_child', args: { child: 'counter' } },
      ...Array<Step>(4).fill({ say: 'It is gone.' }),
    );
    await agents.spawn('a', { model, description: `Delegate. ${parent}` });
    await until(
      'a parent that waits for its child',
      () => agents.phase('a'),
      (phase) => phase === 'PENDING/CHILDREN',
      patienceMs,
    );
    reading.open();
    await until(
      'a parent that waits during its run',
      () => agents.timeline('a', 'TOOL_CALL'),
      (calls) => calls.some(({ data }) => String(data.tool).endsWith('wait_for_children')),
      patienceMs,
    );
    await agents.addTasks('a', { id: 'sweep', subject: 'Sweep the floor' });
    counting.open();
    const status = await agents.runEnded('a', 2);

    expect(await agents.phase('a/reader')).toBe('COMPLETED/FINISHED');
    const [, read] = requestsOf(reader).map(contentOf);
    expect(read).toContain('a golden watch');
    expect(read).toContain('Leave it');
    expect(lastContent(parent)).toContain('Your child a/reader has finished. It said: I have read it.');
    expect(sessionOf(service().lastRequest(parent))).toBe(sessionOf(firstOf(parent)));
    expect(sessionOf(firstOf(reader))).not.toBe(sessionOf(firstOf(parent)));
    expect(await agents.outcomes('a')).toEqual(['COMPLETED', 'COMPLETED']);

    expect(lastContent(parent)).toContain('Seven of nine.');
    expect(await agents.phase('a/counter')).toBe('CANCELED/KILLED');
    expect(contentOf(firstOf(counterAgain))).toContain('What now?');
    expect(await agents.outcomes('a/counter')).toEqual(['COMPLETED', 'KILLED']);

    const spawns = (await agents.timeline('a', 'TOOL_CALL', 'CHILD_SPAWNED')).filter(
      ({ type, data }) => type === 'CHILD_SPAWNED' || data.tool === 'spawn_child',
    );
    expect(spawns.map(({ type }) => type)).toEqual([
      ...['TOOL_CALL', 'CHILD_SPAWNED'],
      ...['TOOL_CALL', 'CHILD_SPAWNED'],
    ]);

    // Three reminders of unfinished tasks; then it waits for input.
    expect(reasonOf(status)).toBe('WAITING_FOR_INPUT/TASKS_UNFINISHED');
    expect(status).toMatchObject({ runCount: '2', response: 'It is gone.' });
    expect(await reminders(agents)).toBe(3);
    const turns = requestsOf(parent).map((request) => timesIn(contentOf(request), 'Your turn is not over:'));
    expect(turns.slice(-4)).toEqual([0, 1, 2, 3]);
  });
});

/** Codex also has another protocol for some models. */
const protocols = [...backends, { ...codex, title: 'Codex in code mode', model: 'gpt-5.6-sol' }];

describe.concurrent.each(protocols)('$title', ({ model, provider }) => {
  it('edits, commits, pushes, completes its tasks, and is asked once for a missing structured output; then follows a new schema and corrects an output', async () => {
    const { agents, remote } = await service().workspace({ 'README.md': '# Demo\n', 'src/a.txt': 'a\n' });
    const main = remote.tip('main');
    const answer = gate();
    const marker = service().script(
      { until: answer.promise },
      { think: 'A file is wanted.' },
      { write: { path: 'src/b.txt', text: 'b\n' } },
      { shell: 'git add --all && git commit --quiet --message "Add b" && git push' },
      { tool: 'update_task', args: { id: 'code', status: 'completed' } },
      { tool: 'update_task', args: { id: 'docs', status: 'completed' } },
      // Claude Code reminds the model by itself before the turn ends.
      ...Array<Step>(provider === 'openai' ? 1 : 2).fill({ say: 'No.' }),
      { output: { answer: 42 } },
    );
    await agents.spawn('worker', {
      model,
      description: `Add the file b. ${marker}`,
      expectedOutput: 'The answer.',
      outputSchema: schemaOf('answer', 'integer'),
      tasks: [
        { id: 'code', subject: 'Write it' },
        { id: 'docs', subject: 'Document it', activation: { filesModified: { pattern: 'src/**' } } },
        { id: 'web', subject: 'Show it', activation: { filesModified: { pattern: 'web/**' } } },
      ],
    });
    await agents.doing('worker', 'Waiting for the model');
    answer.open();
    const status = await agents.wait('worker');

    expect(status).toMatchObject({
      phase: 'PHASE_WAITING_FOR_INPUT',
      phaseReason: 'RESTING',
      rehearsed: false,
      structuredOutput: { answer: 42 },
      repos: [remote.url],
      diffStat: { files: 1, insertions: 1, deletions: 0 },
      error: null,
    });
    expect(status.tasks.map(({ id, status: s }) => `${id} ${s.slice('TASK_STATUS_'.length)}`)).toEqual([
      'code COMPLETED',
      'docs COMPLETED',
      'web PENDING',
    ]);
    const pushed = remote.tip(status.branch);
    expect(remote.git('rev-parse', `${status.branch}^`)).toBe(main);
    expect(remote.git('show', `${status.branch}:src/b.txt`)).toBe('b');
    expect(remote.tip('main')).toBe(main);

    const [push, ...morePushes] = await agents.timeline('worker', 'PUSH');
    expect(morePushes).toEqual([]);
    expect(push?.data).toMatchObject({ ref: status.branch, commits: [pushed], files: ['src/b.txt'] });
    const { body } = await agents.send('agent/diff', 'worker');
    expect(body.diff).toContain('+b');

    const requests = service().stub.requestsOf(marker);
    expect(requests.every((request) => request.provider === provider)).toBe(true);
    expect(Number(status.inputTokens)).toBe(1400 * requests.length);
    expect(Number(status.cachedInputTokens)).toBe(400 * requests.length);
    expect(Number(status.outputTokens)).toBe(50 * requests.length);
    const [run] = await agents.runs('worker');
    expect(run).toMatchObject({ outcome: 'COMPLETED', inputTokens: status.inputTokens, cost: status.cost });

    const timeline = await agents.timeline('worker');
    expect(timeline.filter(({ type }) => type === 'ERROR' || type === 'WARNING')).toEqual([]);
    const called = timeline.findIndex(({ type, text }) => type === 'TOOL_CALL' && text.includes('git push'));
    expect(called).toBeGreaterThan(-1);
    expect(called).toBeLessThan(timeline.findIndex(({ type }) => type === 'PUSH'));
    expect(timeline.some(({ type, text }) => type === 'THINKING' && text.includes('A file is wanted'))).toBe(
      true,
    );
    expect(correctionsOf(marker)).toBe(1);

    const other = script({ output: { name: 7 } }, { output: { name: 'Ada' } });
    await agents.queue('worker', { description: other, outputSchema: schemaOf('name', 'string') });
    expect(await agents.runEnded('worker', 2)).toMatchObject({
      structuredOutput: { name: 'Ada' },
      error: null,
    });
    expect(await agents.outcomes('worker')).toEqual(['COMPLETED', 'COMPLETED']);
    expect(requestsOf(other).length).toBeGreaterThanOrEqual(2);
    expect(sessionOf(firstOf(other))).toBe(sessionOf(firstOf(marker)));
  });
});

describe.concurrent.each([
  { ...claudeCode, project: claudeProject, canaries: claudeCanaries },
  { ...codex, project: codexProject, canaries: codexCanaries },
])('$title', ({ model, project, canaries }) => {
  it("reads the repository's own settings, runs their hooks and servers in its sandbox, and is reminded once to push", async () => {
    const { agents, remote } = await service().workspace(project);
    const commit = (name: string) =>
      `echo ${name} > ${name} && git add ${name} && git commit --quiet --message ${name}`;
    const marker = service().script(
      projectTool,
      { shell: `${commit('one')} && ${commit('two')}` },
      { say: 'Committed.' },
      { shell: `git push --quiet && ${commit('three')}` },
      { say: 'Pushed two of three.' },
    );
    await agents.spawn('reader', { model, description: `Commit. ${marker}` });
    const { response, branch } = await agents.wait('reader');
    expect(seenIn(service().stub.requestsOf(marker), canaries)).toEqual(canaries);
    expect(response).toBe('Pushed two of three.');
    expect(remote.git('log', '--format=%s', branch)).toMatch(/^two\none\n/);
    expect(await agents.warnings('reader')).toEqual(['Reminder: 2 commits are not pushed.']);
    const content = contentOf(service().lastRequest(marker));
    expect(content).toContain('2 commits of your branches are not pushed');
  });
});

describe('a push that changes CI definitions', () => {
  const description = `!write .github/workflows/x.yml on: push
!run git add --all && git commit --quiet --message x && git push
!say done`;

  it('is refused with a warning unless the workspace allows it', async () => {
    const { agents, remote } = await service().workspace({ 'README.md': '# Demo\n' });
    await agents.spawn('refused', { model: 'rehearsal-a', description });
    expect(await agents.wait('refused')).toMatchObject({ phase: 'PHASE_WAITING_FOR_INPUT', branch: '' });
    expect(await agents.warnings('refused')).toEqual([
      'Push refused: the push changes CI definitions (.github/workflows/x.yml), which this workspace does not allow. To allow it, set allowCiChanges: true in the workspace.',
      'Reminder: 1 commit is not pushed.',
    ]);
    expect(remote.refs()).toEqual(['main']);

    const allowed = await service().workspace({ 'README.md': '# Demo\n' }, { allowCiChanges: true });
    await allowed.agents.spawn('allowed', { model: 'rehearsal-a', description });
    const { branch } = await allowed.agents.wait('allowed');
    expect(allowed.remote.git('show', `${branch}:.github/workflows/x.yml`)).toBe('on: push');
  });
});

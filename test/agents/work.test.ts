import { describe, expect, it } from 'vitest';
import {
  claudeCanaries,
  claudeProject,
  codexCanaries,
  codexProject,
  projectTool,
  seenIn,
} from '../support/project-settings.ts';
import { backends, claudeCode, codex, contentOf, gate, useTestService } from './test-service.ts';

const service = useTestService();

const schema = JSON.stringify({
  type: 'object',
  properties: { answer: { type: 'integer' } },
  required: ['answer'],
  additionalProperties: false,
});

/** Codex also has another protocol for some models. */
const protocols = [...backends, { ...codex, title: 'Codex in code mode', model: 'gpt-5.6-sol' }];

describe.each(protocols)('$title', ({ model, provider }) => {
  it('edits, commits, pushes, completes its tasks and returns structured output', async () => {
    const { agents, remote } = await service().workspace({ 'README.md': '# Demo\n', 'src/a.txt': 'a\n' });
    const main = remote.git('rev-parse', 'main');
    service().stub.tokens = { input: 1000, cached: 400, output: 50 };
    const answer = gate();
    const marker = service().script(
      { until: answer.promise },
      { think: 'A file is wanted.' },
      { write: { path: 'src/b.txt', text: 'b\n' } },
      { shell: 'git add --all && git commit --quiet --message "Add b" && git push' },
      { tool: 'update_task', args: { id: 'code', status: 'completed' } },
      { tool: 'update_task', args: { id: 'docs', status: 'completed' } },
      { output: { answer: 42 } },
    );
    await agents.spawn('worker', {
      model,
      description: `Add the file b. ${marker}`,
      expectedOutput: 'The answer.',
      outputSchema: schema,
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
    const pushed = remote.git('rev-parse', status.branch);
    expect(remote.git('rev-parse', `${status.branch}^`)).toBe(main);
    expect(remote.git('show', `${status.branch}:src/b.txt`)).toBe('b');
    expect(remote.git('rev-parse', 'main')).toBe(main);

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
  });
});

describe.each([
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
    ]);
    expect(remote.git('for-each-ref', '--format=%(refname:short)')).toBe('main');

    const allowed = await service().workspace({ 'README.md': '# Demo\n' }, { allowCiChanges: true });
    await allowed.agents.spawn('allowed', { model: 'rehearsal-a', description });
    const { branch } = await allowed.agents.wait('allowed');
    expect(allowed.remote.git('show', `${branch}:.github/workflows/x.yml`)).toBe('on: push');
  });
});

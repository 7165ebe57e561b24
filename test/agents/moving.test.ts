import { existsSync, mkdtempSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { until } from '../support/async.ts';
import { createKey } from '../support/catalog.ts';
import {
  agentsOn,
  inSessionFile,
  inWorkspace,
  leftOfRuns,
  secondAttempt,
  TestRunners,
  withoutRunner,
} from './test-runners.ts';
import {
  type Backend,
  backends,
  claudeCode,
  codex,
  gate,
  MusterRunner,
  patienceMs,
  processesWith,
  timesIn,
  useTestService,
} from './test-service.ts';

const service = useTestService(withoutRunner);

const commitAll = 'git add --all && git commit --quiet --message Work && git push';

const processesGone = (agentKey: string): Promise<string[]> =>
  until(
    'the last process of the agent gone',
    async () => processesWith(agentKey),
    (pids) => pids.length === 0,
    patienceMs,
  );

describe.concurrent('a runner', { timeout: 150_000 }, () => {
  // The end of a run at a shutdown, and which files are in the folder, do not depend on the backend.
  it('that shuts down gives Codex back to another runner, where it continues with its whole session; when it comes back, no stale files are found', async () => {
    const runners = await TestRunners.create(service());
    const { agents } = runners;
    const working = gate();
    const here = await runners.start();
    const { name, model } = codex;
    const first = service().script(
      {
        shell: `test -e wall.txt && echo found $(cat wall.txt) || { echo half > wall.txt && ${commitAll}; }`,
      },
      { shell: 'echo the ladder is $((40 + 3)) high; echo stale > stale.txt' },
      { until: working.promise },
      { shell: `rm stale.txt && echo two > two.txt && ${commitAll}` },
      { say: 'The first coat is on.' },
    );
    await agents.spawn(name, { model, description: `Paint the wall. ${first}` });
    await service().asked(first, 3);
    const key = await runners.keyOf(name);
    expect(processesWith(`MUSTER_RUN=${key}/1`)).not.toEqual([]);
    const there = await runners.start();

    await here.kill('SIGTERM');
    expect(here.process.exitCode).toBe(0);
    expect(processesWith(`MUSTER_RUN=${key}/1`)).toEqual([]);
    expect(leftOfRuns(here)).toEqual([]);
    working.open();
    expect(await agents.idle(name)).toMatchObject({
      phase: 'PHASE_WAITING_FOR_INPUT',
      response: 'The first coat is on.',
      error: null,
    });
    expect(existsSync(inWorkspace(here, key, 'stale.txt'))).toBe(true);
    expect(await agents.outcomes(name)).toEqual(['HANDED_BACK', 'COMPLETED']);
    const again = runners.conversations(first).filter((text) => text.includes(secondAttempt));
    expect(timesIn(again[0] ?? '', 'Paint the wall.')).toBe(2);
    expect(again[0]).toContain('the ladder is 43 high');
    expect(again.at(-1)).toContain('found half');
    expect(leftOfRuns(there)).toEqual([]);

    await runners.lose(there);

    const back = await runners.start({}, here.folder);
    const second = service().script({ shell: 'echo here are *.txt' }, { say: 'The second coat is on.' });
    await agents.queue(name, `Put on a second. ${second}`);
    expect(await agents.runEnded(name, 3)).toMatchObject({
      response: 'The second coat is on.',
      error: null,
    });
    const starts = await runners.starts(name);
    expect(starts.map(({ attempt }) => attempt)).toEqual([1, 2, 1]);
    const [one, two, three] = starts.map(({ runner }) => runner);
    expect(three).toBe(one);
    expect(two).not.toBe(one);
    const [request = '', afterCommand = ''] = runners.conversations(second);
    expect(request).toContain('The first coat is on.');
    expect(afterCommand).toContain('here are two.txt wall.txt');
    expect(existsSync(inWorkspace(back, key, 'stale.txt'))).toBe(false);
    const setAside = agentsOn(back).filter((folder) => folder !== key);
    expect(setAside.map((folder) => existsSync(inWorkspace(back, folder, 'stale.txt')))).toEqual([true]);
    expect(await agents.warnings(name)).toEqual([]);
  });

  it('that has their backend is what Claude Code and Codex wait for; they leave their branch, session and folder when they end, and the folder only as long as configured', async () => {
    const runners = await TestRunners.create(service());
    const { agents, remote } = runners;
    const rest = (name: string, { model }: Backend) => {
      const marker = service().script({ shell: 'echo kept > kept.txt' }, { say: 'I rest.' });
      return agents.spawn(name, { model, description: `Rest. ${marker}` });
    };
    const expectNoRunner = async (name: string) => {
      expect(await agents.phase(name)).toBe('PENDING/NO_RUNNER');
      expect(await agents.runs(name)).toEqual([]);
    };
    const rested = { phaseReason: 'RESTING', response: 'I rest.', error: null };
    const finished = { phase: 'PHASE_COMPLETED', phaseReason: 'FINISHED', error: null };

    const onlyCodex = await runners.start({ ANTHROPIC_API_KEY: '' });
    const { folder } = onlyCodex;
    await rest('claude-rests', claudeCode);
    await expectNoRunner('claude-rests');
    await rest('codex-rests', codex);
    expect(await agents.idle('codex-rests')).toMatchObject(rested);
    const end = service().script(
      { shell: `echo done > done.txt && ${commitAll} && echo not pushed yet > draft.txt` },
      { tool: 'finish', args: { summary: 'All is painted.' } },
      { say: 'Good bye.' },
    );
    await agents.spawn('codex-ends', { model: codex.model, description: `Finish. ${end}` });
    expect(await agents.idle('codex-ends')).toMatchObject(finished);
    expect(leftOfRuns(onlyCodex)).toEqual([]);
    await expectNoRunner('claude-rests');
    await onlyCodex.kill('SIGTERM');

    const onlyClaude = await runners.start({ OPENAI_API_KEY: '' }, folder);
    const again = service().script(
      { shell: 'cat draft.txt' },
      { tool: 'finish', args: { summary: 'Once more.' } },
      { say: 'Good bye again.' },
    );
    await agents.send('agent/reopen', 'codex-ends');
    await agents.queue('codex-ends', `Look at the draft. ${again}`);
    expect(await agents.phase('codex-ends')).toBe('PENDING/NO_RUNNER');
    expect(await agents.idle('claude-rests')).toMatchObject(rested);
    expect(await agents.phase('codex-ends')).toBe('PENDING/NO_RUNNER');
    expect(await agents.runs('codex-ends')).toHaveLength(1);
    await onlyClaude.kill('SIGTERM');

    const runner = await runners.start({}, folder);
    await agents.runEnded('codex-ends', 2);
    expect(runners.conversations(again)[0]).toContain('Finish.');
    expect(runners.conversations(again).at(-1)).toContain('not pushed yet');
    expect(await agents.warnings('codex-ends')).toEqual([]);
    const { branch } = await agents.status('codex-ends');
    expect(remote.git('show', `${branch}:done.txt`)).toBe('done');
    expect(leftOfRuns(runner)).toEqual([]);
    const kept = await Promise.all(['claude-rests', 'codex-rests'].map((name) => runners.keyOf(name)));
    for (const key of kept) expect(processesWith(key)).toEqual([]);
    expect(agentsOn(runner)).toHaveLength(3);
    await runner.kill('SIGTERM');

    const back = await runners.start({ MUSTER_KEEP_FOLDERS_DAYS: '0' }, folder);
    await until(
      'the folder removed',
      async () => agentsOn(back),
      ({ length }) => length === 2,
      patienceMs,
    );
    expect(agentsOn(back).sort()).toEqual(kept.sort());
    for (const key of kept) expect(existsSync(inWorkspace(back, key, 'kept.txt'))).toBe(true);
    const rows = await service().query(
      `SELECT a.path, max(c.run) AS run FROM checkpoints c JOIN agents a ON a.id = c.agent
       WHERE a.workspace = $1 AND c.final GROUP BY a.path ORDER BY a.path`,
      [agents.workspace],
    );
    expect(rows).toEqual([
      { path: 'claude-rests', run: 1 },
      { path: 'codex-ends', run: 2 },
      { path: 'codex-rests', run: 1 },
    ]);
    expect(leftOfRuns(back)).toEqual([]);
  });
});

describe('when their runner is killed, Claude Code and Codex', { timeout: 150_000 }, () => {
  it('continue their session when the runner comes back, and on another runner from what was saved or pushed', async () => {
    const runners = await TestRunners.create(service());
    const { agents, remote } = runners;
    const before = await runners.start();
    const painters = await Promise.all(
      backends.map(async ({ name, model }) => {
        const marker = service().script(
          { shell: 'echo the brush is $((40 + 2)) wide' },
          {
            shell:
              'test -e paint.txt && echo found $(cat paint.txt) || { echo red > paint.txt; tail -f paint.txt; }',
          },
          { shell: 'git add --all && git commit --quiet --message Paint && git push' },
          { shell: 'echo wet > wet.txt' },
          { say: 'Painted.' },
        );
        const next = service().script({ say: 'Cleaned up.' });
        await agents.spawn(name, { model, description: `Paint the wall. ${marker}` });
        const key = await runners.keyOf(name);
        const paint = inWorkspace(before, key, 'paint.txt');
        await until('the paint', async () => existsSync(paint), Boolean, patienceMs);
        await inSessionFile(before, key, 'the brush is 42 wide');
        await agents.queue(name, { followUpId: `next-${name}`, description: `Clean up. ${next}` });
        expect(processesWith(key)).not.toEqual([]);
        return { name, key, marker, next };
      }),
    );

    await runners.lose(before);
    for (const { key } of painters) await processesGone(key);
    for (const { name } of painters) await runners.lost(name);
    const after = await runners.start({}, before.folder);

    for (const { name, key, marker, next } of painters) {
      const status = await agents.idle(name);
      expect(status).toMatchObject({
        phase: 'PHASE_WAITING_FOR_INPUT',
        phaseReason: 'RESTING',
        response: 'Cleaned up.',
        error: null,
      });
      expect(await agents.outcomes(name)).toEqual(['LOST', 'COMPLETED', 'COMPLETED']);
      const starts = await runners.starts(name);
      expect(starts.map(({ attempt, batch }) => [attempt, batch])).toEqual([
        [1, '1'],
        [2, '1'],
        [1, '3'],
      ]);
      expect(new Set(starts.map(({ runner }) => runner)).size).toBe(1);

      const conversations = runners.conversations(marker);
      const again = conversations.filter((text) => text.includes(secondAttempt));
      expect(timesIn(again[0] ?? '', 'Paint the wall.')).toBe(2);
      expect(again[0]).toContain('the brush is 42 wide');
      expect(again.at(-1)).toContain('found red');
      expect(conversations.filter((text) => timesIn(text, 'Paint the wall.') === 1)).toHaveLength(2);
      expect(remote.git('show', `${status.branch}:paint.txt`)).toBe('red');

      const [cleaning = ''] = runners.conversations(next);
      expect(cleaning).toContain('Painted.');
      expect(timesIn(cleaning, 'Clean up.')).toBe(1);
      expect(timesIn(cleaning, secondAttempt)).toBe(1);
      const delivered = await agents.timeline(name, 'FOLLOW_UP_DELIVERED');
      expect(delivered.map(({ followUpId, runId }) => [followUpId, runId])).toEqual([[`next-${name}`, '3']]);
      const warnings = await agents.warnings(name);
      expect(warnings.filter((text) => !/^Up to \d+ entr\w+ of run 1 are missing/.test(text))).toEqual([]);
      expect(processesWith(key)).toEqual([]);
    }
    expect(leftOfRuns(after)).toEqual([]);

    // What a runner has of an agent does not depend on the backend.
    const working = gate();
    const [saved, unsaved] = [codex.name, 'unsaved'];
    const second = service().script(
      { shell: 'echo the ladder is $((40 + 3)) high' },
      { until: working.promise },
      { shell: 'echo here is $(cat paint.txt); ls' },
      { say: 'The second coat is on.' },
    );
    await agents.queue(saved, `Put on another. ${second}`);
    const first = service().script(
      { shell: 'echo begun' },
      { until: working.promise },
      { write: { path: 'wall.txt', text: 'one coat\n' } },
      { say: 'The first coat is on.' },
    );
    await agents.spawn(unsaved, { model: codex.model, description: `Put on a coat. ${first}` });
    await Promise.all([service().asked(second, 2), service().asked(first, 2)]);
    const [savedKey, unsavedKey] = await Promise.all([runners.keyOf(saved), runners.keyOf(unsaved)]);
    expect(processesWith(unsavedKey)).not.toEqual([]);
    const other = await runners.start();
    await runners.lose(after);
    for (const key of [savedKey, unsavedKey]) await processesGone(key);
    working.open();

    expect(await agents.runEnded(unsaved, 2)).toMatchObject({
      phase: 'PHASE_WAITING_FOR_INPUT',
      response: 'The first coat is on.',
      error: null,
    });
    expect(await agents.outcomes(unsaved)).toEqual(['LOST', 'COMPLETED']);
    expect(await agents.warnings(unsaved)).toEqual([
      'The earlier runs were on another runner and saved no checkpoint. This run starts a new session from the pushed branch.',
    ]);
    const restarts = await runners.starts(unsaved);
    expect(restarts.map(({ attempt }) => attempt)).toEqual([1, 2]);
    expect(new Set(restarts.map(({ runner }) => runner)).size).toBe(2);
    const [started = ''] = runners.conversations(first).filter((text) => text.includes(secondAttempt));
    expect(timesIn(started, 'Put on a coat.')).toBe(1);
    expect(timesIn(started, secondAttempt)).toBe(1);

    expect(await agents.runEnded(saved, 5)).toMatchObject({
      phase: 'PHASE_WAITING_FOR_INPUT',
      response: 'The second coat is on.',
      error: null,
    });
    expect((await agents.outcomes(saved)).slice(3)).toEqual(['LOST', 'COMPLETED']);
    const starts = await runners.starts(saved);
    expect(starts.slice(3).map(({ attempt }) => attempt)).toEqual([1, 2]);
    const [onFirst, , , alsoOnFirst, onOther] = starts.map(({ runner }) => runner);
    expect(alsoOnFirst).toBe(onFirst);
    expect(onOther).not.toBe(onFirst);

    const again = runners.conversations(second).filter((text) => timesIn(text, secondAttempt) > 1);
    expect(again[0]).toContain('Paint the wall.');
    expect(again[0]).toContain('Cleaned up.');
    // The work of the killed run was never saved.
    expect(timesIn(again[0] ?? '', 'Put on another.')).toBe(1);
    expect(again.at(-1)).toContain('here is red');
    expect(existsSync(inWorkspace(other, savedKey, 'paint.txt'))).toBe(true);
    expect(existsSync(inWorkspace(other, savedKey, 'wet.txt'))).toBe(true);
    // The killed runner may have had entries that it did not report.
    const warnings = (await agents.warnings(saved)).filter((text) => !/entr(y|ies) of run \d+/.test(text));
    expect(warnings).toEqual([
      expect.stringMatching(/^The work was restored from the checkpoint of .* \(run 3\)/),
    ]);
    expect(leftOfRuns(other)).toEqual([]);
  });
});

describe.concurrent('muster runner', () => {
  const start = (key: string, pool = 'default'): Promise<MusterRunner> =>
    MusterRunner.start({
      url: service().server.url,
      key,
      pool,
      folder: mkdtempSync(join(service().folder, 'runner-')),
      env: { ANTHROPIC_API_KEY: 'sk-ant-unused', MUSTER_SANDBOX: 'off' },
    });
  const ended = (line: string): Error => new Error(`muster runner ended with 1:\nmuster: ${line}\n`);

  it('ends with one line when its pool is not that of its key', async () => {
    const { key } = await createKey(service().api, { role: 'runner', pool: 'left' });
    await expect(start(key, 'right')).rejects.toEqual(
      ended('the runner\'s key is of pool "left"; the runner asks for pool "right"'),
    );
  });

  it('ends with one line when its key is not one of a runner', async () => {
    const { key } = await createKey(service().api, { role: 'member' });
    await expect(start(key)).rejects.toEqual(
      ended('the API key has role member; a runner needs a key of role runner'),
    );
  });

  it('ends with one line when the service does not know its key', async () => {
    await expect(start('mst_nobody00.000000000000000000000000')).rejects.toEqual(
      ended(`the service at ${service().server.url} does not know this API key`),
    );
  });
});

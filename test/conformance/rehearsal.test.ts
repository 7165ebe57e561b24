import { describe, expect, test } from 'vitest';
import { Agents, accepted, type Fields } from '../support/agents.ts';
import { until } from '../support/async.ts';
import { writeResource } from '../support/catalog.ts';
import { useSharedServer } from '../support/shared-server.ts';
import { newTenant } from '../support/tenants.ts';

const server = await useSharedServer();
const agents = new Agents(server.api, 'default');

/** Spawns with these lines and waits until the agent needs attention. */
async function play(path: string, lines: string[], more: Fields = {}) {
  await agents.spawn(path, { description: lines.join('\n'), ...more });
  return agents.wait(path);
}
async function tell(path: string, lines: string[], more: Fields = {}) {
  await agents.queue(path, { description: lines.join('\n'), ...more });
  return agents.wait(path);
}
const said = async (path: string) => (await agents.timeline(path, 'MESSAGE')).map(({ text }) => text);
const results = async (path: string) =>
  (await agents.timeline(path, 'TOOL_RESULT')).map((entry) => JSON.stringify(entry)).join('\n');

describe('a turn without directives', () => {
  test('repeats the request, completes the tasks one by one, and says so', async () => {
    const record = await play('plain', ['Please count the sheep.'], {
      tasks: [
        { id: 'third', subject: 'third', blockedBy: ['second'] },
        { id: 'first', subject: 'first' },
        { id: 'second', subject: 'second', blockedBy: ['first'] },
        { id: 'idle', subject: 'idle', activation: { filesModified: { pattern: '' } } },
      ],
    });
    expect(record).toMatchObject({ phase: 'PHASE_WAITING_FOR_INPUT', phaseReason: 'RESTING', runCount: '1' });
    expect(Object.fromEntries(record.tasks.map(({ id, status }) => [id, status]))).toEqual({
      first: 'TASK_STATUS_COMPLETED',
      second: 'TASK_STATUS_COMPLETED',
      third: 'TASK_STATUS_COMPLETED',
      idle: 'TASK_STATUS_PENDING',
    });
    const messages = await said('plain');
    expect(messages[0]).toContain('Please count the sheep.');
    expect(record.response).toBe(messages.at(-1));
    const moved = (await agents.timeline('plain', 'TASK_CHANGED')).map((entry) => JSON.stringify(entry));
    const completed = moved.filter((entry) => entry.includes('TASK_STATUS_COMPLETED'));
    expect(completed.map((entry) => /first|second|third/.exec(entry)?.[0])).toEqual([
      'first',
      'second',
      'third',
    ]);
  });

  test('is told in the order in which it happened', async () => {
    await play('told', ['Please count the sheep.'], { tasks: [{ id: 'count', subject: 'count' }] });
    const step = ['TOOL_CALL', 'TASK_CHANGED', 'TOOL_RESULT'] as const;
    const work = (await agents.timeline('told', 'MESSAGE', ...step)).map(({ type }) => type);
    expect(work).toEqual(['MESSAGE', ...step, ...step, 'MESSAGE']);
  });

  test('longer than maxTurnMinutes of its pool is interrupted, and the agent waits', async () => {
    const { admin } = await newTenant(server.operator);
    await writeResource(admin, 'pool', 'default', { maxTurnMinutes: 0.01 });
    const limited = new Agents(admin, 'default');
    await limited.spawn('slow', { description: '!sleep 600' });
    expect(await limited.wait('slow')).toMatchObject({ phaseReason: 'INTERRUPTED', error: null });
    expect((await limited.timeline('slow', 'WARNING')).map(({ text }) => text)).toEqual([
      expect.stringContaining('0.01 minutes (maxTurnMinutes of its pool)'),
    ]);
    await writeResource(admin, 'pool', 'default', { maxTurnMinutes: 60 });
    await limited.queue('slow', '!say Here again.');
    expect(await limited.wait('slow')).toMatchObject({ phaseReason: 'RESTING', response: 'Here again.' });
  });
});

describe('all directives', () => {
  test('run in order; other lines are prose', async () => {
    const record = await play('ordered', ['Some prose', '!say one', 'more ! prose', ' indented', '!say two']);
    expect(record.response).toBe('two');
    const messages = await said('ordered');
    expect(messages.filter((text) => text === 'one' || text === 'two')).toEqual(['one', 'two']);
    expect(messages.indexOf('one')).toBeLessThan(messages.indexOf('two'));
  });

  test('of every message of a batch run', async () => {
    await agents.spawn('batched', { description: '!sleep 600' });
    await until(
      'WORKING',
      () => agents.phase('batched'),
      (seen) => seen === 'RUNNING/WORKING',
    );
    await agents.queue('batched', '!say first');
    await agents.queue('batched', '!say second');
    await agents.stop('batched', 1);
    await until(
      'run 2',
      () => agents.status('batched'),
      ({ runCount }) => runCount === '2',
    );
    expect((await agents.wait('batched')).response).toBe('second');
    expect(await said('batched')).toEqual(['first', 'second']);
  });

  test('an unknown directive is prose, with a WARNING that names it', async () => {
    const record = await play('unknown', ['!say before', '!dance wildly', '!say after']);
    expect(record).toMatchObject({ phaseReason: 'RESTING', response: 'after', error: null });
    const warnings = await agents.timeline('unknown', 'WARNING');
    expect(warnings.map(({ text }) => text)).toEqual([expect.stringContaining('!dance')]);
  });

  test('a message with only unknown directives is a turn without directives', async () => {
    const record = await play('only-unknown', ['!dance'], { tasks: [{ id: 't', subject: 'done by rote' }] });
    expect(record).toMatchObject({ phaseReason: 'RESTING', tasks: [{ status: 'TASK_STATUS_COMPLETED' }] });
  });

  test('a turn with directives changes only the tasks it names, and ignores reminders', async () => {
    const record = await play('unnamed', ['!say once'], { tasks: [{ id: 't', subject: 'left' }] });
    expect(record).toMatchObject({ phaseReason: 'TASKS_UNFINISHED', response: 'once' });
    expect(record.tasks).toMatchObject([{ id: 't', status: 'TASK_STATUS_PENDING' }]);
    expect((await said('unnamed')).filter((text) => text === 'once')).toEqual(['once']);
  });

  test.each(['rehearsal-a', 'rehearsal-b', 'opus', 'claude-x', 'gpt-x'])(
    'without a provider key %s is rehearsed, and its agents say that no model is behind them',
    async (model) => {
      const record = await play(`model-${model}`, ['!say played'], { model });
      expect(record).toMatchObject({ response: 'played', rehearsed: true, model });
    },
  );
});

describe('each directive', () => {
  test('!say', async () => {
    const record = await play('say', ['!say one', '!say  two  words ']);
    expect(record).toMatchObject({
      phaseReason: 'RESTING',
      response: expect.stringMatching(/^\s*two {2}words\s*$/),
    });
    expect(await said('say')).toHaveLength(2);
  });

  test('!sleep works for that long', async () => {
    const started = Date.now();
    expect((await play('sleep', ['!sleep 0.5', '!say awake'])).response).toBe('awake');
    expect(Date.now() - started).toBeGreaterThanOrEqual(500);
  });

  test('!sleep can be interrupted', async () => {
    await agents.spawn('sleeper', { description: '!say night\n!sleep 600\n!say morning' });
    await until(
      'night',
      () => said('sleeper'),
      (texts) => texts.includes('night'),
    );
    await agents.stop('sleeper', 1);
    expect(await agents.wait('sleeper')).toMatchObject({ phaseReason: 'INTERRUPTED', response: 'night' });
  });

  test('!run and !write work in the agent’s workspace, and their output is in the transcript', async () => {
    const record = await play('files', [
      '!write notes/a.txt hello there',
      '!run cat notes/a.txt && echo to stderr >&2',
      '!say done',
    ]);
    expect(record.response).toBe('done');
    expect(JSON.stringify(await agents.timeline('files', 'TOOL_CALL'))).toContain('cat notes/a.txt');
    expect(await results('files')).toContain('hello there');
    expect(await results('files')).toContain('to stderr');
    await tell('files', ['!run cat notes/a.txt | tr a-z A-Z']);
    expect(await results('files')).toContain('HELLO THERE');
  });

  test('agents do not see each other’s files', async () => {
    await play('mine', ['!write secret.txt mine']);
    await play('theirs', ['!run ls -a; pwd']);
    expect(await results('theirs')).not.toContain('secret.txt');
  });

  test('!task add and !task done, by id or subject', async () => {
    const record = await play(
      'checklist',
      [
        '!task add write the docs',
        '!task done given',
        '!task done by its subject',
        '!task done write the docs',
        '!task add left over',
      ],
      {
        tasks: [
          { id: 'given', subject: 'x' },
          { id: 'other', subject: 'by its subject' },
        ],
      },
    );
    expect(record.phaseReason).toBe('TASKS_UNFINISHED');
    expect(record.tasks.map(({ subject, status }) => [subject, status])).toEqual([
      ['x', 'TASK_STATUS_COMPLETED'],
      ['by its subject', 'TASK_STATUS_COMPLETED'],
      ['write the docs', 'TASK_STATUS_COMPLETED'],
      ['left over', 'TASK_STATUS_PENDING'],
    ]);
  });

  test('!ask ends the turn with a question', async () => {
    const record = await play('ask', ['!say before', '!ask Red or blue?', '!say after']);
    expect(record).toMatchObject({ phaseReason: 'QUESTION', needsInput: 'Red or blue?' });
    expect(await said('ask')).not.toContain('after');
    expect(await tell('ask', ['!say blue it is'])).toMatchObject({ phaseReason: 'RESTING', needsInput: '' });
  });

  test('!finish says its text and finishes the agent', async () => {
    expect(await play('finish', ['!finish all done'])).toMatchObject({
      phase: 'PHASE_COMPLETED',
      phaseReason: 'FINISHED',
      response: 'all done',
    });
    expect(await play('finish-bare', ['!say last words', '!finish'])).toMatchObject({
      phase: 'PHASE_COMPLETED',
      response: 'last words',
    });
  });

  test('!finish counts after the children that it spawned', async () => {
    await play('finishing', ['!spawn kid !sleep 0.2', '!finish done']);
    expect(await agents.status('finishing')).toMatchObject({ phaseReason: 'FINISHED', runCount: '2' });
  });

  test('a report that the service refuses blocks the agent immediately', async () => {
    expect(await play('impossible', [`!usage ${Number.MAX_SAFE_INTEGER} 0 0 1`, '!sleep 1'])).toMatchObject({
      phaseReason: 'BLOCKED',
      error: { code: 'REPORT_REFUSED' },
      runCount: '1',
    });
  });

  test('a malformed directive blocks the agent until a retry, or a message that preempts it', async () => {
    for (const name of ['retried', 'preempted']) {
      expect(await play(name, ['!sleep soon', '!say hi'])).toMatchObject({
        phaseReason: 'BLOCKED',
        error: { code: 'INVALID_DIRECTIVE' },
      });
      if (name === 'retried') await agents.send('agent/retry', name);
      else await agents.queue(name, { description: '!say now', preempt: true });
      expect(await agents.wait(name)).toMatchObject({ phaseReason: 'RESTING', error: null });
    }
  });

  test('!spawn creates a child with that description, where \\n is a line break, and the child wakes its parent', async () => {
    await agents.spawn('parent', { description: '!spawn kid !say from the kid\\n!ask May I?\n!say spawned' });
    const kid = await until(
      'the kid’s question',
      async () => (await agents.status('parent')).children.length && (await agents.wait('parent/kid')),
      (record) => record !== 0 && record.phaseReason === 'QUESTION',
    );
    expect(kid).toMatchObject({ description: '!say from the kid\n!ask May I?', needsInput: 'May I?' });
    const parent = await until(
      'the woken parent',
      () => agents.wait('parent'),
      ({ runCount }) => runCount === '2',
    );
    expect(parent).toMatchObject({ phaseReason: 'RESTING', children: [{ agent: ['parent', 'kid'] }] });
    const told = ['TOOL_CALL', 'CHILD_SPAWNED', 'TOOL_RESULT', 'CHILD_SETTLED'] as const;
    expect((await agents.timeline('parent', ...told)).map(({ type }) => type)).toEqual(told);
  });

  test('a nested !spawn takes one more backslash per level', async () => {
    await agents.spawn('gran', {
      description: '!spawn mum !spawn kid !say one\\\\n!say two\\n!say mum is done',
    });
    const kid = await until(
      'the grandchild',
      () => agents.send('agent/status', 'gran/mum/kid'),
      ({ status }) => status === 200,
    );
    expect(kid.body.description).toBe('!say one\n!say two');
    expect((await agents.status('gran/mum')).description).toBe(
      '!spawn kid !say one\\n!say two\n!say mum is done',
    );
    expect((await agents.wait('gran/mum/kid')).response).toBe('two');
  });

  test('!output is the structured output, with or without a schema', async () => {
    const record = await play('output', ['!output {"n": 1, "list": [null]}']);
    expect(record.structuredOutput).toEqual({ n: 1, list: [null] });
    const outputSchema = '{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}}';
    expect((await tell('output', ['!output {"n": 7}'], { outputSchema })).structuredOutput).toEqual({ n: 7 });
  });

  test('without !output the structured output is a smallest valid instance of the schema, or null', async () => {
    const outputSchema = JSON.stringify({
      type: 'object',
      required: ['name', 'count', 'tags', 'kind', 'flag'],
      properties: {
        name: { type: 'string', minLength: 2 },
        count: { type: 'integer', minimum: 3 },
        tags: { type: 'array', items: { type: 'string' }, minItems: 1 },
        kind: { enum: ['x', 'y'] },
        flag: { type: 'boolean' },
        optional: { type: 'string' },
      },
    });
    const record = await play('smallest', ['!say hi'], { outputSchema });
    expect(record.phaseReason).toBe('RESTING');
    expect(record.structuredOutput).toMatchObject({
      name: expect.stringMatching(/^.{2,}$/),
      count: expect.any(Number),
      tags: [expect.any(String)],
      kind: expect.stringMatching(/^[xy]$/),
      flag: expect.any(Boolean),
    });
    expect((record.structuredOutput as { count: number }).count).toBeGreaterThanOrEqual(3);
    expect((await play('no-output', ['!say hi'])).structuredOutput).toBeNull();
  });

  test('an output that does not match the schema, after one correction, blocks the agent', async () => {
    const record = await play('misfit', ['!output {"n": "text"}'], {
      outputSchema: '{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}}',
    });
    expect(record).toMatchObject({ phaseReason: 'BLOCKED', error: { code: 'INVALID_STRUCTURED_OUTPUT' } });
    expect(record.needsInput).toContain('outputSchema');
  });

  test('!usage adds to tokens and cost', async () => {
    const usage = { inputTokens: '100', cachedInputTokens: '40', outputTokens: '20', cost: 0.125 };
    expect(await play('usage', ['!usage 100 40 20 0.125'])).toMatchObject(usage);
    expect(await tell('usage', ['!usage 1 0 1 0.125', '!usage 1 0 1 0.25'])).toMatchObject({
      inputTokens: '102',
      cachedInputTokens: '40',
      outputTokens: '22',
      cost: 0.5,
    });
  });

  test('!plan, !context and !compact report a plan, the use of the context and a compaction', async () => {
    const first = '!plan [x] Read the code; [>] Write the test; Run it';
    const planned = await play('planned', [first, first, '!context 62000 200000']);
    expect(planned.plan?.steps).toEqual([
      { text: 'Read the code', status: 'COMPLETED' },
      { text: 'Write the test', status: 'IN_PROGRESS' },
      { text: 'Run it', status: 'PENDING' },
    ]);
    expect(planned.context).toEqual({ usedTokens: '62000', windowTokens: '200000' });
    const [entry, ...more] = await agents.timeline('planned', 'PLAN');
    expect(more).toEqual([]);
    expect(entry).toMatchObject({
      text: '1 of 3 steps done; now: Write the test',
      at: planned.plan?.updatedAt,
    });

    const next = await tell('planned', ['!compact 180000 12000', '!plan [x] Read the code']);
    expect(next.plan?.steps).toHaveLength(1);
    expect(await agents.timeline('planned', 'COMPACTION')).toMatchObject([
      {
        text: 'The context was compacted from 180k to 12k tokens.',
        data: { beforeTokens: 180_000, afterTokens: 12_000 },
      },
    ]);
    expect((await agents.timeline('planned', 'RUN_ENDED')).map(({ data }) => data)).toEqual([
      { outcome: 'COMPLETED', context: { usedTokens: 62_000, windowTokens: 200_000 } },
      { outcome: 'COMPLETED', context: { usedTokens: 12_000, windowTokens: 200_000 } },
    ]);
    expect((await tell('planned', ['!plan'])).plan).toBeNull();
    expect((await tell('planned', ['!context many'])).error).toMatchObject({ code: 'INVALID_DIRECTIVE' });
  });

  test('!limit acts like a provider that refuses until that time', async () => {
    await agents.spawn('limited', { description: '!say before\n!limit 1.5\n!say after' });
    const parked = await until(
      'PROVIDER_LIMIT',
      () => agents.status('limited'),
      ({ phaseReason }) => phaseReason === 'PROVIDER_LIMIT',
    );
    expect(parked).toMatchObject({ phase: 'PHASE_PENDING', wakesAt: expect.any(String) });
    expect(await agents.wait('limited')).toMatchObject({
      phaseReason: 'RESTING',
      response: 'after',
      wakesAt: null,
    });
    expect((await agents.runs('limited')).map(({ outcome }) => outcome)).toEqual(['COMPLETED', 'PARKED']);
  });

  test('!fail fails the run for good', async () => {
    const record = await play('fail', ['!say trying', '!fail the roof is on fire', '!say never']);
    expect(record).toMatchObject({ phase: 'PHASE_FAILED', phaseReason: 'ERROR', run: { outcome: 'FAILED' } });
    expect(record.error?.message).toContain('the roof is on fire');
    expect(await said('fail')).not.toContain('never');
  });
});

test('!push in a workspace without repositories has a branch, a push and a diff', async () => {
  const { branch, diffStat } = await play('alone', [
    '!write a.txt one',
    '!push',
    '!write b.txt two',
    '!push',
  ]);
  expect(branch).toMatch(/^muster\/alone-/);
  expect(diffStat).toEqual({ files: 2, insertions: 2, deletions: 0 });
  expect(await agents.timeline('alone', 'PUSH')).toHaveLength(2);
  const { diff } = accepted('diff', await agents.send<{ diff: string }>('agent/diff', 'alone'));
  expect(diff).toContain('+++ b/a.txt\n@@ -0,0 +1 @@\n+one');
  expect(diff).toContain('+++ b/b.txt');
});

test('a message that is added to the turn may begin with a task that it brings', async () => {
  await agents.spawn('steered', { description: '!sleep 2' });
  await until(
    'the turn',
    () => agents.status('steered'),
    ({ phaseReason }) => phaseReason === 'WORKING',
  );
  const tasks = [{ id: 'left', subject: 'Turn left' }];
  await agents.queue('steered', { description: '!task done Turn left', steer: true, tasks });
  const { tasks: done, runCount } = await agents.wait('steered');
  expect(runCount).toBe('1');
  expect(done).toMatchObject([{ id: 'left', status: 'TASK_STATUS_COMPLETED' }]);
});

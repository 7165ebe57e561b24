import type { AgentStatus } from '@muster/sdk/contract';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Api, apiOf } from '../support/api.ts';
import { until } from '../support/async.ts';
import { createKey, writeResource } from '../support/catalog.ts';
import { expectError } from '../support/expect-reply.ts';
import { FakeRunner } from '../support/fake-runner.ts';
import { type SharedServer, sharedServer } from '../support/shared-server.ts';
import { inAnHour, inMs, newTestTenant, type TestTenant, textsOf } from '../support/test-tenant.ts';

let server: SharedServer;
let api: Api;

beforeAll(async () => {
  server = await sharedServer({ runner: false });
  api = apiOf(server);
});
afterAll(() => server.close());

type Fields = Record<string, unknown>;
const day = 86_400_000;
const add = (t: TestTenant, message: Fields, path = 'a') =>
  t.send<{ followUpId: string }>('agent/queue', path, message);

/** A test tenant with the agent `a` in its first run. */
async function working(spawn: Fields = {}): Promise<TestTenant> {
  const t = await newTestTenant(api);
  await t.spawn('a', spawn);
  await t.start('a');
  return t;
}

/** The timeline entries of one follow-up: type, `from`, `to` and run. */
const historyOf = async (t: TestTenant, followUpId: string) =>
  (await t.timeline('a'))
    .filter((entry) => entry.type.startsWith('FOLLOW_UP_') && entry.followUpId === followUpId)
    .map(({ type, data, runId }) => ({ type, from: data.from, to: data.to, runId }));

const settingsOf = ({
  persona,
  model,
  reasoningEffort,
  serviceTier,
  fastMode,
  outputSchema,
}: AgentStatus) => ({
  persona,
  model,
  reasoningEffort,
  serviceTier,
  fastMode,
  outputSchema,
});

/** Delivers the message in its own turn and returns the settings after it. */
async function settingsAfter(t: TestTenant, message: Fields) {
  await t.queue('a', message);
  await t.turn('a');
  return settingsOf(await t.status('a'));
}

describe('queue-add: the agent', () => {
  test('a message to a working agent is queued and returns its id', async () => {
    const t = await working();
    const { status, body } = await add(t, { description: 'hello', followUpId: 'mine' });
    expect({ status, body }).toEqual({ status: 200, body: { followUpId: 'mine', state: 'QUEUED' } });
    expect((await t.status('a')).followUps).toMatchObject([
      { followUpId: 'mine', state: 'QUEUED', description: 'hello' },
    ]);
  });

  test('pending and idle agents accept messages too', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    expect((await add(t, { description: 'pending' })).status).toBe(200);
    await t.turn('a');
    expect((await add(t, { description: 'resting' })).status).toBe(200);
  });

  test.each<[phase: string, end: (t: TestTenant) => Promise<unknown>]>([
    ['COMPLETED', (t) => t.turn('a', { finished: true })],
    [
      'FAILED',
      async (t) =>
        t.end(await t.start('a'), 'FAILED', { error: { code: 'REHEARSED_FAILURE', message: 'x' } }),
    ],
    ['CANCELED', (t) => t.kill('a')],
  ])('an agent that is %s is NOT_FOUND', async (phase, end) => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    await end(t);
    expect((await t.status('a')).phase).toBe(`PHASE_${phase}`);
    for (const message of [{}, { preempt: true }, { deliverAt: inAnHour() }]) {
      expectError(await add(t, { description: 'too late', ...message }), 'NOT_FOUND');
    }
  });

  test('a message without description, task or setting is refused', async () => {
    const t = await working();
    for (const empty of [
      {},
      { description: '' },
      { tasks: [] },
      { preempt: true },
      { deliverAt: inAnHour() },
      { followUpId: 'x' },
      { agent: '', model: '', reasoningEffort: '', serviceTier: '', outputSchema: '' },
    ]) {
      expectError(await add(t, empty), 'INVALID_ARGUMENT');
    }
    expect((await t.status('a')).followUps).toEqual([]);
  });

  test.each<[what: string, message: Fields]>([
    ['a description', { description: 'x' }],
    ['a task', { tasks: [{ subject: 'x' }] }],
    ['a persona', { agent: 'reviewer' }],
    ['a model', { model: 'opus' }],
    ['an effort', { reasoningEffort: 'low' }],
    ['fast mode', { fastMode: false }],
    ['a schema', { outputSchema: '{}' }],
  ])('a message with only %s is accepted', async (_what, message) => {
    expect((await add(await working(), message)).status).toBe(200);
  });

  test('a description of 256 KiB is accepted, a longer one is not, counted in bytes', async () => {
    const t = await working();
    expect((await add(t, { description: 'x'.repeat(256 * 1024) })).status).toBe(200);
    expectError(await add(t, { description: 'x'.repeat(256 * 1024 + 1) }), 'INVALID_ARGUMENT', 'description');
    expectError(await add(t, { description: 'é'.repeat(128 * 1024 + 1) }), 'INVALID_ARGUMENT', 'description');
  });

  test('an agent has at most 1,000 undelivered messages, deferred ones included', async () => {
    const t = await working();
    for (let i = 0; i < 1000; i += 50) {
      await Promise.all(
        Array.from({ length: 50 }, (_, j) =>
          t.queue('a', { description: 'x', ...((i + j) % 2 === 0 && { deliverAt: inAnHour() }) }),
        ),
      );
    }
    for (const more of [{}, { deliverAt: inAnHour() }]) {
      const answer = await add(t, { description: 'one too many', ...more });
      expectError(answer, 'RESOURCE_EXHAUSTED');
      expect(answer.headers.get('retry-after')).toMatch(/^\d+$/);
    }
    expect(await t.clear('a')).toBe(500);
    expect((await add(t, { description: 'room again' })).status).toBe(200);
  });
});

describe('queue-add: ids', () => {
  test('a generated id is a UUID, a given one is kept; 1 to 128 characters', async () => {
    const t = await working();
    expect((await add(t, { description: 'x' })).body.followUpId).toMatch(
      /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/,
    );
    const long = 'i'.repeat(128);
    expect(await t.queue('a', { description: 'x', followUpId: long })).toBe(long);
    expect(await t.queue('a', { description: 'x', followUpId: 'ä/ b' })).toBe('ä/ b');
    expectError(await add(t, { description: 'x', followUpId: `${long}i` }), 'INVALID_ARGUMENT', 'followUpId');
  });

  test('a known id with the same content is one message', async () => {
    const t = await working();
    const message = { followUpId: 'one', description: 'x', tasks: [{ subject: 't' }], fastMode: true };
    const answers = await Promise.all(Array.from({ length: 8 }, () => add(t, message)));
    for (const answer of answers) {
      expect(answer).toMatchObject({ status: 200, body: { followUpId: 'one' } });
    }
    expect((await t.status('a')).followUps).toHaveLength(1);
    expect(await historyOf(t, 'one')).toHaveLength(1);
  });

  test.each<[field: string, other: unknown]>([
    ['description', 'y'],
    ['tasks', [{ subject: 't' }]],
    ['agent', 'reviewer'],
    ['model', 'opus'],
    ['reasoningEffort', 'low'],
    ['fastMode', true],
    ['outputSchema', '{}'],
    ['preempt', true],
    ['deliverAt', inAnHour()],
  ])('a known id with another %s is ALREADY_EXISTS', async (field, other) => {
    const t = await working();
    await t.queue('a', { followUpId: 'one', description: 'x' });
    const before = await t.status('a');
    expectError(await add(t, { followUpId: 'one', description: 'x', [field]: other }), 'ALREADY_EXISTS');
    expect(await t.status('a')).toEqual(before);
  });

  test('ids are per agent', async () => {
    const t = await working();
    await t.spawn('b');
    await t.queue('a', { followUpId: 'shared', description: 'x' });
    await t.queue('b', { followUpId: 'shared', description: 'y' });
    expect((await t.status('b')).followUps).toMatchObject([{ followUpId: 'shared', description: 'y' }]);
  });

  test('a known id gets its reply before the check of deliverAt, which has passed', async () => {
    const t = await newTestTenant(api);
    await t.rested('a');
    const message = { followUpId: 'timed', description: 'x', deliverAt: inMs(500) };
    await t.queue('a', message);
    await t.turn('a');
    expect(Date.parse(message.deliverAt)).toBeLessThanOrEqual(Date.now());
    expect(await add(t, message)).toMatchObject({ status: 200, body: { followUpId: 'timed' } });
    expectError(await add(t, { ...message, description: 'y' }), 'ALREADY_EXISTS');
    expect(await t.phase('a')).toBe('WAITING_FOR_INPUT/RESTING');
  });

  test.each<[state: string, end: (t: TestTenant) => Promise<unknown>]>([
    [
      'delivered',
      async (t) => {
        await t.turn('a');
        await t.turn('a', { finished: true });
      },
    ],
    ['cleared', (t) => t.kill('a')],
  ])('a known id that was %s gets its reply even if the agent has ended', async (_state, end) => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const message = { followUpId: 'known', description: 'x', fastMode: true };
    await t.queue('a', message);
    await end(t);
    expect((await t.status('a')).endedAt).not.toBeNull();
    expect(await add(t, message)).toMatchObject({ status: 200, body: { followUpId: 'known' } });
    expectError(await add(t, { ...message, description: 'y' }), 'ALREADY_EXISTS');
    expectError(await add(t, { followUpId: 'unknown', description: 'x' }), 'NOT_FOUND');
  });

  test('a known id with other content is ALREADY_EXISTS even where that content is invalid', async () => {
    const t = await working();
    await t.queue('a', { followUpId: 'one', description: 'x' });
    for (const wrong of [
      { model: 'gpt-x' },
      { agent: 'nobody' },
      { reasoningEffort: 'none' },
      { deliverAt: inMs(-day) },
    ]) {
      expectError(await add(t, { followUpId: 'one', description: 'x', ...wrong }), 'ALREADY_EXISTS');
    }
  });

  test('a known id does not preempt again', async () => {
    const t = await working();
    const message = { followUpId: 'now', description: 'now', preempt: true };
    await t.queue('a', message);
    await t.queue('a', 'behind');
    expect((await add(t, message)).status).toBe(200);
    const { followUps } = await t.status('a');
    expect(followUps.map(({ description }) => description)).toEqual(['now', 'behind']);
  });

  test('a generated id is known like any other', async () => {
    const t = await working();
    const followUpId = await t.queue('a', 'x');
    expect((await add(t, { followUpId, description: 'x' })).status).toBe(200);
    expectError(await add(t, { followUpId, description: 'other' }), 'ALREADY_EXISTS');
    expect((await t.status('a')).followUps).toHaveLength(1);
  });

  test('after a clear the id is free again, for the same content and for other', async () => {
    const t = await working();
    for (const description of ['x', 'x', 'other']) {
      await t.queue('a', { followUpId: 'free', description });
      expect((await t.status('a')).followUps).toMatchObject([{ followUpId: 'free', description }]);
      await t.clear('a');
    }
  });

  test('a message that was cleared by the end of its agent is still known to a retry', async () => {
    const t = await working();
    await t.queue('a', { followUpId: 'gone', description: 'x' });
    await t.kill('a');
    const retried = await add(t, { followUpId: 'gone', description: 'x' });
    expect(retried).toMatchObject({ status: 200, body: { state: 'CLEARED' } });
    expectError(await add(t, { followUpId: 'gone', description: 'other' }), 'ALREADY_EXISTS');
  });

  test('after a remove the id is free again, for other content too', async () => {
    const t = await working();
    await t.queue('a', { followUpId: 'free', description: 'x' });
    await t.remove('a', 'free');
    expect(await t.queue('a', { followUpId: 'free', description: 'other' })).toBe('free');
    expect((await t.status('a')).followUps).toMatchObject([{ followUpId: 'free', description: 'other' }]);
  });
});

describe('queue-add: settings', () => {
  const schema = '{"type":"object","properties":{"n":{"type":"integer"}}}';

  test.each<[setting: string, value: unknown, shown: string]>([
    ['agent', 'reviewer', 'persona'],
    ['model', 'gpt-y', 'model'],
    ['reasoningEffort', 'none', 'reasoningEffort'],
    ['serviceTier', 'flex', 'serviceTier'],
    ['fastMode', true, 'fastMode'],
    ['outputSchema', schema, 'outputSchema'],
  ])(
    '%s takes effect at delivery and stays; an empty value changes nothing',
    async (setting, value, shown) => {
      const t = await newTestTenant(api);
      await t.spawn('a', { model: 'gpt-x' });
      const run = await t.start('a');
      const before = settingsOf(await t.status('a'));
      await t.queue('a', { description: 'x', [setting]: value });
      expect(settingsOf(await t.status('a'))).toEqual(before);
      expect((await t.status('a')).followUps).toMatchObject([{ [setting]: value }]);
      await t.end(run);
      const next = await t.start('a');
      expect((await t.status('a'))[shown as keyof AgentStatus]).toEqual(value);
      expect(setting === 'agent' ? next.persona.name : next[setting as 'model']).toEqual(value);
      expect(await t.timeline('a', 'SETTINGS_CHANGED')).toHaveLength(1);
      await t.end(next);
      const empty = setting === 'fastMode' ? {} : { [setting]: '' };
      expect(await settingsAfter(t, { description: 'y', ...empty })).toEqual({ ...before, [shown]: value });
      expect(await t.timeline('a', 'SETTINGS_CHANGED')).toHaveLength(1);
    },
  );

  test('fastMode: false is a value; on both backends', async () => {
    for (const model of ['claude-x', 'gpt-x']) {
      const t = await newTestTenant(api);
      await t.rested('a', { model, fastMode: true });
      expect((await t.status('a')).fastMode).toBe(true);
      expect((await settingsAfter(t, { description: 'x' })).fastMode).toBe(true);
      expect((await settingsAfter(t, { fastMode: false })).fastMode).toBe(false);
    }
  });

  test('a schema replaces the previous one', async () => {
    const t = await newTestTenant(api);
    await t.rested('a', { outputSchema: schema });
    expect((await t.status('a')).outputSchema).toBe(schema);
    expect((await settingsAfter(t, { outputSchema: '{"type":"array"}' })).outputSchema).toBe(
      '{"type":"array"}',
    );
  });

  test('a removed message’s settings never take effect', async () => {
    const t = await working();
    await t.remove('a', await t.queue('a', { model: 'opus', fastMode: true }));
    expect(await t.status('a')).toMatchObject({ model: 'rehearsal-a', fastMode: false, followUps: [] });
  });
});

/** Spawn and queue-add must return the same error. */
const bothDoors = async (spawn: Fields, wrong: Fields, field: string | RegExp) => {
  const t = await newTestTenant(api);
  expectError(
    await t.send('agent/spawn', 'b', { description: 'x', ...spawn, ...wrong }),
    'INVALID_ARGUMENT',
    field,
  );
  await t.spawn('a', spawn);
  expectError(await add(t, { description: 'x', ...wrong }), 'INVALID_ARGUMENT', field);
  expect((await t.status('a')).followUps).toEqual([]);
};
const bothAccept = async (spawn: Fields, right: Fields) => {
  const t = await newTestTenant(api);
  await t.spawn('b', { ...spawn, ...right });
  await t.spawn('a', spawn);
  await t.queue('a', { description: 'x', ...right });
};

describe('queue-add: what a backend accepts', () => {
  test.each([
    ['claude-anything-4', 'BACKEND_A'],
    ['opus', 'BACKEND_A'],
    ['sonnet', 'BACKEND_A'],
    ['haiku', 'BACKEND_A'],
    ['rehearsal-a', 'BACKEND_A'],
    ['gpt-9.9-mini', 'BACKEND_B'],
    ['o1', 'BACKEND_B'],
    ['o4-mini', 'BACKEND_B'],
    ['codex-next', 'BACKEND_B'],
    ['rehearsal-b', 'BACKEND_B'],
  ])('%s is a model of %s', async (model, backend) => {
    const t = await newTestTenant(api);
    await t.spawn('a', { model });
    expect(await t.status('a')).toMatchObject({ model, backend });
  });

  test.each(['llama-3', 'claude', 'gpt', 'opus-4', 'oops', 'rehearsal', 'rehearsal-c', 'GPT-5', ' opus'])(
    '%j is not a known model',
    (model) => bothDoors({}, { model }, 'model'),
  );

  test.each([
    ['claude-x', 'gpt-x'],
    ['opus', 'o3'],
    ['rehearsal-a', 'rehearsal-b'],
    ['gpt-x', 'sonnet'],
    ['codex-x', 'claude-x'],
  ])('an agent on %s refuses %s, of the other backend', async (model, other) => {
    const t = await newTestTenant(api);
    await t.spawn('a', { model });
    expectError(await add(t, { description: 'x', model: other }), 'INVALID_ARGUMENT', 'model');
  });

  test.each(['low', 'medium', 'high', 'xhigh', 'max'])('backend A accepts the effort %s', (effort) =>
    bothAccept({ model: 'claude-x' }, { reasoningEffort: effort }),
  );
  test.each(['none', 'low', 'medium', 'high', 'xhigh'])('backend B accepts the effort %s', (effort) =>
    bothAccept({ model: 'gpt-x' }, { reasoningEffort: effort }),
  );
  test.each([
    ['claude-x', 'none'],
    ['gpt-x', 'max'],
    ['claude-x', 'ultra'],
    ['gpt-x', 'ultra'],
    ['claude-x', 'HIGH'],
    ['gpt-x', 'HIGH'],
  ])('an agent on %s refuses the effort %s', (model, reasoningEffort) =>
    bothDoors({ model }, { reasoningEffort }, 'reasoningEffort'),
  );

  test.each(['standard', 'fast', 'flex'])('backend B accepts the tier %s', (serviceTier) =>
    bothAccept({ model: 'gpt-x' }, { serviceTier }),
  );
  test.each([
    ['gpt-x', 'slow'],
    ['gpt-x', 'FAST'],
    ['claude-x', 'standard'],
    ['claude-x', 'fast'],
    ['claude-x', 'flex'],
    ['claude-x', 'slow'],
  ])('an agent on %s refuses the tier %s', (model, serviceTier) =>
    bothDoors({ model }, { serviceTier }, 'serviceTier'),
  );

  test('an empty tier on backend A is no tier', async () => {
    expect(
      (await add(await working({ model: 'claude-x' }), { description: 'x', serviceTier: '' })).status,
    ).toBe(200);
  });
});

describe('queue-add: output schemas', () => {
  test.each([
    ['{}'],
    ['{"type":"object","required":["a"],"properties":{"a":{"type":"string"}}}'],
    ['{"$schema":"https://json-schema.org/draft/2020-12/schema","prefixItems":[{"type":"string"}]}'],
    ['{"$schema":"http://json-schema.org/draft-07/schema#","items":[{"type":"string"}]}'],
    ['{"$defs":{"x":{"type":"null"}},"$ref":"#/$defs/x"}'],
  ])('%s is a schema, at spawn and queue-add alike', (outputSchema) => bothAccept({}, { outputSchema }));

  test.each([
    ['not json'],
    ['{'],
    ['"string"'],
    ['[]'],
    ['null'],
    ['true'],
    ['7'],
    ['{"type":5}'],
    ['{"type":"thing"}'],
    ['{"properties":[]}'],
    ['{"required":"a"}'],
    ['{"$ref":"#/$defs/missing"}'],
    ['{"$schema":"http://json-schema.org/draft-04/schema#"}'],
  ])('%s is not a schema, at spawn and queue-add alike', (outputSchema) =>
    bothDoors({}, { outputSchema }, 'outputSchema'),
  );

  test('a schema of more than 64 KiB is refused', () =>
    bothDoors({}, { outputSchema: JSON.stringify({ description: 'x'.repeat(64 * 1024) }) }, 'outputSchema'));
});

describe('queue-add: personas', () => {
  let n = 0;
  const persona = async (document: Fields) => {
    n += 1;
    await writeResource(api, 'persona', `p-${n}`, document);
    return `p-${n}`;
  };

  test('a persona must exist, at spawn and queue-add', () => bothDoors({}, { agent: 'nobody' }, 'agent'));

  test.each(['default', 'planner', 'reviewer'])('the builtin persona %s exists', (agent) =>
    bothAccept({}, { agent }),
  );

  test('an explicit model overrides the persona’s, at spawn and queue-add', async () => {
    const t = await newTestTenant(api);
    const agent = await persona({ model: 'opus' });
    await t.rested('a', { agent, model: 'sonnet' });
    expect((await t.status('a')).model).toBe('sonnet');
    const other = await persona({ model: 'haiku' });
    expect((await settingsAfter(t, { agent: other, model: 'claude-x' })).model).toBe('claude-x');
  });

  test('without its own model the agent has the persona’s, and a switch brings the next persona’s', async () => {
    const t = await newTestTenant(api);
    const [first, second, bare] = [
      await persona({ model: 'opus' }),
      await persona({ model: 'haiku' }),
      await persona({}),
    ];
    await t.rested('a', { agent: first, model: '' });
    expect(await t.status('a')).toMatchObject({ persona: first, model: 'opus' });
    expect(await settingsAfter(t, { agent: second })).toMatchObject({ persona: second, model: 'haiku' });
    expect(await settingsAfter(t, { agent: bare })).toMatchObject({ persona: bare });
  });

  test('a model that was ever set explicitly overrides every persona’s', async () => {
    const t = await newTestTenant(api);
    const [first, second] = [await persona({ model: 'opus' }), await persona({ model: 'haiku' })];
    await t.rested('a', { agent: first, model: '' });
    expect((await settingsAfter(t, { model: 'sonnet' })).model).toBe('sonnet');
    expect(await settingsAfter(t, { agent: second })).toMatchObject({ persona: second, model: 'sonnet' });
  });

  test('a persona whose model is of the other backend is refused, unless overridden', async () => {
    const t = await newTestTenant(api);
    const [ofA, ofB] = [await persona({ model: 'opus' }), await persona({ model: 'gpt-x' })];
    await t.rested('a', { agent: ofA, model: '' });
    expectError(await add(t, { agent: ofB }), 'INVALID_ARGUMENT', /^(agent|model)$/);
    expect(await settingsAfter(t, { agent: ofB, model: 'sonnet' })).toMatchObject({
      persona: ofB,
      model: 'sonnet',
    });
    const another = await persona({ model: 'o3' });
    expect(await settingsAfter(t, { agent: another })).toMatchObject({ persona: another, model: 'sonnet' });
  });

  test('a persona brings its settings; an explicit setting in the same message overrides them', async () => {
    const t = await newTestTenant(api);
    const agent = await persona({
      model: 'gpt-y',
      reasoningEffort: 'none',
      serviceTier: 'flex',
      fastMode: true,
    });
    const expected = { model: 'gpt-y', reasoningEffort: 'none', serviceTier: 'flex', fastMode: true };
    await t.spawn('b', { agent, model: '' });
    expect(await t.status('b')).toMatchObject({ persona: agent, ...expected });
    const other = await persona({ model: 'gpt-x' });
    await t.rested('a', { agent: other, model: '' });
    expect(await settingsAfter(t, { agent, reasoningEffort: 'low', fastMode: false })).toMatchObject({
      ...expected,
      reasoningEffort: 'low',
      fastMode: false,
    });
  });

  test('model and settings are copied into the message when it is admitted', async () => {
    const t = await newTestTenant(api);
    const [first, second] = [await persona({ model: 'opus' }), await persona({ model: 'haiku' })];
    await t.spawn('a', { agent: first, model: '' });
    const run = await t.start('a');
    await t.queue('a', { agent: second });
    await writeResource(api, 'persona', second, { model: 'sonnet' });
    await api.del(`/v1/catalog/persona/${second}`);
    await t.end(run);
    expect((await t.claim('a')).model).toBe('haiku');
  });

  test('naming the current persona again changes nothing', async () => {
    const t = await newTestTenant(api);
    const name = await persona({ model: 'opus' });
    await t.rested('a', { agent: name, model: '' });
    await writeResource(api, 'persona', name, { model: 'haiku', fastMode: true });
    expect(await settingsAfter(t, { description: 'x', agent: name })).toMatchObject({
      persona: name,
      model: 'opus',
      fastMode: false,
    });
    expect(await t.timeline('a', 'SETTINGS_CHANGED')).toEqual([]);
  });

  test('no model means the persona’s, else the workspace’s, else the service’s default', async () => {
    const name = await persona({ model: 'haiku' });
    const withModel = await newTestTenant(api, {}, { model: 'gpt-w' });
    await withModel.spawn('a', { model: '' });
    expect((await withModel.status('a')).model).toBe('gpt-w');
    await withModel.spawn('b', { model: '', agent: name });
    expect((await withModel.status('b')).model).toBe('haiku');
    const plain = await newTestTenant(api);
    await plain.spawn('a', { model: '' });
    expect((await plain.status('a')).model).toMatch(/./);
  });

  test('a workspace’s persona is the default of its agents', async () => {
    const name = await persona({ tasks: [{ subject: 'from the workspace' }] });
    const t = await newTestTenant(api, {}, { persona: name });
    await t.spawn('a');
    expect((await t.status('a')).persona).toBe(name);
    await t.spawn('b', { agent: 'reviewer' });
    expect((await t.status('b')).persona).toBe('reviewer');
  });
});

describe('queue-add: preempt', () => {
  test('clears the queue, interrupts the turn and runs next', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const run = await t.start('a');
    const old = [await t.queue('a', 'one'), await t.queue('a', { description: 'two', model: 'opus' })];
    const now = await t.queue('a', { description: 'now', preempt: true });
    expect(await t.phase('a')).toBe('RUNNING/STOPPING');
    expect((await t.status('a')).followUps.map((f) => f.followUpId)).toEqual([now]);
    for (const id of old) {
      expect(await historyOf(t, id)).toMatchObject([
        { type: 'FOLLOW_UP_QUEUED', to: 'QUEUED' },
        { type: 'FOLLOW_UP_CLEARED', from: 'QUEUED', to: 'CLEARED' },
      ]);
    }
    await t.end(run, 'INTERRUPTED');
    const next = await t.claim('a');
    expect(next.messages).toEqual([{ followUpId: now, text: 'now' }]);
    expect((await t.status('a')).model).toBe('rehearsal-a');
  });

  test('of an idle agent interrupts nothing; the message runs next', async () => {
    const t = await newTestTenant(api);
    await t.rested('a');
    await t.queue('a', 'one');
    await t.queue('a', { description: 'now', preempt: true });
    expect(textsOf(await t.claim('a'))).toEqual(['now']);
  });

  test('keeps deferred messages', async () => {
    const t = await working();
    await t.queue('a', { followUpId: 'later', description: 'l', deliverAt: inAnHour() });
    await t.queue('a', { description: 'now', preempt: true });
    expect((await t.status('a')).followUps).toContainEqual(
      expect.objectContaining({ followUpId: 'later', state: 'DEFERRED' }),
    );
  });

  test('is atomic: a refused preempt clears and stops nothing', async () => {
    const t = await working();
    await t.queue('a', 'one');
    const before = await t.status('a');
    for (const wrong of [{ model: 'gpt-x' }, { agent: 'nobody' }, { deliverAt: inAnHour() }]) {
      expectError(await add(t, { description: 'x', preempt: true, ...wrong }), 'INVALID_ARGUMENT');
    }
    expect(await t.status('a')).toEqual(before);
  });

  test('of two concurrent preempts the later clears the earlier, and one message is left', async () => {
    const t = await working();
    const ids = await Promise.all([1, 2, 3].map(() => t.queue('a', { description: 'now', preempt: true })));
    const { followUps } = await t.status('a');
    expect(followUps).toHaveLength(1);
    expect(ids).toContain(followUps[0]?.followUpId);
    expect(await t.timeline('a', 'FOLLOW_UP_CLEARED')).toHaveLength(2);
  });
});

describe('queue-add: deliverAt', () => {
  test('must be in the future and at most 30 days ahead', async () => {
    const t = await working();
    for (const deliverAt of [
      // RFC 3339 has leap seconds; the database cannot store them.
      '2099-12-31T23:59:60Z',
      inMs(-1),
      inMs(-day),
      '1970-01-01T00:00:00Z',
      inMs(30 * day + 60_000),
      inMs(365 * day),
    ]) {
      expectError(await add(t, { description: 'x', deliverAt }), 'INVALID_ARGUMENT', 'deliverAt');
    }
    expect((await add(t, { description: 'x', deliverAt: inMs(30 * day - 60_000) })).status).toBe(200);
  });

  test('excludes preempt', async () => {
    expectError(
      await add(await working(), { description: 'x', deliverAt: inAnHour(), preempt: true }),
      'INVALID_ARGUMENT',
      /^(deliverAt|preempt)$/,
    );
    const t = await working();
    expect((await add(t, { description: 'x', deliverAt: inAnHour(), preempt: false })).status).toBe(200);
  });

  test('several deferred messages may coexist', async () => {
    const t = await working();
    for (const minutes of [30, 10, 20]) {
      await t.queue('a', {
        followUpId: `in-${minutes}`,
        description: 'x',
        deliverAt: inMs(minutes * 60_000),
      });
    }
    const states = (await t.status('a')).followUps.map(({ followUpId, state }) => [followUpId, state]);
    expect(states.toSorted()).toEqual([
      ['in-10', 'DEFERRED'],
      ['in-20', 'DEFERRED'],
      ['in-30', 'DEFERRED'],
    ]);
  });

  test('at its time the message joins the queue and wakes an idle agent', async () => {
    const t = await newTestTenant(api);
    await t.rested('a');
    await t.queue('a', { followUpId: 'timed', description: 'wake', deliverAt: inMs(500) });
    expect(await historyOf(t, 'timed')).toMatchObject([{ type: 'FOLLOW_UP_DEFERRED', to: 'DEFERRED' }]);
    const run = await t.claim('a');
    expect(run.messages).toEqual([{ followUpId: 'timed', text: 'wake' }]);
    expect(await historyOf(t, 'timed')).toMatchObject([
      { type: 'FOLLOW_UP_DEFERRED', to: 'DEFERRED', runId: '0' },
      { type: 'FOLLOW_UP_QUEUED', from: 'DEFERRED', to: 'QUEUED' },
      { type: 'FOLLOW_UP_DELIVERED', from: 'QUEUED', to: 'DELIVERED', runId: '2' },
    ]);
  });

  test('is changed by removing the message and adding it again', async () => {
    const t = await working();
    await t.queue('a', { followUpId: 'alarm', description: 'x', deliverAt: inAnHour() });
    expect(await t.remove('a', 'alarm')).toBe(true);
    const deliverAt = inMs(2 * 3_600_000);
    await t.queue('a', { followUpId: 'alarm', description: 'x', deliverAt });
    const [alarm] = (await t.status('a')).followUps;
    expect(Date.parse(alarm?.deliverAt ?? '')).toBe(Date.parse(deliverAt));
  });

  test('is accepted by an agent with no runner yet', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    expect((await add(t, { description: 'x', deliverAt: inAnHour() })).status).toBe(200);
  });

  test('on a build without deferral support is FAILED_PRECONDITION, and only deliverAt is', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    const run = await t.claim('a', { capabilities: [] });
    expectError(await add(t, { description: 'x', deliverAt: inAnHour() }), 'FAILED_PRECONDITION');
    expect((await add(t, { description: 'x' })).status).toBe(200);
    expect(await t.clear('a')).toBe(1);
    await t.end(run);
    expectError(await add(t, { description: 'x', deliverAt: inAnHour() }), 'FAILED_PRECONDITION');
  });
});

test("deferral support follows the capability of the runner's latest poll", async () => {
  const t = await newTestTenant(api);
  await t.rested('a');
  const deferred = () => add(t, { description: 'x', deliverAt: inAnHour() });
  expect((await deferred()).status).toBe(200);
  await t.runner.poll({ capabilities: [] });
  expectError(await deferred(), 'FAILED_PRECONDITION');
  await t.runner.poll({ capabilities: ['deferral'] });
  expect((await deferred()).status).toBe(200);
  // A restart with an older build is another runner of the same name that has not claimed anything yet.
  await t.runner.poll({ leaving: true });
  const older = new FakeRunner(
    (await createKey(api, { role: 'runner', pool: t.workspace })).api,
    t.runner.name,
  );
  await older.poll({ capabilities: [] });
  expectError(await deferred(), 'FAILED_PRECONDITION');
});

describe('states of a follow-up', () => {
  test('QUEUED to DELIVERED, with the run', async () => {
    const t = await newTestTenant(api);
    await t.rested('a');
    await t.queue('a', { followUpId: 'one', description: 'x' });
    expect((await t.status('a')).followUps).toMatchObject([{ followUpId: 'one', state: 'QUEUED' }]);
    await t.claim('a');
    expect(await historyOf(t, 'one')).toMatchObject([
      { type: 'FOLLOW_UP_QUEUED', to: 'QUEUED' },
      { type: 'FOLLOW_UP_DELIVERED', from: 'QUEUED', to: 'DELIVERED', runId: '2' },
    ]);
    expect((await t.status('a')).followUps).toEqual([]);
  });

  test('a retried batch delivers its messages once', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    await t.queue('a', { followUpId: 'one', description: 'x' });
    await t.end(await t.start('a'), 'HANDED_BACK');
    expect((await t.claim('a')).messages).toHaveLength(2);
    expect((await historyOf(t, 'one')).map(({ type }) => type)).toEqual([
      'FOLLOW_UP_QUEUED',
      'FOLLOW_UP_DELIVERED',
    ]);
  });

  test('remove removes a queued or a deferred message, once', async () => {
    const t = await working();
    await t.queue('a', { followUpId: 'queued', description: 'x' });
    await t.queue('a', { followUpId: 'deferred', description: 'x', deliverAt: inAnHour() });
    for (const [id, from] of [
      ['queued', 'QUEUED'],
      ['deferred', 'DEFERRED'],
    ] as const) {
      expect(await t.remove('a', id)).toBe(true);
      expect((await historyOf(t, id)).at(-1)).toMatchObject({
        type: 'FOLLOW_UP_REMOVED',
        from,
        to: 'REMOVED',
      });
      expect(await t.remove('a', id)).toBe(false);
      expect(await historyOf(t, id)).toHaveLength(2);
    }
    expect((await t.status('a')).followUps).toEqual([]);
  });

  test('remove returns false for a message delivered, cleared or never queued, and on an ended agent', async () => {
    const t = await newTestTenant(api);
    await t.spawn('a');
    await t.queue('a', { followUpId: 'delivered', description: 'x' });
    await t.start('a');
    await t.queue('a', { followUpId: 'cleared', description: 'x' });
    await t.clear('a');
    for (const id of ['delivered', 'cleared', 'never']) expect(await t.remove('a', id)).toBe(false);
    await t.kill('a');
    expect(await t.remove('a', 'delivered')).toBe(false);
  });

  test('one of two concurrent removes succeeds', async () => {
    const t = await working();
    const id = await t.queue('a', 'x');
    const removed = await Promise.all([1, 2, 3].map(() => t.remove('a', id)));
    expect(removed.filter(Boolean)).toHaveLength(1);
  });

  test('clear discards all queued messages and returns their number; deferred ones stay', async () => {
    const t = await working();
    const ids = [await t.queue('a', 'one'), await t.queue('a', 'two'), await t.queue('a', { model: 'opus' })];
    await t.queue('a', { followUpId: 'later', description: 'x', deliverAt: inAnHour() });
    expect(await t.clear('a')).toBe(3);
    for (const id of ids) {
      expect((await historyOf(t, id)).at(-1)).toMatchObject({
        type: 'FOLLOW_UP_CLEARED',
        from: 'QUEUED',
        to: 'CLEARED',
      });
    }
    expect((await t.status('a')).followUps).toMatchObject([{ followUpId: 'later', state: 'DEFERRED' }]);
    expect(await t.clear('a')).toBe(0);
    expect(await t.phase('a')).toBe('RUNNING/WORKING');
    await t.kill('a');
    expect(await t.clear('a')).toBe(0);
  });

  test('a deferred message that is due is cleared like any other', async () => {
    const t = await working();
    await t.queue('a', { followUpId: 'due', description: 'x', deliverAt: inMs(400) });
    await until(
      'it queued',
      async () => (await t.status('a')).followUps[0]?.state,
      (state) => state === 'QUEUED',
    );
    expect(await t.clear('a')).toBe(1);
    expect((await historyOf(t, 'due')).map(({ from, to }) => `${from ?? ''} → ${to}`).slice(1)).toEqual([
      'DEFERRED → QUEUED',
      'QUEUED → CLEARED',
    ]);
  });

  test('messages are shown and delivered in the order of their admission', async () => {
    const t = await working();
    const ids: string[] = [];
    for (let i = 0; i < 20; i += 1) ids.push(await t.queue('a', `message ${i}`));
    expect((await t.status('a')).followUps.map(({ followUpId }) => followUpId)).toEqual(ids);
    await t.stop('a', 1, 'KILL');
    await t.runner.report({ agentKey: t.runner.runs[0]?.agentKey ?? '', runId: 1 }, { gone: true });
    expect((await t.claim('a')).messages.map(({ followUpId }) => followUpId)).toEqual(ids);
  });
});

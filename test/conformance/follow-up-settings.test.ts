import type { AgentStatus } from '@muster/sdk/contract';
import { describe, expect, test } from 'vitest';
import type { Fields } from '../support/agents.ts';
import { writeResource } from '../support/catalog.ts';
import { expectError } from '../support/expect-reply.ts';
import { useSharedServer } from '../support/shared-server.ts';
import { newTestTenant, newWorkingTenant, type TestTenant } from '../support/test-tenant.ts';

const { api } = await useSharedServer({ runner: false });

const working = async (spawn?: Fields) => (await newWorkingTenant(api, spawn)).t;

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
  expectError(await t.add({ description: 'x', ...wrong }), 'INVALID_ARGUMENT', field);
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
    expectError(await t.add({ description: 'x', model: other }), 'INVALID_ARGUMENT', 'model');
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
      (await (await working({ model: 'claude-x' })).add({ description: 'x', serviceTier: '' })).status,
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
    expectError(await t.add({ agent: ofB }), 'INVALID_ARGUMENT', /^(agent|model)$/);
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

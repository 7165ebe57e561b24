import { kinds } from '@muster/sdk/contract';
import { describe, expect, test } from 'vitest';
import { agent, violation } from '../support/api.ts';
import {
  createKey,
  type Document,
  decode,
  encode,
  postResource,
  readDocument,
  readResource,
  uniqueName,
} from '../support/catalog.ts';
import { expectError, expectOk, normalizeField } from '../support/expect-reply.ts';
import { useSharedServer } from '../support/shared-server.ts';
import { type Entry, everyKind, history, type Page, write } from './catalog-requests.ts';

const server = await useSharedServer({ runner: false });
const { api } = server;

describe('kinds', () => {
  test('there are seventeen', () => {
    expect([...kinds].sort()).toEqual([
      'budget',
      'change-request',
      'environment',
      'integration',
      'notification',
      'persona',
      'policy',
      'pool',
      'profile',
      'schedule',
      'secret',
      'share-link',
      'sign-in',
      'token',
      'trigger',
      'vm-profile',
      'workspace',
    ]);
  });

  test.each(everyKind)('a %s is written and read with every known field', async (kind, document) => {
    const name = uniqueName('everyKind');
    const written = await write(api, kind, name, document);
    expect(written.generation).toBe('1');
    const { body } = await readResource(api, kind, name);
    expect(body).toEqual({
      kind,
      payload: expect.any(String),
      text: '',
      inputFormat: kind === 'persona' ? 'INPUT_FORMAT_MARKDOWN' : 'INPUT_FORMAT_YAML',
      generation: '1',
    });
    expect(decode(body.payload)).toMatchObject({ ...document, name });
  });

  test('the input format of a persona is MARKDOWN, of every other kind YAML', async () => {
    for (const [kind] of everyKind) {
      const name = uniqueName('format');
      await write(api, kind, name, {});
      const { inputFormat } = (await readResource(api, kind, name)).body;
      expect(inputFormat, kind).toBe(kind === 'persona' ? 'INPUT_FORMAT_MARKDOWN' : 'INPUT_FORMAT_YAML');
    }
  });

  test.each([
    ['Workspace', 'workspace'],
    ['WORKSPACES', 'workspace'],
    ['personas', 'persona'],
    ['Environments', 'environment'],
    ['profiles', 'profile'],
    ['service-profile', 'profile'],
    ['service_profile', 'profile'],
    ['ServiceProfiles', 'profile'],
    ['vmprofile', 'vm-profile'],
    ['vm_profile', 'vm-profile'],
    ['VmProfile', 'vm-profile'],
    ['vm-profiles', 'vm-profile'],
    ['pools', 'pool'],
    ['pool-config', 'pool'],
    ['poolConfigs', 'pool'],
    ['pool_configuration', 'pool'],
    ['pool-configurations', 'pool'],
    ['policies', 'policy'],
    ['Tokens', 'token'],
    ['shareLink', 'share-link'],
    ['share_links', 'share-link'],
    ['integrations', 'integration'],
    ['Secrets', 'secret'],
    ['triggers', 'trigger'],
    ['Notifications', 'notification'],
  ])('the kind %s is %s, on write, read, list, history and delete', async (alias, kind) => {
    const name = uniqueName('alias');
    await write(api, alias, name, { note: alias });
    expect((await readResource(api, kind, name)).body.kind).toBe(kind);
    expect((await readResource(api, alias, name)).body.kind).toBe(kind);
    const { entries } = expectOk(await api.get<Page<Entry>>(`/v1/catalog/${alias}?pageSize=1000`));
    expect(entries.find((entry) => entry.name === name)?.kind).toBe(kind);
    expect(await history(api, alias, name)).toHaveLength(1);
    expectOk(await api.del(`/v1/catalog/${alias}/${name}`));
    expectError(await readResource(api, kind, name), 'NOT_FOUND');
  });

  test('an unknown kind is NOT_FOUND on read, list and history', async () => {
    expectError(await api.get('/v1/catalog/spaceship/enterprise'), 'NOT_FOUND');
    expectError(await api.get('/v1/catalog/spaceship'), 'NOT_FOUND');
    expectError(await api.get('/v1/catalog/spaceship/enterprise/history'), 'NOT_FOUND');
  });

  test('an unknown kind is INVALID_ARGUMENT that lists the kinds on write', async () => {
    const { message, details } = expectError(
      await postResource(api, 'spaceship', 'enterprise', {}),
      'INVALID_ARGUMENT',
      /kind$/,
    );
    for (const kind of kinds) expect(`${message} ${JSON.stringify(details)}`).toContain(kind);
    expectError(await api.del('/v1/catalog/spaceship/enterprise'), 'INVALID_ARGUMENT', /kind$/);
  });

  test('a change-request is read-only: a write is FAILED_PRECONDITION', async () => {
    for (const alias of ['change-request', 'change_requests', 'ChangeRequest']) {
      expectError(await postResource(api, alias, '1', { title: 'x' }), 'FAILED_PRECONDITION');
    }
    const masked = { updateMask: 'title' };
    expectError(await postResource(api, 'change-request', '1', {}, masked), 'FAILED_PRECONDITION');
    expectError(await api.del('/v1/catalog/change-request/1'), 'FAILED_PRECONDITION');
    expectError(await readResource(api, 'change-request', '1'), 'NOT_FOUND');
    expect(expectOk(await api.get<Page<Entry>>('/v1/catalog/change-request')).entries).toEqual([]);
  });
});

describe('builtins', () => {
  const builtins = [
    ['workspace', 'default'],
    ['environment', 'default'],
    ['pool', 'default'],
    ['vm-profile', 'default'],
    ['policy', 'default'],
    ['persona', 'default'],
    ['persona', 'planner'],
    ['persona', 'reviewer'],
  ] as const;

  test.each(builtins)('the builtin %s %s is readable at generation 0', async (kind, name) => {
    const { body } = await readResource(api, kind, name);
    expect(body).toMatchObject({ kind, generation: '0' });
    expect(decode(body.payload)).toMatchObject({ name });
  });

  test.each(builtins)('the builtin %s %s is listed as such', async (kind, name) => {
    const { entries } = expectOk(await api.get<Page<Entry>>(`/v1/catalog/${kind}?pageSize=1000`));
    const entry = entries.find((e) => e.name === name);
    expect(entry).toMatchObject({ kind, name, generation: '0', builtin: true });
  });

  test('a stored resource replaces the builtin of its name until it is deleted', async () => {
    const before = (await readResource(api, 'persona', 'reviewer')).body;
    const created = await write(
      api,
      'persona',
      'reviewer',
      { instructions: 'Ours.' },
      { ifGenerationMatch: '0' },
    );
    expect(created.generation).toBe('1');
    expect(await readDocument(api, 'persona', 'reviewer')).toMatchObject({
      generation: '1',
      document: { instructions: 'Ours.' },
    });
    const { entries } = expectOk(await api.get<Page<Entry>>('/v1/catalog/persona?pageSize=1000'));
    expect(entries.filter((e) => e.name === 'reviewer')).toMatchObject([{ builtin: false, generation: '1' }]);
    expectOk(await api.del('/v1/catalog/persona/reviewer'));
    expect((await readResource(api, 'persona', 'reviewer')).body).toEqual(before);
  });

  test('a patch of a builtin starts from the builtin', async () => {
    const { instructions } = (await readDocument(api, 'persona', 'planner')).document;
    expect(instructions).toEqual(expect.stringMatching(/./));
    await write(api, 'persona', 'planner', { model: 'sonnet' }, { updateMask: 'model' });
    expect(await readDocument(api, 'persona', 'planner')).toMatchObject({
      generation: '1',
      document: { instructions, model: 'sonnet' },
    });
    expectOk(await api.del('/v1/catalog/persona/planner'));
  });

  test('a builtin cannot be deleted', async () => {
    const answer = await api.del('/v1/catalog/vm-profile/default');
    expect([400, 404]).toContain(answer.status);
    expect((await readResource(api, 'vm-profile', 'default')).body.generation).toBe('0');
  });
});

describe('documents', () => {
  test('the reply has the stored document, with the fields that the server sets', async () => {
    const name = uniqueName('persisted');
    const written = await write(api, 'profile', name, { displayName: 'x' });
    expect(decode(written.payload)).toEqual((await readDocument(api, 'profile', name)).document);
    expect(decode(written.payload)).toMatchObject({
      name,
      createdAt: expect.stringMatching(/^\d{4}-.*Z$/),
      createdBy: expect.stringContaining('admin'),
      updatedAt: expect.stringMatching(/^\d{4}-.*Z$/),
      updatedBy: expect.stringContaining('admin'),
    });
  });

  const forged = { createdAt: '1999-01-01T00:00:00Z', createdBy: 'nobody', updatedAt: 'x', updatedBy: 7 };
  test.each([
    ['in a full replace', ''],
    ['under a mask', 'createdAt,createdBy,updatedAt,updatedBy,displayName'],
  ])('createdAt, createdBy, updatedAt and updatedBy are set by the server %s', async (_, updateMask) => {
    const name = uniqueName('server');
    const first = decode((await write(api, 'profile', name, { ...forged })).payload);
    expect(first.createdBy).not.toBe('nobody');
    expect(new Date(String(first.createdAt)).getFullYear()).toBeGreaterThan(2000);
    const { api: bob } = await createKey(api, { role: 'admin', account: 'bob' });
    const answer = await postResource(bob, 'profile', name, { ...forged, displayName: 'x' }, { updateMask });
    const second = decode(expectOk(answer).payload);
    expect(second).toMatchObject({
      createdAt: first.createdAt,
      createdBy: first.createdBy,
      displayName: 'x',
    });
    expect(second.updatedBy).toContain('bob');
    expect(Date.parse(String(second.updatedAt))).toBeGreaterThanOrEqual(Date.parse(String(first.updatedAt)));
  });

  test('server fields in a mask are not cleared', async () => {
    const name = uniqueName('server');
    const first = decode((await write(api, 'profile', name, {})).payload);
    await write(api, 'profile', name, {}, { updateMask: 'createdAt,createdBy,updatedAt,updatedBy' });
    expect((await readDocument(api, 'profile', name)).document).toMatchObject({
      createdAt: first.createdAt,
      createdBy: first.createdBy,
      updatedBy: first.createdBy,
    });
  });

  test('name is that of the path, whatever the document says', async () => {
    const name = uniqueName('name');
    expect(decode((await write(api, 'profile', name, {})).payload)).toMatchObject({ name });
    expect(decode((await write(api, 'profile', name, { name })).payload)).toMatchObject({ name });
    expect(decode((await write(api, 'profile', name, { name: 'Other' })).payload)).toMatchObject({
      name,
    });
    expect((await readDocument(api, 'profile', name)).generation).toBe('3');
    expectError(await readResource(api, 'profile', 'Other'), 'NOT_FOUND');
    const cleared = await write(api, 'profile', name, {}, { updateMask: 'name' });
    expect(decode(cleared.payload)).toMatchObject({ name });
  });

  test('no field of any kind is required', async () => {
    for (const [kind] of everyKind)
      expect((await write(api, kind, uniqueName('bare'), {})).generation, kind).toBe('1');
  });

  test.each(everyKind)('unknown fields of a %s are stored as sent', async (kind, document) => {
    const name = uniqueName('open');
    const unknown = {
      colour: 'red',
      nested: { list: [1, 'two', null, { three: 3.5 }], empty: {}, none: null },
      'a.dotted key': true,
      größe: '👍',
      number: 1e21,
      constructor: { prototype: 'kept' },
    };
    await write(api, kind, name, { ...document, ...unknown });
    expect((await readDocument(api, kind, name)).document).toMatchObject({ ...document, ...unknown });
  });

  test('__proto__ is refused by name; other keys of every object are ordinary keys', async () => {
    const name = uniqueName('proto');
    const path = `/v1/catalog/profile/${name}`;
    const send = (json: string, updateMask = '') =>
      api.post(path, { payload: Buffer.from(json).toString('base64'), updateMask });
    expectError(await send('{"__proto__":{"polluted":1}}'), 'INVALID_ARGUMENT', 'payload.__proto__');
    expectError(await send('{"a":{"__proto__":2}}'), 'INVALID_ARGUMENT', 'payload.a.__proto__');
    expectOk(await send('{"a":1}'));
    expectError(await send('{"b":1}', '__proto__.polluted'), 'INVALID_ARGUMENT', 'updateMask');
    const inherited = encode({ constructor: { prototype: { polluted: 4 } } });
    expectOk(await api.post(path, { payload: inherited, updateMask: 'constructor.prototype.polluted' }));
    const other = decode((await write(api, 'profile', uniqueName('proto'), {})).payload);
    expect(Object.keys(other).sort()).toEqual(['createdAt', 'createdBy', 'name', 'updatedAt', 'updatedBy']);
    expect(JSON.stringify((await api.get('/v1/whoami')).body)).not.toContain('polluted');
  });

  test.each<[kind: string, field: string, value: unknown]>([
    ['persona', 'instructions', 1],
    ['persona', 'model', ['opus']],
    ['persona', 'reasoningEffort', true],
    ['persona', 'serviceTier', {}],
    ['persona', 'fastMode', 'yes'],
    ['persona', 'tasks', { subject: 'x' }],
    ['persona', 'tasks', ['look']],
    ['persona', 'tasks', [{ subject: 1 }]],
    ['persona', 'tasks', [{ status: 'DONE' }]],
    ['workspace', 'repos', 'https://example.org/a.git'],
    ['workspace', 'repos', [1]],
    ['workspace', 'repos', [{ url: 1 }]],
    ['workspace', 'environment', 1],
    ['workspace', 'pool', {}],
    ['workspace', 'model', false],
    ['workspace', 'persona', []],
    ['workspace', 'mcpServers', [{ url: 'https://example.org/mcp' }]],
    ['workspace', 'mcpServers', { a: {} }],
    ['workspace', 'mcpServers', { muster: { command: 'x' } }],
    ['workspace', 'mcpServers', { a: { url: 'ftp://example.org/' } }],
    ['workspace', 'mcpServers', { a: { url: 'https://example.org/', headers: { A: { fromSecret: 1 } } } }],
    ['workspace', 'tools', 'web_search'],
    ['workspace', 'tools', ['WebSearch']],
    ['environment', 'variables', ['A=1']],
    ['environment', 'variables', { A: 1 }],
    ['environment', 'variables', { A: { fromRunner: 1 } }],
    ['environment', 'variables', { A: { fromSecret: 1 } }],
    ['environment', 'variables', { A: {} }],
    ['environment', 'setup', 'npm ci'],
    ['environment', 'setup', [1]],
    ['environment', 'allowHosts', {}],
    ['profile', 'displayName', 1],
    ['vm-profile', 'cpus', '2'],
    ['vm-profile', 'memoryMb', true],
    ['vm-profile', 'processes', 'many'],
    ['pool', 'vmProfile', 1],
    ['pool', 'maxRuns', '8'],
    ['pool', 'maxRuns', 1.5],
    ['pool', 'maxRuns', 1_000_001],
    ['pool', 'maxRunsTotal', '8'],
    ['pool', 'maxRunsTotal', -1],
    ['pool', 'maxTurnMinutes', '120'],
    ['pool', 'maxTurnMinutes', -1],
    ['pool', 'maxTurnMinutes', 10_081],
    ['vm-profile', 'scratchMb', -1],
    ['policy', 'models', []],
    ['policy', 'personas', ['']],
    ['policy', 'fastMode', 'no'],
    ['policy', 'maxTurnMinutes', 0],
    ['workspace', 'policy', 1],
    ['token', 'role', 1],
    ['token', 'role', 'king'],
    ['token', 'ownerProvider', 'PROVIDER_NONE'],
    ['token', 'account', 1],
    ['token', 'pool', 1],
    ['token', 'expiresAt', 'tomorrow'],
    ['token', 'expiresAt', 1],
    ['token', 'rotate', 'yes'],
    ['share-link', 'agentId', 'somebody'],
    ['share-link', 'agentId', { agent: 'somebody' }],
    ['share-link', 'expiresAt', 'tomorrow'],
    ['share-link', 'rotate', 1],
    ['integration', 'type', 1],
    ['integration', 'rotate', 'true'],
    ['integration', 'url', 'junk'],
    ['integration', 'url', 'ftp://git.example.com'],
    ['integration', 'url', 'https://'],
    ['integration', 'url', 'https://me:password@git.example.com'],
    ['integration', 'url', 'https://git.example.com/a b'],
    ['integration', 'token', { fromSecret: '' }],
    ['environment', 'variables', { A: { fromSecret: '' } }],
    ['environment', 'variables', { A: { fromRunner: '' } }],
    ['environment', 'variables', { A: { fromSecret: 'a', fromRunner: 'b' } }],
    ['workspace', 'mcpServers', { a: { url: 'https://example.com', headers: { X: { fromSecret: '' } } } }],
    ['trigger', 'agentId', 'somebody'],
    ['trigger', 'message', 1],
    ['trigger', 'message', '{{foo}}'],
    ['trigger', 'spawn', 'x'],
    ['trigger', 'auth', 'none'],
    ['trigger', 'filter', [{ path: 'body.x', in: 'x' }]],
    ['trigger', 'maxPerHour', 0],
    ['trigger', 'rotate', 1],
    ['notification', 'type', 'pager'],
    ['notification', 'url', 'example.com'],
    ['notification', 'url', { fromSecret: '' }],
    ['notification', 'to', ['ada']],
    ['notification', 'events', ['agent.*']],
    ['notification', 'labels', { team: 1 }],
    ['notification', 'quietHours', { from: '24:00', to: '07:00' }],
    ['secret', 'value', 1],
    ['secret', 'value', {}],
  ])('a %s whose %s is %j is INVALID_ARGUMENT, replaced or patched', async (kind, field, value) => {
    const name = uniqueName('typed');
    const refused = await postResource(api, kind, name, { [field]: value });
    expectError(refused, 'INVALID_ARGUMENT');
    expect(normalizeField(violation(refused))).toMatch(new RegExp(`(^|\\.)${field}(\\.|$)`));
    expectError(await readResource(api, kind, name), 'NOT_FOUND');
    await write(api, kind, name, {});
    const patched = await postResource(api, kind, name, { [field]: value }, { updateMask: field });
    expectError(patched, 'INVALID_ARGUMENT');
    expect((await readDocument(api, kind, name)).generation).toBe('1');
  });

  test('a tool that does not exist is refused with the list of those that do', async () => {
    const refused = await postResource(api, 'workspace', uniqueName('tools'), { tools: ['shell'] });
    expectError(refused, 'INVALID_ARGUMENT', 'payload.tools[0]');
    expect(JSON.stringify(refused.body)).toContain(
      'must be one of web_search, web_fetch, sub_agents; got \\"shell\\"',
    );
  });

  test('a reference to an unknown name is refused at use, not at write', async () => {
    const name = uniqueName('dangling');
    await write(api, 'workspace', name, {
      environment: 'nothing',
      pool: 'nothing',
      persona: 'nothing',
      model: 'nothing',
    });
    await write(api, 'persona', name, { model: 'no-such-model' });
    await write(api, 'pool', name, { vmProfile: 'nothing' });
    const spawn = (more: Document) =>
      api.post('/v1/agent/spawn', { agentId: agent(uniqueName('dangling')), description: 'x', ...more });
    expectError(await spawn({ workspace: name }), 'INVALID_ARGUMENT');
    expectError(await spawn({ agent: name }), 'INVALID_ARGUMENT');
  });

  test('a secret is named by fromRunner, and only its name is stored', async () => {
    const name = uniqueName('named');
    await write(api, 'environment', name, { variables: { KEY: { fromRunner: 'THE_KEY' } } });
    expect((await readDocument(api, 'environment', name)).document.variables).toEqual({
      KEY: { fromRunner: 'THE_KEY' },
    });
  });
});

import { createHash } from 'node:crypto';
import { type AgentStatus, kinds, limits } from '@muster/sdk/contract';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Answer, type Api, agent, apiOf, violation } from '../support/api.ts';
import { until } from '../support/async.ts';
import {
  createKey,
  createShareLink,
  decode,
  encode,
  postResource,
  readDocument,
  readResource,
  secretOfLink,
  uniqueName,
  type WrittenResource,
} from '../support/catalog.ts';
import { replySchemaProblem } from '../support/contract-schemas.ts';
import { expectError, expectOk, normalizeField } from '../support/expect-reply.ts';
import { sendRaw } from '../support/raw-requests.ts';
import { type SharedServer, sharedServer } from '../support/shared-server.ts';

let server: SharedServer;
let api: Api;

beforeAll(async () => {
  server = await sharedServer({ runner: false });
  api = apiOf(server);
});
afterAll(() => server?.close());

type Document = Record<string, unknown>;

interface Entry {
  readonly kind: string;
  readonly name: string;
  readonly payload: string;
  readonly inputFormat: string;
  readonly generation: string;
  readonly builtin: boolean;
}
interface Page<T> {
  readonly entries: T[];
  readonly nextPageToken: string;
}
interface Audit {
  readonly generation: string;
  readonly at: string;
  readonly by: string;
  readonly keyId: string;
  readonly action: string;
  readonly updateMask: string;
  readonly justification: string;
  readonly payload: string;
}

const write = async (
  kind: string,
  name: string,
  document: unknown,
  more: Document = {},
): Promise<WrittenResource> => expectOk(await postResource(api, kind, name, document, more));

const history = async (kind: string, name: string, as: Api = api): Promise<Audit[]> =>
  expectOk(await as.get<Page<Audit>>(`/v1/catalog/${kind}/${name}/history`)).entries;

/** Every kind that can be written, with a document in which each known field is set. */
const whole: readonly (readonly [kind: string, document: Document])[] = [
  [
    'persona',
    {
      instructions: 'Look twice.',
      model: 'opus',
      reasoningEffort: 'high',
      serviceTier: '',
      fastMode: true,
      tasks: [
        { id: 'a', subject: 'look', blocks: ['b'] },
        { id: 'b', subject: 'look again' },
      ],
    },
  ],
  [
    'workspace',
    {
      repos: [
        'https://example.org/a.git',
        { url: 'https://example.org/b.git', baseBranch: 'main', path: 'b' },
      ],
      environment: 'default',
      pool: 'default',
      model: 'opus',
      persona: 'planner',
    },
  ],
  [
    'environment',
    {
      variables: { PLAIN: 'value', SECRET: { fromRunner: 'RUNNER_SECRET' } },
      setup: ['npm ci'],
      allowHosts: ['registry.example.org'],
    },
  ],
  ['profile', { displayName: 'The reviewing robot' }],
  ['vm-profile', { cpus: 2, memoryMb: 4096, processes: 100 }],
  ['pool', { vmProfile: 'default', maxRuns: 4, maxTurnMinutes: 30 }],
  [
    'token',
    { role: 'viewer', ownerProvider: 'PROVIDER_IDP_OIDC', account: 'ann', expiresAt: '2099-01-01T00:00:00Z' },
  ],
  ['share-link', { agentId: { agent: ['somebody'] }, expiresAt: '2099-01-01T00:00:00Z' }],
  ['integration', { type: 'codehost' }],
];

describe('kinds', () => {
  test('there are ten', () => {
    expect([...kinds].sort()).toEqual([
      'change-request',
      'environment',
      'integration',
      'persona',
      'pool',
      'profile',
      'share-link',
      'token',
      'vm-profile',
      'workspace',
    ]);
  });

  test.each(whole)('a %s is written and read with every known field', async (kind, document) => {
    const name = uniqueName('whole');
    const written = await write(kind, name, document);
    expect(written.generation).toBe('1');
    const { body } = await readResource(api, kind, name);
    expect(body).toEqual({
      kind,
      payload: expect.any(String),
      inputFormat: kind === 'persona' ? 'INPUT_FORMAT_MARKDOWN' : 'INPUT_FORMAT_YAML',
      generation: '1',
    });
    expect(decode(body.payload)).toMatchObject({ ...document, name });
  });

  test('the input format of a persona is MARKDOWN, of every other kind YAML', async () => {
    for (const [kind] of whole) {
      const name = uniqueName('format');
      await write(kind, name, {});
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
    ['Tokens', 'token'],
    ['shareLink', 'share-link'],
    ['share_links', 'share-link'],
    ['integrations', 'integration'],
  ])('the kind %s is %s, on write, read, list, history and delete', async (alias, kind) => {
    const name = uniqueName('alias');
    await write(alias, name, { note: alias });
    expect((await readResource(api, kind, name)).body.kind).toBe(kind);
    expect((await readResource(api, alias, name)).body.kind).toBe(kind);
    const { entries } = expectOk(await api.get<Page<Entry>>(`/v1/catalog/${alias}?pageSize=1000`));
    expect(entries.find((entry) => entry.name === name)?.kind).toBe(kind);
    expect(await history(alias, name)).toHaveLength(1);
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
    const created = await write('persona', 'reviewer', { instructions: 'Ours.' }, { ifGenerationMatch: '0' });
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
    await write('persona', 'planner', { model: 'sonnet' }, { updateMask: 'model' });
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

describe('full replace and patch', () => {
  test('a write creates, and a second one updates', async () => {
    const name = uniqueName('twice');
    expect((await write('profile', name, { displayName: 'one' })).generation).toBe('1');
    expect((await write('profile', name, { displayName: 'two' })).generation).toBe('2');
    expect(await readDocument(api, 'profile', name)).toMatchObject({
      generation: '2',
      document: { displayName: 'two' },
    });
  });

  test.each([
    ['absent', undefined],
    ['empty', ''],
    ['*', '*'],
  ])('with a mask that is %s the payload is the complete document', async (_, updateMask) => {
    const name = uniqueName('replace');
    await write('profile', name, { displayName: 'one', note: 'gone', deep: { kept: false } });
    await write('profile', name, { displayName: 'two' }, { updateMask });
    const { document } = await readDocument(api, 'profile', name);
    expect(document).toMatchObject({ displayName: 'two' });
    expect(document).not.toHaveProperty('note');
    expect(document).not.toHaveProperty('deep');
  });

  test('with a mask only the named fields are replaced', async () => {
    const name = uniqueName('patch');
    await write('profile', name, { displayName: 'one', note: 'kept', list: [1, 2] });
    const document = { displayName: 'two', note: 'not named', extra: 'not named' };
    const written = await write('profile', name, document, { updateMask: 'displayName' });
    expect(written.generation).toBe('2');
    const now = (await readDocument(api, 'profile', name)).document;
    expect(now).toMatchObject({ displayName: 'two', note: 'kept', list: [1, 2] });
    expect(now).not.toHaveProperty('extra');
  });

  test.each([
    ['an empty string', ''],
    ['zero', 0],
    ['false', false],
    ['an empty array', []],
    ['an empty object', {}],
  ])('a field of the mask is written even when it is %s', async (_, value) => {
    const name = uniqueName('zero');
    await write('profile', name, { field: 'full' });
    await write('profile', name, { field: value }, { updateMask: 'field' });
    expect((await readDocument(api, 'profile', name)).document).toHaveProperty('field', value);
  });

  test.each([
    ['absent', undefined],
    ['empty', ''],
  ])('a payload that is %s is the document {}', async (_, payload) => {
    const name = uniqueName('empty');
    await write('profile', name, { displayName: 'one' });
    expectOk(await api.post(`/v1/catalog/profile/${name}`, { payload }));
    const { document, generation } = await readDocument(api, 'profile', name);
    expect(generation).toBe('2');
    expect(Object.keys(document).sort()).toEqual([
      'createdAt',
      'createdBy',
      'name',
      'updatedAt',
      'updatedBy',
    ]);
  });

  test('an empty payload under a mask clears the fields of the mask', async () => {
    const name = uniqueName('empty');
    await write('profile', name, { displayName: 'one', note: 'kept' });
    expectOk(await api.post(`/v1/catalog/profile/${name}`, { updateMask: 'displayName' }));
    const { document } = await readDocument(api, 'profile', name);
    expect(document).not.toHaveProperty('displayName');
    expect(document).toMatchObject({ note: 'kept' });
  });

  const base = { a: { b: { c: 1, d: 2 }, e: 3 }, list: [{ x: 1 }], text: 'word', none: null, snake_case: 1 };
  test.each<[mask: string, payload: Document, expected: Document, absent?: string[]]>([
    ['a.b.c', { a: { b: { c: 9 } } }, { a: { b: { c: 9, d: 2 }, e: 3 } }],
    ['a.b', { a: { b: { z: 9 } } }, { a: { b: { z: 9 }, e: 3 } }],
    ['a.b.c,text', { a: { b: { c: 9 } }, text: 'new' }, { a: { b: { c: 9, d: 2 }, e: 3 }, text: 'new' }],
    ['a,a.e', { a: { e: 9 } }, { a: { e: 9 } }],
    ['a.b.c', {}, { a: { b: { d: 2 }, e: 3 } }],
    ['a', {}, { text: 'word' }, ['a']],
    ['text,list', { text: 'new' }, { text: 'new' }, ['list']],
    ['new.deep.path', { new: { deep: { path: 1, other: 2 } } }, { new: { deep: { path: 1 } } }],
    ['list', { list: [] }, { list: [] }],
    ['snakeCase', { snakeCase: 2 }, { snake_case: 1, snakeCase: 2 }],
    ['A.B', { A: { B: 1 } }, { A: { B: 1 }, a: base.a }],
  ])('the mask %s of %j makes %j', async (updateMask, payload, expected, absent = []) => {
    const name = uniqueName('mask');
    await write('profile', name, base);
    await write('profile', name, payload, { updateMask });
    const { document } = await readDocument(api, 'profile', name);
    for (const [key, value] of Object.entries(expected)) expect(document).toHaveProperty([key], value);
    for (const key of absent) expect(document).not.toHaveProperty([key]);
  });

  test.each([
    ['a path through a string', 'text.a'],
    ['a path through an array', 'list.0'],
    ['a path through a number', 'a.e.f'],
    ['an empty segment', 'a..b'],
    ['a leading dot', '.a'],
    ['a trailing dot', 'a.'],
    ['an empty path', 'a,,text'],
    ['a comma alone', ','],
    ['a dot alone', '.'],
  ])('%s is INVALID_ARGUMENT, and nothing is written', async (_, updateMask) => {
    const name = uniqueName('mask');
    await write('profile', name, base);
    const payload = { text: { a: 1 }, a: { e: { f: 1 } }, list: [2] };
    expectError(
      await postResource(api, 'profile', name, payload, { updateMask }),
      'INVALID_ARGUMENT',
      'updateMask',
    );
    expect(await readDocument(api, 'profile', name)).toMatchObject({ generation: '1', document: base });
  });

  test('a path through a value that is not an object is INVALID_ARGUMENT', async () => {
    const name = uniqueName('mask');
    await write('profile', name, base);
    const answer = await postResource(api, 'profile', name, { a: 'text' }, { updateMask: 'a.b' });
    expectError(answer, 'INVALID_ARGUMENT', /^(updateMask|payload)/);
  });

  test(`a mask has at most ${limits.maskPaths} paths`, async () => {
    const name = uniqueName('mask');
    await write('profile', name, {});
    const mask = (count: number) => Array.from({ length: count }, (_, i) => `f${i}`).join(',');
    await write('profile', name, { f99: 1 }, { updateMask: mask(100) });
    expect((await readDocument(api, 'profile', name)).document).toHaveProperty('f99', 1);
    const answer = await postResource(api, 'profile', name, { f99: 2 }, { updateMask: mask(101) });
    expectError(answer, 'INVALID_ARGUMENT', 'updateMask');
  });

  test('a patch of a resource that does not exist is NOT_FOUND', async () => {
    const name = uniqueName('absent');
    const more = { updateMask: 'displayName' };
    expectError(await postResource(api, 'profile', name, { displayName: 'x' }, more), 'NOT_FOUND');
    expectError(await readResource(api, 'profile', name), 'NOT_FOUND');
  });

  test('with ifGenerationMatch 0 a patch creates a resource that does not exist', async () => {
    const name = uniqueName('absent');
    const document = { displayName: 'x', note: 'not named' };
    const more = { updateMask: 'displayName', ifGenerationMatch: '0' };
    expect((await write('profile', name, document, more)).generation).toBe('1');
    const now = (await readDocument(api, 'profile', name)).document;
    expect(now).toMatchObject({ displayName: 'x' });
    expect(now).not.toHaveProperty('note');
    expectError(await postResource(api, 'profile', name, document, more), 'FAILED_PRECONDITION');
  });

  test('concurrent patches of different fields are all kept', async () => {
    const name = uniqueName('race');
    await write('profile', name, {});
    const fields = Array.from({ length: 20 }, (_, i) => `field${i}`);
    const generations = await Promise.all(
      fields.map(
        async (field) => (await write('profile', name, { [field]: 1 }, { updateMask: field })).generation,
      ),
    );
    expect(generations.map(Number).sort((a, b) => a - b)).toEqual(fields.map((_, i) => i + 2));
    const { document, generation } = await readDocument(api, 'profile', name);
    expect(generation).toBe('21');
    for (const field of fields) expect(document).toHaveProperty(field, 1);
  });
});

describe('payload', () => {
  /** The two base64 alphabets encode it differently. */
  const document = { displayName: '~~~???>>>ÿþ', note: '\u{1f600}' };
  const standard = encode(document);
  const urlSafe = standard.replaceAll('+', '-').replaceAll('/', '_');

  test('both base64 alphabets are read, with or without padding', async () => {
    expect(urlSafe).not.toBe(standard);
    for (const payload of [standard, urlSafe, urlSafe.replace(/=+$/, ''), standard.replace(/=+$/, '')]) {
      const name = uniqueName('base64');
      expectOk(await api.post(`/v1/catalog/profile/${name}`, { payload }));
      expect((await readDocument(api, 'profile', name)).document).toMatchObject(document);
    }
  });

  test.each([
    ['not base64', 'this is not base64!'],
    ['plain JSON', '{"displayName":"x"}'],
    ['a length base64 can not have', 'e30aa'],
    ['padding in the middle', 'e3==0='],
    ['a word', '%%%%'],
  ])('a payload that is %s is INVALID_ARGUMENT', async (_, payload) => {
    const name = uniqueName('broken');
    expectError(await api.post(`/v1/catalog/profile/${name}`, { payload }), 'INVALID_ARGUMENT', 'payload');
    expectError(await readResource(api, 'profile', name), 'NOT_FOUND');
  });

  test.each([
    ['an array', '[]'],
    ['a string', '"text"'],
    ['a number', '7'],
    ['true', 'true'],
    ['null', 'null'],
    ['broken JSON', '{"a":'],
    ['nothing but space', ' '],
    ['two documents', '{}{}'],
    ['YAML', 'displayName: x'],
  ])('a payload that decodes to %s is INVALID_ARGUMENT', async (_, text) => {
    const payload = Buffer.from(text).toString('base64');
    for (const updateMask of ['', 'displayName']) {
      const answer = await api.post(`/v1/catalog/profile/${uniqueName('broken')}`, { payload, updateMask });
      expectError(answer, 'INVALID_ARGUMENT', 'payload');
    }
  });

  test('a payload that is not UTF-8 is INVALID_ARGUMENT', async () => {
    const bytes = Buffer.concat([Buffer.from('{"a":"'), Buffer.from([0xc3, 0x28]), Buffer.from('"}')]);
    const answer = await api.post(`/v1/catalog/profile/${uniqueName('utf8')}`, {
      payload: bytes.toString('base64'),
    });
    expectError(answer, 'INVALID_ARGUMENT', 'payload');
  });

  test('a payload of another JSON type is INVALID_ARGUMENT', async () => {
    for (const payload of [{ displayName: 'x' }, 1, true, ['e30=']]) {
      const answer = await api.post(`/v1/catalog/profile/${uniqueName('broken')}`, { payload });
      expectError(answer, 'INVALID_ARGUMENT', 'payload');
    }
  });
});

describe('preconditions and generations', () => {
  test('without ifGenerationMatch the last writer wins', async () => {
    const name = uniqueName('last');
    await write('profile', name, { n: 1 });
    await write('profile', name, { n: 2 });
    expect((await readDocument(api, 'profile', name)).document).toMatchObject({ n: 2 });
  });

  test('ifGenerationMatch writes only at the current generation, and the reply has the next one', async () => {
    const name = uniqueName('chain');
    let { generation } = await write('profile', name, { n: 0 }, { ifGenerationMatch: '0' });
    for (const n of [1, 2, 3]) {
      ({ generation } = await write('profile', name, { n }, { ifGenerationMatch: generation }));
      expect(generation).toBe(String(n + 1));
    }
    expect(await readDocument(api, 'profile', name)).toMatchObject({ generation, document: { n: 3 } });
  });

  test('a read-modify-write with the generation of the read loses no update', async () => {
    const name = uniqueName('rmw');
    await write('profile', name, { count: 0 });
    let refused = 0;
    const increment = async (): Promise<void> => {
      for (;;) {
        const { document, generation } = await readDocument(api, 'profile', name);
        const next = { ...document, count: Number(document.count) + 1 };
        const answer = await postResource(api, 'profile', name, next, { ifGenerationMatch: generation });
        if (answer.status === 200) return;
        expectError(answer, 'FAILED_PRECONDITION');
        refused += 1;
      }
    };
    await Promise.all(Array.from({ length: 8 }, increment));
    expect(await readDocument(api, 'profile', name)).toMatchObject({
      generation: '9',
      document: { count: 8 },
    });
    expect(refused).toBeGreaterThan(0);
  });

  test.each([
    ['an older generation', '1'],
    ['a newer generation', '3'],
    ['0 on a resource that exists', '0'],
    ['the largest integer', '9223372036854775807'],
  ])('%s is FAILED_PRECONDITION, and nothing is written', async (_, ifGenerationMatch) => {
    const name = uniqueName('stale');
    await write('profile', name, { n: 1 });
    await write('profile', name, { n: 2 });
    for (const updateMask of ['', 'n']) {
      const answer = await postResource(api, 'profile', name, { n: 3 }, { ifGenerationMatch, updateMask });
      expectError(answer, 'FAILED_PRECONDITION');
    }
    expect(await readDocument(api, 'profile', name)).toMatchObject({ generation: '2', document: { n: 2 } });
    expect(await history('profile', name)).toHaveLength(2);
  });

  test('every generation except 0 is FAILED_PRECONDITION on a resource that does not exist', async () => {
    const name = uniqueName('stale');
    expectError(
      await postResource(api, 'profile', name, {}, { ifGenerationMatch: '1' }),
      'FAILED_PRECONDITION',
    );
    expectError(await readResource(api, 'profile', name), 'NOT_FOUND');
  });

  test('0 creates atomically: one of many concurrent writes succeeds', async () => {
    const name = uniqueName('create');
    const answers = await Promise.all(
      Array.from({ length: 12 }, (_, n) =>
        postResource(api, 'profile', name, { n }, { ifGenerationMatch: 0 }),
      ),
    );
    const won = answers.filter(({ status }) => status === 200);
    expect(won).toHaveLength(1);
    for (const answer of answers) if (answer.status !== 200) expectError(answer, 'FAILED_PRECONDITION');
    const { document, generation } = await readDocument(api, 'profile', name);
    expect(generation).toBe('1');
    expect(decode(won[0]?.body.payload ?? '')).toEqual(document);
  });

  test('one of many concurrent writes at one generation succeeds', async () => {
    const name = uniqueName('cas');
    await write('profile', name, {});
    const answers = await Promise.all(
      Array.from({ length: 12 }, (_, n) =>
        postResource(api, 'profile', name, { n }, { ifGenerationMatch: '1' }),
      ),
    );
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
    expect((await readDocument(api, 'profile', name)).generation).toBe('2');
  });

  test.each(['-1', -1, '-9223372036854775808'])(
    'an ifGenerationMatch of %j is INVALID_ARGUMENT',
    async (ifGenerationMatch) => {
      const name = uniqueName('negative');
      const answer = await postResource(api, 'profile', name, {}, { ifGenerationMatch });
      expectError(answer, 'INVALID_ARGUMENT', 'ifGenerationMatch');
      expectError(await readResource(api, 'profile', name), 'NOT_FOUND');
    },
  );

  test('the generation starts at 1, rises by 1, and continues after a delete', async () => {
    const name = uniqueName('through');
    const path = `/v1/catalog/profile/${name}`;
    expect((await write('profile', name, { n: 1 })).generation).toBe('1');
    expect((await write('profile', name, { n: 2 })).generation).toBe('2');
    const deleted = expectOk(await api.del<{ generation: string }>(path));
    expectError(
      await postResource(api, 'profile', name, {}, { ifGenerationMatch: '2' }),
      'FAILED_PRECONDITION',
    );
    const again = await write('profile', name, { n: 3 }, { ifGenerationMatch: '0' });
    expect(Number(again.generation)).toBe(Number(deleted.generation) + 1);
    expect(Number(again.generation)).toBeGreaterThan(2);
    const named = (await history('profile', name))
      .filter(({ action }) => action === 'WRITE')
      .map(({ generation }) => generation);
    expect(new Set(named).size).toBe(3);
  });

  test('a refused write does not raise the generation', async () => {
    const name = uniqueName('refused');
    await write('profile', name, {});
    expectError(await postResource(api, 'profile', name, { displayName: 1 }), 'INVALID_ARGUMENT');
    expect((await write('profile', name, {})).generation).toBe('2');
  });
});

describe('documents', () => {
  test('the reply has the stored document, with the fields that the server sets', async () => {
    const name = uniqueName('persisted');
    const written = await write('profile', name, { displayName: 'x' });
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
    const first = decode((await write('profile', name, { ...forged })).payload);
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
    const first = decode((await write('profile', name, {})).payload);
    await write('profile', name, {}, { updateMask: 'createdAt,createdBy,updatedAt,updatedBy' });
    expect((await readDocument(api, 'profile', name)).document).toMatchObject({
      createdAt: first.createdAt,
      createdBy: first.createdBy,
      updatedBy: first.createdBy,
    });
  });

  test('name is that of the path, whatever the document says', async () => {
    const name = uniqueName('name');
    expect(decode((await write('profile', name, {})).payload)).toMatchObject({ name });
    expect(decode((await write('profile', name, { name })).payload)).toMatchObject({ name });
    expect(decode((await write('profile', name, { name: 'Other' })).payload)).toMatchObject({
      name,
    });
    expect((await readDocument(api, 'profile', name)).generation).toBe('3');
    expectError(await readResource(api, 'profile', 'Other'), 'NOT_FOUND');
    const cleared = await write('profile', name, {}, { updateMask: 'name' });
    expect(decode(cleared.payload)).toMatchObject({ name });
  });

  test('no field of any kind is required', async () => {
    for (const [kind] of whole)
      expect((await write(kind, uniqueName('bare'), {})).generation, kind).toBe('1');
  });

  test.each(whole)('unknown fields of a %s are stored as sent', async (kind, document) => {
    const name = uniqueName('open');
    const unknown = {
      colour: 'red',
      nested: { list: [1, 'two', null, { three: 3.5 }], empty: {}, none: null },
      'a.dotted key': true,
      größe: '👍',
      number: 1e21,
      constructor: { prototype: 'kept' },
    };
    await write(kind, name, { ...document, ...unknown });
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
    const other = decode((await write('profile', uniqueName('proto'), {})).payload);
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
    ['environment', 'variables', ['A=1']],
    ['environment', 'variables', { A: 1 }],
    ['environment', 'variables', { A: { fromRunner: 1 } }],
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
    ['pool', 'maxTurnMinutes', '120'],
    ['pool', 'maxTurnMinutes', -1],
    ['pool', 'maxTurnMinutes', 10_081],
    ['vm-profile', 'scratchMb', -1],
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
  ])('a %s whose %s is %j is INVALID_ARGUMENT, replaced or patched', async (kind, field, value) => {
    const name = uniqueName('typed');
    const refused = await postResource(api, kind, name, { [field]: value });
    expectError(refused, 'INVALID_ARGUMENT');
    expect(normalizeField(violation(refused))).toMatch(new RegExp(`(^|\\.)${field}(\\.|$)`));
    expectError(await readResource(api, kind, name), 'NOT_FOUND');
    await write(kind, name, {});
    const patched = await postResource(api, kind, name, { [field]: value }, { updateMask: field });
    expectError(patched, 'INVALID_ARGUMENT');
    expect((await readDocument(api, kind, name)).generation).toBe('1');
  });

  test('a reference to an unknown name is refused at use, not at write', async () => {
    const name = uniqueName('dangling');
    await write('workspace', name, {
      environment: 'nothing',
      pool: 'nothing',
      persona: 'nothing',
      model: 'nothing',
    });
    await write('persona', name, { model: 'no-such-model' });
    await write('pool', name, { vmProfile: 'nothing' });
    const spawn = (more: Document) =>
      api.post('/v1/agent/spawn', { agentId: agent(uniqueName('dangling')), description: 'x', ...more });
    expectError(await spawn({ workspace: name }), 'INVALID_ARGUMENT');
    expectError(await spawn({ agent: name }), 'INVALID_ARGUMENT');
  });

  test('a secret is named by fromRunner, and only its name is stored', async () => {
    const name = uniqueName('named');
    await write('environment', name, { variables: { KEY: { fromRunner: 'THE_KEY' } } });
    expect((await readDocument(api, 'environment', name)).document.variables).toEqual({
      KEY: { fromRunner: 'THE_KEY' },
    });
  });
});

describe('names and tenants', () => {
  test.each(['a', 'A.b_c-9', 'x'.repeat(128), '...', '-'])('%s is a catalog name', async (name) => {
    await write('profile', name, { note: name });
    expect((await readDocument(api, 'profile', name)).document).toMatchObject({ note: name });
  });

  test.each(['x'.repeat(129), 'a%20b', 'a%2Fb', '%C3%A4', 'a*', 'a:b', '100%25', '%2e', '%2e%2e'])(
    '%s is no catalog name: INVALID_ARGUMENT',
    async (name) => {
      const headers = { authorization: `Bearer ${server.key}` };
      const path = `/v1/catalog/profile/${name}`;
      expectError(await sendRaw(server.url, { path, headers }), 'INVALID_ARGUMENT', /name$/);
    },
  );

  test('names are case-sensitive, unlike kinds', async () => {
    const name = uniqueName('Case');
    await write('profile', name, {});
    expectError(await readResource(api, 'profile', name.toLowerCase()), 'NOT_FOUND');
  });

  test('a resource that does not exist is NOT_FOUND', async () => {
    for (const [kind] of whole) expectError(await readResource(api, kind, uniqueName('absent')), 'NOT_FOUND');
  });

  const ofTenant = (query: string): string => query.replace('OWN', server.tenant.org);
  test.each([
    ['nothing', ''],
    ['ref.tenant.*', '?ref.tenant.provider=PROVIDER_CODEHOST_APP&ref.tenant.org=OWN'],
    ['tenant.*', '?tenant.provider=PROVIDER_CODEHOST_APP&tenant.org=OWN'],
    ['provider and org', '?provider=PROVIDER_CODEHOST_APP&org=OWN'],
    ['org alone', '?org=OWN'],
    ['provider alone', '?ref.tenant.provider=PROVIDER_CODEHOST_APP'],
    ['empty and unspecified values', '?provider=PROVIDER_UNSPECIFIED&org='],
  ])("a read whose query names %s reads the caller's tenant", async (_, pattern) => {
    const query = ofTenant(pattern);
    const name = uniqueName('query');
    const path = `/v1/catalog/profile/${name}`;
    await write('profile', name, {});
    expect(expectOk(await api.get(path + query))).toMatchObject({ kind: 'profile', generation: '1' });
    expectOk(await api.get(`${path}/history${query}`));
    expectOk(await api.get(`/v1/catalog/profile${query}`));
    expectOk(await api.del(path + query));
  });

  test.each([
    '?ref.tenant.provider=PROVIDER_CODEHOST_APP&ref.tenant.org=another',
    '?tenant.provider=PROVIDER_CODEHOST_APP&tenant.org=another',
    '?provider=PROVIDER_CODEHOST_APP&org=another',
    '?ref.tenant.provider=PROVIDER_IDP_OIDC&ref.tenant.org=OWN',
    '?provider=PROVIDER_IDP_OIDC',
  ])('the query %s names another tenant: PERMISSION_DENIED', async (pattern) => {
    const query = ofTenant(pattern);
    expectError(await readResource(api, 'persona', 'default', query), 'PERMISSION_DENIED');
    expectError(await api.get(`/v1/catalog/persona${query}`), 'PERMISSION_DENIED');
    expectError(await api.get(`/v1/catalog/persona/default/history${query}`), 'PERMISSION_DENIED');
    expectError(await api.del(`/v1/catalog/persona/default${query}`), 'PERMISSION_DENIED');
  });

  test('a provider in the query that is no Provider value is INVALID_ARGUMENT', async () => {
    for (const key of ['ref.tenant.provider', 'tenant.provider', 'provider']) {
      const answer = await readResource(api, 'persona', 'default', `?${key}=CODEHOST`);
      expectError(answer, 'INVALID_ARGUMENT', key);
    }
  });

  test('the ref of a write has its tenant', async () => {
    const own = { tenant: server.tenant };
    await write('profile', uniqueName('ref'), {}, { ref: own });
    const foreign = { tenant: { provider: 'PROVIDER_CODEHOST_APP', org: 'another' } };
    expectError(
      await postResource(api, 'profile', uniqueName('ref'), {}, { ref: foreign }),
      'PERMISSION_DENIED',
    );
  });
});

describe('one-time secrets', () => {
  const secretKinds = [
    ['token', 'key', {}],
    ['share-link', 'url', { agentId: { agent: ['somebody'] } }],
    ['integration', 'signingKey', { type: 'codehost' }],
  ] as const;

  test.each(secretKinds)(
    'the reply to the write that creates a %s has its raw %s',
    async (kind, field, document) => {
      const { payload } = await write(kind, uniqueName('once'), document);
      expect(decode(payload)[field]).toEqual(expect.stringMatching(/^\S{20,}$/));
    },
  );

  test.each(secretKinds)('no later reply about a %s has its %s', async (kind, field, document) => {
    const name = uniqueName('once');
    const secret = String(decode((await write(kind, name, document)).payload)[field]);
    const later: Answer<unknown>[] = [
      await readResource(api, kind, name),
      await postResource(api, kind, name, document),
      await postResource(api, kind, name, { note: 1 }, { updateMask: 'note' }),
      await api.get(`/v1/catalog/${kind}/${name}/history`),
      await api.get(`/v1/catalog/${kind}?pageSize=1000`),
      await api.del(`/v1/catalog/${kind}/${name}`),
    ];
    const raw = kind === 'share-link' ? secretOfLink(secret) : secret;
    const digest = createHash('sha256').update(raw).digest();
    const tail = createHash('sha256')
      .update(raw.slice(raw.indexOf('.') + 1))
      .digest();
    const needles = [raw, raw.slice(raw.indexOf('.') + 1), secret].concat(
      [digest, tail].flatMap((d) => [d.toString('hex'), d.toString('base64'), d.toString('base64url')]),
    );
    for (const answer of later) {
      expectOk(answer);
      const text = everything(answer.body);
      for (const needle of needles) expect(text).not.toContain(needle);
      expect(text).not.toContain(`"${field}"`);
      expect(text).not.toMatch(/nonce|sha256|hash/i);
    }
  });

  /** The reply as text, its payloads decoded too. */
  function everything(value: unknown): string {
    const texts = [JSON.stringify(value)];
    for (const [, payload] of JSON.stringify(value).matchAll(/"payload":"([^"]*)"/g)) {
      texts.push(Buffer.from(payload ?? '', 'base64').toString());
    }
    return texts.join('\n');
  }

  test.each(secretKinds)('rotate: true on a %s returns a new %s, once', async (kind, field, document) => {
    const name = uniqueName('rotate');
    const secretOf = ({ payload }: WrittenResource) => decode(payload)[field];
    const first = secretOf(await write(kind, name, document));
    const second = secretOf(await write(kind, name, { ...document, rotate: true }));
    const third = secretOf(await write(kind, name, { rotate: true }, { updateMask: 'rotate' }));
    expect(new Set([first, second, third]).size).toBe(3);
    for (const secret of [first, second, third]) expect(secret).toEqual(expect.stringMatching(/^\S{20,}$/));
    expect(secretOf(await write(kind, name, { note: 1 }, { updateMask: 'note' }))).toBeUndefined();
    expect(secretOf(await write(kind, name, { ...document, rotate: false }))).toBeUndefined();
    expect((await readDocument(api, kind, name)).document).not.toHaveProperty('rotate', true);
  });

  test.each(secretKinds)(
    'a %s that is deleted and created again has a new %s',
    async (kind, field, document) => {
      const name = uniqueName('anew');
      const first = decode((await write(kind, name, document)).payload)[field];
      expectOk(await api.del(`/v1/catalog/${kind}/${name}`));
      const second = decode((await write(kind, name, document)).payload)[field];
      expect(second).toEqual(expect.stringMatching(/^\S{20,}$/));
      expect(second).not.toBe(first);
    },
  );

  test.each(secretKinds)(
    'the raw secret is not stored, even when the reply of a %s is written back with its %s',
    async (kind, field, document) => {
      const name = uniqueName('back');
      const reply = decode((await write(kind, name, document)).payload);
      const secret = String(reply[field]);
      await write(kind, name, reply);
      await write(kind, name, reply, { updateMask: `${field},note` });
      const seen =
        everything((await readResource(api, kind, name)).body) + everything(await history(kind, name));
      expect(seen).not.toContain(secret);
      if (kind === 'share-link') expect(seen).not.toContain(secretOfLink(secret));
    },
  );

  test('a token is an API key of the form mst_<key_id>.<secret>', async () => {
    const { api: made, key } = await createKey(api, { role: 'viewer', account: 'ann' });
    expect(key).toMatch(/^mst_[A-Za-z0-9-]+\.[A-Za-z0-9_-]{27,}$/);
    expect(expectOk(await made.get('/v1/whoami'))).toMatchObject({
      keyId: key.slice('mst_'.length, key.indexOf('.')),
      role: 'viewer',
      account: 'ann',
      expiresAt: null,
    });
  });

  test('a rotated token works with its new key, and its old key stops', async () => {
    const { name, api: old } = await createKey(api, { role: 'viewer' });
    expectOk(await old.get('/v1/whoami'));
    const rotated = await write('token', name, { role: 'viewer', rotate: true });
    const fresh = api.as(String(decode(rotated.payload).key));
    expectOk(await fresh.get('/v1/whoami'));
    const refused = await until(
      'the old key refused',
      () => old.get('/v1/whoami'),
      ({ status }) => status !== 200,
    );
    expectError(refused, 'UNAUTHENTICATED');
    expectOk(await fresh.get('/v1/whoami'));
  });

  test('a token that is written again without rotate keeps its key', async () => {
    const { name, api: made } = await createKey(api, { role: 'viewer' });
    await write('token', name, { role: 'viewer', note: 'again' });
    expectOk(await made.get('/v1/whoami'));
    await write('token', name, { role: 'member' }, { updateMask: 'role' });
    await until(
      'the new role',
      () => made.get('/v1/whoami'),
      ({ body }) => body.role === 'member',
    );
  });

  test('a share link is a URL with the secret in its fragment, and the secret reads the agent', async () => {
    const name = uniqueName('shared');
    expectOk(await api.post('/v1/agent/spawn', { agentId: agent(name), description: 'for all to see' }));
    const { url, api: visitor } = await createShareLink(api, agent(name));
    expect(new URL(url).origin).toBe(new URL(server.url).origin);
    expect(new URL(url).search).toBe('');
    expect(secretOfLink(url).length).toBeGreaterThanOrEqual(27);
    expect(url.split('#')[0]).not.toContain(secretOfLink(url));
    const { agentId } = expectOk(await api.post<AgentStatus>('/v1/agent/status', { agentId: agent(name) }));
    const seen = expectOk(await visitor.post<AgentStatus>('/v1/agent/status', { agentId }));
    expect(seen.description).toBe('for all to see');
  });

  test('integrations of two names have two signing keys', async () => {
    const [one, two] = [
      await write('integration', uniqueName('i'), {}),
      await write('integration', uniqueName('i'), {}),
    ];
    expect(decode(one.payload).signingKey).not.toBe(decode(two.payload).signingKey);
  });
});

describe('audit history', () => {
  test('every write adds a record: who, when, kind, name, generation, mask, justification', async () => {
    const name = uniqueName('audit');
    const { api: bob } = await createKey(api, { role: 'admin', account: 'bob' });
    await write('profile', name, { displayName: 'one' }, { justification: 'because' });
    expectOk(await postResource(bob, 'profile', name, { displayName: 'two' }, { updateMask: 'displayName' }));
    expectOk(await api.del(`/v1/catalog/profile/${name}?justification=no+longer+needed`));
    await write('profile', name, {}, { justification: '' });
    const answer = await api.get<Page<Audit>>(`/v1/catalog/profile/${name}/history`);
    const { entries } = expectOk(answer);
    expect(replySchemaProblem('resourceHistory', answer.body)).toBeUndefined();
    const [keyId, bobsKeyId] = await Promise.all(
      [api, bob].map(async (caller) => (await caller.get('/v1/whoami')).body.keyId),
    );
    expect(entries).toMatchObject([
      { action: 'WRITE', updateMask: '', justification: '', by: 'codehost_oauth/admin', keyId },
      { action: 'DELETE', justification: 'no longer needed', by: 'codehost_oauth/admin', keyId },
      {
        action: 'WRITE',
        generation: '2',
        updateMask: 'displayName',
        by: 'codehost_oauth/bob',
        keyId: bobsKeyId,
      },
      { action: 'WRITE', generation: '1', justification: 'because', by: 'codehost_oauth/admin', keyId },
    ]);
    expect(decode(entries[3]?.payload ?? '')).toMatchObject({ displayName: 'one' });
    expect(decode(entries[2]?.payload ?? '')).toMatchObject({ displayName: 'two' });
    const times = entries.map(({ at }) => Date.parse(at));
    expect(times).toEqual([...times].sort((a, b) => b - a));
  });

  test('the history outlives the resource', async () => {
    const name = uniqueName('audit');
    await write('profile', name, {});
    expectOk(await api.del(`/v1/catalog/profile/${name}`));
    expect((await history('profile', name)).map(({ action }) => action)).toEqual(['DELETE', 'WRITE']);
  });

  test('a platform operator must give a justification, which is recorded', async () => {
    const operator = server.operator;
    const name = uniqueName('operated');
    const ref = { tenant: server.tenant };
    for (const justification of [undefined, '', null]) {
      const answer = await postResource(operator, 'profile', name, {}, { ref, justification });
      expectError(answer, 'INVALID_ARGUMENT', 'justification');
    }
    expectOk(await postResource(operator, 'profile', name, {}, { ref, justification: 'ticket 7' }));
    const query = `ref.tenant.provider=PROVIDER_CODEHOST_APP&ref.tenant.org=${server.tenant.org}`;
    expectError(
      await operator.del(`/v1/catalog/profile/${name}?${query}`),
      'INVALID_ARGUMENT',
      'justification',
    );
    expectOk(await operator.del(`/v1/catalog/profile/${name}?${query}&justification=ticket+8`));
    expect(await history('profile', name)).toMatchObject([
      { action: 'DELETE', justification: 'ticket 8' },
      { action: 'WRITE', justification: 'ticket 7' },
    ]);
  });

  test('a history has pages, newest first, each record once', async () => {
    const name = uniqueName('audit');
    for (let n = 1; n <= 7; n += 1) await write('profile', name, { n });
    const seen: string[] = [];
    let token = '';
    do {
      const path = `/v1/catalog/profile/${name}/history?pageSize=3&pageToken=${encodeURIComponent(token)}`;
      const { entries, nextPageToken } = expectOk(await api.get<Page<Audit>>(path));
      expect(entries.length).toBeLessThanOrEqual(3);
      seen.push(...entries.map(({ generation }) => generation));
      token = nextPageToken;
    } while (token !== '');
    expect(seen).toEqual(['7', '6', '5', '4', '3', '2', '1']);
  });
});

describe('list and delete', () => {
  test('a list has each resource of the kind once, page by page', async () => {
    const names = Array.from({ length: 7 }, () => uniqueName('listed'));
    for (const name of names) await write('integration', name, { type: name });
    await write('profile', uniqueName('listed'), {});
    const seen: Entry[] = [];
    let token = '';
    do {
      const path = `/v1/catalog/integration?pageSize=3&pageToken=${encodeURIComponent(token)}`;
      const page = expectOk(await api.get<Page<Entry>>(path));
      expect(replySchemaProblem('listResources', page)).toBeUndefined();
      expect(page.entries.length).toBeLessThanOrEqual(3);
      seen.push(...page.entries);
      token = page.nextPageToken;
    } while (token !== '');
    expect(new Set(seen.map((entry) => entry.name)).size).toBe(seen.length);
    for (const name of names) {
      const entry = seen.find((e) => e.name === name);
      expect(entry).toMatchObject({
        kind: 'integration',
        inputFormat: 'INPUT_FORMAT_YAML',
        generation: '1',
        builtin: false,
      });
      expect(decode(entry?.payload ?? '')).toMatchObject({ type: name });
    }
    expect(new Set(seen.map(({ kind }) => kind))).toEqual(new Set(['integration']));
  });

  test('the last page has an empty nextPageToken', async () => {
    const { nextPageToken } = expectOk(await api.get<Page<Entry>>('/v1/catalog/vm-profile?pageSize=1000'));
    expect(nextPageToken).toBe('');
  });

  test.each([
    ['pageSize', 'pageSize=many'],
    ['pageSize', 'pageSize=-1'],
    ['pageSize', 'pageSize=1.5'],
    ['pageToken', 'pageToken=nonsense'],
  ])('a wrong %s is INVALID_ARGUMENT: %s', async (field, query) => {
    expectError(await api.get(`/v1/catalog/persona?${query}`), 'INVALID_ARGUMENT', field);
  });

  test('a delete removes the resource', async () => {
    const name = uniqueName('deleted');
    const path = `/v1/catalog/profile/${name}`;
    await write('profile', name, {});
    const answer = await api.del(path);
    expectOk(answer);
    expect(replySchemaProblem('deleteResource', answer.body)).toBeUndefined();
    expectError(await api.get(path), 'NOT_FOUND');
    expectError(await api.del(path), 'NOT_FOUND');
    const { entries } = expectOk(await api.get<Page<Entry>>('/v1/catalog/profile?pageSize=1000'));
    expect(entries.map((e) => e.name)).not.toContain(name);
  });

  test('a patch of a deleted resource is NOT_FOUND', async () => {
    const name = uniqueName('deleted');
    await write('profile', name, {});
    expectOk(await api.del(`/v1/catalog/profile/${name}`));
    expectError(await postResource(api, 'profile', name, {}, { updateMask: 'note' }), 'NOT_FOUND');
  });

  test('a delete checks ifGenerationMatch', async () => {
    const name = uniqueName('deleted');
    const path = `/v1/catalog/profile/${name}`;
    await write('profile', name, {});
    await write('profile', name, {});
    expectError(await api.del(`${path}?ifGenerationMatch=1`), 'FAILED_PRECONDITION');
    expectError(await api.del(`${path}?ifGenerationMatch=-1`), 'INVALID_ARGUMENT', 'ifGenerationMatch');
    expectError(await api.del(`${path}?ifGenerationMatch=x`), 'INVALID_ARGUMENT', 'ifGenerationMatch');
    expect((await readDocument(api, 'profile', name)).generation).toBe('2');
    expectOk(await api.del(`${path}?ifGenerationMatch=2`));
  });

  test('generations are per resource', async () => {
    const [one, two] = [uniqueName('own'), uniqueName('own')];
    await write('profile', one, {});
    await write('profile', one, {});
    expect((await write('profile', two, {})).generation).toBe('1');
    expect((await write('integration', one, {})).generation).toBe('1');
  });
});

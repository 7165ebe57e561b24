import { limits } from '@muster/sdk/contract';
import { describe, expect, test } from 'vitest';
import {
  type Document,
  decode,
  encode,
  postResource,
  readDocument,
  readResource,
  uniqueName,
} from '../support/catalog.ts';
import { expectError, expectOk } from '../support/expect-reply.ts';
import { useSharedServer } from '../support/shared-server.ts';
import { history, write } from './catalog-requests.ts';

const { api } = await useSharedServer({ runner: false });

describe('full replace and patch', () => {
  test('a write creates, and a second one updates', async () => {
    const name = uniqueName('twice');
    expect((await write(api, 'profile', name, { displayName: 'one' })).generation).toBe('1');
    expect((await write(api, 'profile', name, { displayName: 'two' })).generation).toBe('2');
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
    await write(api, 'profile', name, { displayName: 'one', note: 'gone', deep: { kept: false } });
    await write(api, 'profile', name, { displayName: 'two' }, { updateMask });
    const { document } = await readDocument(api, 'profile', name);
    expect(document).toMatchObject({ displayName: 'two' });
    expect(document).not.toHaveProperty('note');
    expect(document).not.toHaveProperty('deep');
  });

  test('with a mask only the named fields are replaced', async () => {
    const name = uniqueName('patch');
    await write(api, 'profile', name, { displayName: 'one', note: 'kept', list: [1, 2] });
    const document = { displayName: 'two', note: 'not named', extra: 'not named' };
    const written = await write(api, 'profile', name, document, { updateMask: 'displayName' });
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
    await write(api, 'profile', name, { field: 'full' });
    await write(api, 'profile', name, { field: value }, { updateMask: 'field' });
    expect((await readDocument(api, 'profile', name)).document).toHaveProperty('field', value);
  });

  test.each([
    ['absent', undefined],
    ['empty', ''],
  ])('a payload that is %s is the document {}', async (_, payload) => {
    const name = uniqueName('empty');
    await write(api, 'profile', name, { displayName: 'one' });
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
    await write(api, 'profile', name, { displayName: 'one', note: 'kept' });
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
    await write(api, 'profile', name, base);
    await write(api, 'profile', name, payload, { updateMask });
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
    await write(api, 'profile', name, base);
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
    await write(api, 'profile', name, base);
    const answer = await postResource(api, 'profile', name, { a: 'text' }, { updateMask: 'a.b' });
    expectError(answer, 'INVALID_ARGUMENT', /^(updateMask|payload)/);
  });

  test(`a mask has at most ${limits.maskPaths} paths`, async () => {
    const name = uniqueName('mask');
    await write(api, 'profile', name, {});
    const mask = (count: number) => Array.from({ length: count }, (_, i) => `f${i}`).join(',');
    await write(api, 'profile', name, { f99: 1 }, { updateMask: mask(100) });
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
    expect((await write(api, 'profile', name, document, more)).generation).toBe('1');
    const now = (await readDocument(api, 'profile', name)).document;
    expect(now).toMatchObject({ displayName: 'x' });
    expect(now).not.toHaveProperty('note');
    expectError(await postResource(api, 'profile', name, document, more), 'FAILED_PRECONDITION');
  });

  test('concurrent patches of different fields are all kept', async () => {
    const name = uniqueName('race');
    await write(api, 'profile', name, {});
    const fields = Array.from({ length: 20 }, (_, i) => `field${i}`);
    const generations = await Promise.all(
      fields.map(
        async (field) =>
          (await write(api, 'profile', name, { [field]: 1 }, { updateMask: field })).generation,
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
    await write(api, 'profile', name, { n: 1 });
    await write(api, 'profile', name, { n: 2 });
    expect((await readDocument(api, 'profile', name)).document).toMatchObject({ n: 2 });
  });

  test('ifGenerationMatch writes only at the current generation, and the reply has the next one', async () => {
    const name = uniqueName('chain');
    let { generation } = await write(api, 'profile', name, { n: 0 }, { ifGenerationMatch: '0' });
    for (const n of [1, 2, 3]) {
      ({ generation } = await write(api, 'profile', name, { n }, { ifGenerationMatch: generation }));
      expect(generation).toBe(String(n + 1));
    }
    expect(await readDocument(api, 'profile', name)).toMatchObject({ generation, document: { n: 3 } });
  });

  test('a read-modify-write with the generation of the read loses no update', async () => {
    const name = uniqueName('rmw');
    await write(api, 'profile', name, { count: 0 });
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
    await write(api, 'profile', name, { n: 1 });
    await write(api, 'profile', name, { n: 2 });
    for (const updateMask of ['', 'n']) {
      const answer = await postResource(api, 'profile', name, { n: 3 }, { ifGenerationMatch, updateMask });
      expectError(answer, 'FAILED_PRECONDITION');
    }
    expect(await readDocument(api, 'profile', name)).toMatchObject({ generation: '2', document: { n: 2 } });
    expect(await history(api, 'profile', name)).toHaveLength(2);
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
    await write(api, 'profile', name, {});
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
    expect((await write(api, 'profile', name, { n: 1 })).generation).toBe('1');
    expect((await write(api, 'profile', name, { n: 2 })).generation).toBe('2');
    const deleted = expectOk(await api.del<{ generation: string }>(path));
    expectError(
      await postResource(api, 'profile', name, {}, { ifGenerationMatch: '2' }),
      'FAILED_PRECONDITION',
    );
    const again = await write(api, 'profile', name, { n: 3 }, { ifGenerationMatch: '0' });
    expect(Number(again.generation)).toBe(Number(deleted.generation) + 1);
    expect(Number(again.generation)).toBeGreaterThan(2);
    const named = (await history(api, 'profile', name))
      .filter(({ action }) => action === 'WRITE')
      .map(({ generation }) => generation);
    expect(new Set(named).size).toBe(3);
  });

  test('a refused write does not raise the generation', async () => {
    const name = uniqueName('refused');
    await write(api, 'profile', name, {});
    expectError(await postResource(api, 'profile', name, { displayName: 1 }), 'INVALID_ARGUMENT');
    expect((await write(api, 'profile', name, {})).generation).toBe('2');
  });
});

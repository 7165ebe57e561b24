import { limits } from '@muster/sdk/contract';
import { expect, test } from 'vitest';
import { decode, deleteResource, postResource, readResource, uniqueName } from '../support/catalog.ts';
import { expectError, expectOk } from '../support/expect-reply.ts';
import { useSharedServer } from '../support/shared-server.ts';
import { type Audit, type Page, write } from './catalog-requests.ts';

const { api } = await useSharedServer({ runner: false });

interface WithText {
  readonly payload: string;
  readonly text: string;
}

const read = async (kind: string, name: string): Promise<WithText> =>
  expectOk(await readResource(api, kind, name));
const lines = (...of: string[]): string => `${of.join('\n')}\n`;

/** A workspace whose text has comments in several places. */
const commented = (name: string) => ({
  document: {
    repos: ['https://example.org/a.git', 'https://example.org/b.git'],
    model: 'opus',
    pool: 'default',
  },
  text: lines(
    '# Ask the web team before you change this.',
    'kind: workspace',
    `name: ${name}`,
    'repos:',
    '  - https://example.org/a.git # the shop',
    '  # its tools',
    '  - https://example.org/b.git',
    'model: opus # the large one',
    "pool: 'default'",
  ),
});

test('a text is stored with its comments, and read, listed in the history and replaced with the document', async () => {
  const name = uniqueName('texts');
  const { document, text } = commented(name);
  expect(await write(api, 'workspace', name, document, { text })).toMatchObject({ text, generation: '1' });
  expect((await read('workspace', name)).text).toBe(text);
  const other = text.replace('the shop', 'the store');
  await write(api, 'workspace', name, document, { text: other });
  const { entries } = expectOk<Page<Audit & WithText>>(
    await api.get(`/v1/catalog/workspace/${name}/history`),
  );
  expect(entries.map((entry) => entry.text)).toEqual([other, text]);
});

test('a resource that was never written with a text has an empty one', async () => {
  const name = uniqueName('texts');
  expect(await write(api, 'workspace', name, { model: 'opus' })).toMatchObject({ text: '' });
  expect((await read('workspace', name)).text).toBe('');
  expect((await read('workspace', 'default')).text).toBe('');
});

test('a write without a text changes what it has to and keeps the comments', async () => {
  const name = uniqueName('texts');
  const { document, text } = commented(name);
  await write(api, 'workspace', name, document, { text });
  await write(
    api,
    'workspace',
    name,
    { model: 'sonnet', persona: 'planner' },
    { updateMask: 'model,persona' },
  );
  const patched = lines(
    '# Ask the web team before you change this.',
    'kind: workspace',
    `name: ${name}`,
    'repos:',
    '  - https://example.org/a.git # the shop',
    '  # its tools',
    '  - https://example.org/b.git',
    'model: sonnet # the large one',
    "pool: 'default'",
    'persona: planner',
  );
  expect((await read('workspace', name)).text).toBe(patched);
  await write(api, 'workspace', name, { repos: ['https://example.org/b.git'], model: 'sonnet' });
  expect((await read('workspace', name)).text).toBe(
    lines(
      '# Ask the web team before you change this.',
      'kind: workspace',
      `name: ${name}`,
      'repos:',
      '  # its tools',
      '  - https://example.org/b.git',
      'model: sonnet # the large one',
    ),
  );
});

test('patches at the same time all keep the comments', async () => {
  const name = uniqueName('texts');
  const { document, text } = commented(name);
  await write(api, 'workspace', name, document, { text });
  const fields = ['x-a', 'x-b', 'x-c', 'x-d'];
  await Promise.all(
    fields.map((field) => write(api, 'workspace', name, { [field]: 1 }, { updateMask: field })),
  );
  const stored = await read('workspace', name);
  for (const field of fields) expect(stored.text).toContain(`${field}: 1`);
  expect(stored.text).toContain('# its tools');
});

test('a text with aliases is kept as it is, and dropped by the first change without one', async () => {
  const name = uniqueName('texts');
  const text = lines('x-a: &a [1, 2]', 'x-b: *a');
  await write(api, 'workspace', name, { 'x-a': [1, 2], 'x-b': [1, 2] }, { text });
  expect((await read('workspace', name)).text).toBe(text);
  await write(api, 'workspace', name, { 'x-a': [1] }, { updateMask: 'x-a' });
  expect((await read('workspace', name)).text).toBe('');
});

test('a persona has Markdown', async () => {
  const name = uniqueName('texts');
  const text = lines(
    '---',
    `name: ${name}`,
    '# not the large one',
    'model: haiku',
    '---',
    '',
    'Be kind.',
    '',
    '# Rules',
  );
  await write(api, 'persona', name, { instructions: 'Be kind.\n\n# Rules', model: 'haiku' }, { text });
  await write(api, 'persona', name, { model: 'opus' }, { updateMask: 'model' });
  expect((await read('persona', name)).text).toBe(text.replace('haiku', 'opus'));
});

test('what the service fills in or leaves out of the document is so in the text', async () => {
  const name = uniqueName('texts');
  const text = lines('# for the night', 'role: viewer', 'rotate: true', 'createdBy: me');
  const document = { role: 'viewer', rotate: true, createdBy: 'me' };
  const written = await write(api, 'token', name, document, { text });
  const { text: stored } = await read('token', name);
  expect(stored).toMatch(/^# for the night\nrole: viewer\nkind: token\nname: .*\n/);
  expect(stored).toContain('account:');
  for (const absent of ['rotate', 'createdBy', String(decode(written.payload).key)])
    expect(stored).not.toContain(absent);
});

test('the value of a secret is in no text', async () => {
  const name = uniqueName('texts');
  const text = lines('# rotate in May', 'value: s3cr3t-value');
  await write(api, 'secret', name, { value: 's3cr3t-value' }, { text });
  const history = JSON.stringify(expectOk(await api.get(`/v1/catalog/secret/${name}/history`)));
  expect(history + JSON.stringify(await read('secret', name))).not.toContain('s3cr3t-value');
});

test('a deleted resource has no text when it is created again', async () => {
  const name = uniqueName('texts');
  const { document, text } = commented(name);
  await write(api, 'workspace', name, document, { text });
  expectOk(await deleteResource(api, 'workspace', name));
  await write(api, 'workspace', name, document);
  expect((await read('workspace', name)).text).toBe('');
});

test.each<[string, string, Record<string, unknown>, RegExp]>([
  ['another value', 'model: sonnet', {}, /must say the same as the payload/],
  ['one field more', 'model: opus\npool: a', {}, /must say the same as the payload/],
  ['no YAML', 'model: opus\nrepos: [', {}, /is not valid YAML in line 3|line 2/],
  ['a list', '- model', {}, /must have fields/],
  ['a field twice', 'model: opus\nmodel: opus', {}, /has the same field twice/],
  ['another name', 'name: other\nmodel: opus', {}, /has another name/],
  ['another kind', 'kind: pool\nmodel: opus', {}, /has another kind/],
  ['a mask', 'model: opus', { updateMask: 'model' }, /leave out updateMask/],
  ['the character NUL', 'model: opus # \u0000', {}, /U\+0000/],
  ['too deep a nesting', '['.repeat(100_000), {}, /too complex|is not valid YAML/],
  [
    'aliases that expand without end',
    [
      'a: &a [1,1]',
      ...Array.from({ length: 30 }, (_, at) => `x${at}: &x${at} [${at ? `*x${at - 1},*x${at - 1}` : '*a'}]`),
    ].join('\n'),
    {},
    /too complex/,
  ],
  ['too many bytes', `model: opus # ${'x'.repeat(limits.documentTextBytes)}`, {}, /at most 262144 bytes/],
])('a text with %s is refused by its field', async (_, text, more, message) => {
  const name = uniqueName('texts');
  const reply = await postResource(api, 'workspace', name, { model: 'opus' }, { text, ...more });
  expect(expectError(reply, 'INVALID_ARGUMENT', 'text').message).toMatch(message);
});

test('a text that takes long to parse holds up nobody else', async () => {
  const name = uniqueName('texts');
  const heavy = Array.from({ length: 20_000 }, (_, at) => `k${at}:`).join('\n');
  const document = Object.fromEntries(Array.from({ length: 20_000 }, (_, at) => [`k${at}`, null]));
  let longest = 0;
  let isDone = false;
  const writing = postResource(api, 'workspace', name, document, { text: heavy }).finally(() => {
    isDone = true;
  });
  while (!isDone) {
    const start = performance.now();
    expectOk(await api.get('/v1/whoami'));
    longest = Math.max(longest, performance.now() - start);
  }
  expectOk(await writing);
  expect(longest).toBeLessThan(1_000);
});

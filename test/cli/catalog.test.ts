import { chmodSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { readDocument, writeResource } from '../support/catalog.ts';
import { program } from '../support/server.ts';
import { type SharedServer, sharedServer } from '../support/shared-server.ts';
import { Person } from './cli.ts';

let server: SharedServer;
let ada: Person;

beforeAll(async () => {
  server = await sharedServer({ runner: false });
  ada = new Person(server);
});
afterAll(async () => {
  ada?.leave();
  await server?.close();
});

const document = async (kind: string, name: string): Promise<Record<string, unknown>> =>
  (await readDocument(ada.api, kind, name)).document;

/** An editor that does what the script says to the file `$1`. */
function editor(script: string): { readonly EDITOR: string } {
  const file = ada.file('editor.sh', `#!/bin/sh\n${script}\n`);
  chmodSync(file, 0o755);
  return { EDITOR: file };
}

describe('apply', () => {
  test('shows what changes, then writes it; a second time there is nothing to do', async () => {
    const file = ada.file('pool.yaml', 'kind: pool\nname: big\nmaxRuns: 3\n');
    const first = await ada.prints(['apply', '-f', file]);
    expect(first).toContain('+maxRuns: 3\n');
    expect(first).toContain('pool/big created (generation 1)\n');
    expect(await ada.prints(['apply', '-f', file])).toBe('pool/big is as it should be\n');
    ada.file('pool.yaml', 'kind: pool\nname: big\nmaxRuns: 4\n');
    const change = await ada.prints(['apply', '-f', file, '--justification', 'More work.']);
    expect(change).toMatch(/-maxRuns: 3\n\+maxRuns: 4\n(.*\n)*pool\/big changed \(generation 2\)\n$/);
    expect(await ada.prints(['history', 'pool', 'big'])).toMatch(/ 2 .* write .* More work\.\n/);
  });

  test('--dry-run writes nothing', async () => {
    const input = 'kind: pool\nname: never\n';
    expect(await ada.prints(['apply', '-f', '-', '--dry-run'], { input })).toContain(
      'pool/never would be created\n',
    );
    expect(await ada.muster(['get', 'pool', 'never'])).toMatchObject({ code: 3 });
  });

  test('takes several documents, folders with folders in them, and Markdown for personas', async () => {
    const folder = join(ada.home, 'fleet');
    mkdirSync(join(folder, 'personas'), { recursive: true });
    ada.file('fleet/all.yml', 'kind: environment\nname: night\nsetup: []\n---\nkind: pools\nname: night\n');
    ada.file('fleet/notes.txt', 'not a resource');
    ada.file('fleet/personas/critic.md', '---\nmodel: rehearsal-a\n---\nYou find fault.\n\n---\n\nAlways.\n');
    ada.file('fleet/personas/plain.md', 'You are plain.\n');
    const results = await ada.data<{ kind: string; name: string; action: string }[]>(['apply', '-f', folder]);
    expect(results.map(({ kind, name, action }) => `${kind}/${name} ${action}`)).toEqual([
      'environment/night created',
      'pool/night created',
      'persona/critic created',
      'persona/plain created',
    ]);
    expect((await ada.data(['get', 'persona', 'critic'])).document).toMatchObject({
      model: 'rehearsal-a',
      instructions: 'You find fault.\n\n---\n\nAlways.',
    });
  });

  test('what `get` prints can be applied as it is', async () => {
    ada.file('round.md', '---\nmodel: rehearsal-b\n---\nYou go round.\n');
    await ada.prints(['apply', '-f', join(ada.home, 'round.md')]);
    ada.file('round.md', await ada.prints(['get', 'persona', 'round']));
    expect(await ada.prints(['apply', '-f', join(ada.home, 'round.md')])).toBe(
      'persona/round is as it should be\n',
    );
  });

  test.each([
    ['a mistake in YAML, by its line', 'kind: pool\nname: [\n', 2, /bad\.yaml:\d+: /],
    ['a kind that is missing', 'name: x\n', 2, /bad\.yaml: say which kind it is/],
    [
      'a kind that nobody knows',
      'kind: zoo\nname: x\n',
      2,
      /bad\.yaml: there is no kind "zoo"; there are workspace, /,
    ],
    ['a field that is wrong', 'kind: pool\nname: x\nmaxRuns: many\n', 2, /bad\.yaml: pool\/x: .*maxRuns/],
    ['a file without anything', '', 2, /there is no resource in .*bad\.yaml/],
  ])('names %s', async (_, text, code, complaint) => {
    const { err, ...ended } = await ada.muster(['apply', '-f', ada.file('bad.yaml', text)]);
    expect(ended.code).toBe(code);
    expect(err).toMatch(complaint);
    expect(err.trim().split('\n')).toHaveLength(1);
  });
});

describe('get and delete', () => {
  test('lists a kind with its builtins, in every form', async () => {
    const table = await ada.prints(['get', 'pools']);
    expect(table).toMatch(/^NAME +GENERATION +UPDATED +BY\n/);
    expect(table).toMatch(/^default +builtin$/m);
    expect(await ada.data<unknown[]>(['get', 'pool'])).toContainEqual(
      expect.objectContaining({ name: 'default', builtin: true }),
    );
    expect(await ada.prints(['get', 'pool', '-o', 'yaml'])).toMatch(/^- kind: pool\n/);
  });

  test('says what there is where nothing is found', async () => {
    expect(await ada.muster(['get', 'pool', 'nowhere'])).toMatchObject({
      code: 3,
      err: expect.stringMatching(/^muster: .*; muster get pool shows what there is\n$/),
    });
    expect(await ada.muster(['get', 'zoo'])).toMatchObject({
      code: 3,
      err: expect.stringMatching(/there is no kind "zoo"; there are workspace, persona,/),
    });
  });

  test('deletes only what was meant', async () => {
    await writeResource(ada.api, 'pool', 'old', {});
    expect(await ada.muster(['delete', 'pool', 'old'])).toMatchObject({
      code: 2,
      err: expect.stringContaining('nobody is there to ask; --yes goes ahead'),
    });
    expect(await ada.prints(['delete', 'pools', 'old', '--yes'])).toBe('deleted pool/old\n');
    expect(await ada.muster(['delete', 'pool', 'old', '-y'])).toMatchObject({ code: 3 });
    expect(await ada.prints(['history', 'pool', 'old'])).toMatch(/ delete /);
  });
});

describe('edit', () => {
  test('writes what the editor leaves, and nothing when it leaves it alone', async () => {
    await writeResource(ada.api, 'pool', 'edited', { maxRuns: 1 });
    const env = editor('sed -i \'s/maxRuns: 1/maxRuns: 2/\' "$1"');
    expect(await ada.prints(['edit', 'pool', 'edited'], { env })).toBe(
      'pool/edited changed (generation 2)\n',
    );
    expect(await document('pool', 'edited')).toMatchObject({ maxRuns: 2 });
    const idle = await ada.muster(['edit', 'pool', 'edited'], { env: editor('true') });
    expect(idle).toEqual({ code: 0, out: '', err: 'nothing was changed\n' });
  });

  test('keeps the text when somebody else was quicker', async () => {
    await writeResource(ada.api, 'pool', 'raced', { maxRuns: 1 });
    const other = ada.file('other.yaml', 'kind: pool\nname: raced\nmaxRuns: 9\n');
    const env = editor(
      `"${process.execPath}" "${program}" apply -f ${other} >/dev/null && echo '# mine' >> "$1"`,
    );
    const { code, err } = await ada.muster(['edit', 'pool', 'raced'], { env });
    expect(code).toBe(5);
    const file = /^muster: it was changed meanwhile; your text is in (\S+)\n$/.exec(err)?.[1] ?? '';
    expect(readFileSync(file, 'utf8')).toBe('kind: pool\nname: raced\nmaxRuns: 1\n# mine\n');
    expect(await document('pool', 'raced')).toMatchObject({ maxRuns: 9 });
  });

  test('keeps the text when it makes no sense, and when the editor fails', async () => {
    await writeResource(ada.api, 'pool', 'odd', {});
    for (const [script, code, why] of [
      ['echo "name: other" > "$1"', 2, 'say which kind it is'],
      ['printf "kind: pool\\nname: other\\n" > "$1"', 2, 'kind and name must stay'],
      ['printf "kind: pool\\nname: odd\\nmaxRuns: x\\n" > "$1"', 2, 'maxRuns'],
      ['exit 3', 1, 'did not end well'],
    ] as const) {
      const ended = await ada.muster(['edit', 'pool', 'odd'], { env: editor(script) });
      expect(ended.code).toBe(code);
      expect(ended.err).toContain(why);
      const file = /your text is in (\S+)\n$/.exec(ended.err)?.[1] ?? '';
      expect(() => readFileSync(file)).not.toThrow();
    }
  });
});

test('a token is made, works, and is revoked', async () => {
  const { out, err } = await ada.muster(['token', 'create', 'robot', '--role', 'viewer', '--expires', '90d']);
  expect(err).toBe('shown this once; muster token revoke robot ends it\n');
  const env = { MUSTER_API_KEY: out.trim() };
  expect(await ada.prints(['whoami'], { env })).toMatch(/^admin \(viewer\) of .*, until 20/);
  expect(await ada.muster(['spawn', 'x'], { env })).toMatchObject({ code: 4 });
  expect(await ada.muster(['token', 'create', 'robot'])).toMatchObject({ code: 5 });
  expect(await ada.muster(['token', 'create', 'x', '--role', 'king'])).toMatchObject({
    code: 2,
    err: expect.stringContaining('Allowed choices are viewer, member'),
  });
  expect(await ada.prints(['token', 'revoke', 'robot'])).toContain('revoked robot');
});

test('apply takes a separator behind the last document', async () => {
  const input = 'kind: persona\nname: trailing\ninstructions: Be brief.\n---\n';
  expect(await ada.muster(['apply', '-f', '-'], { input })).toMatchObject({ code: 0 });
  expect(await ada.prints(['get', 'persona', 'trailing'])).toContain('Be brief.');
});

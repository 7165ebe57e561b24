import { chmodSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { readDocument, writeResource } from '../support/catalog.ts';
import { program } from '../support/server.ts';
import { userOfSharedServer } from './cli.ts';

const ada = userOfSharedServer({ runner: false });

const document = async (kind: string, name: string): Promise<Record<string, unknown>> =>
  (await readDocument(ada.api, kind, name)).document;

/** An editor that runs a script on the file `$1`. */
function editor(script: string): { readonly EDITOR: string } {
  const file = ada.file('editor.sh', `#!/bin/sh\n${script}\n`);
  chmodSync(file, 0o755);
  return { EDITOR: file };
}

describe('apply', () => {
  test('shows the changes and writes them; the second time nothing changes', async () => {
    const file = ada.file('pool.yaml', 'kind: pool\nname: big\nmaxRuns: 3\n');
    const first = await ada.prints(['apply', '-f', file]);
    expect(first).toContain('+maxRuns: 3\n');
    expect(first).toContain('pool/big created (generation 1)\n');
    expect(await ada.prints(['apply', '-f', file])).toBe('pool/big unchanged\n');
    ada.file('pool.yaml', 'kind: pool\nname: big\nmaxRuns: 4\n');
    const change = await ada.prints(['apply', '-f', file, '--justification', 'More work.']);
    expect(change).toMatch(/-maxRuns: 3\n\+maxRuns: 4\n(.*\n)*pool\/big changed \(generation 2\)\n$/);
    expect(await ada.prints(['history', 'pool', 'big'])).toMatch(/ 2 .* write .* More work\.\n/);
  });

  test('comments of a file are stored, printed, edited and restored', async () => {
    const text = '# Ask ada first.\nkind: pool\nname: noted\nmaxRuns: 4 # per runner\n';
    const file = ada.file('noted.yaml', text);
    await ada.prints(['apply', '-f', file]);
    expect(await ada.prints(['get', 'pool', 'noted'])).toBe(text);
    expect(await ada.prints(['apply', '-f', file])).toBe('pool/noted unchanged\n');
    ada.file('noted.yaml', text.replace('ada', 'bea'));
    expect(await ada.prints(['apply', '-f', file])).toContain('+# Ask bea first.');
    expect(await ada.prints(['restore', 'pool', 'noted', '--generation', '1'])).toContain(
      '+# Ask ada first.',
    );
    expect(await ada.prints(['history', 'pool', 'noted', '--generation', '2'])).toContain('# Ask bea first.');
    // A file without its name gets it, and several documents in a file have their own texts.
    const several =
      '# one\nkind: pool\nname: noted-1\n---\n# two\nkind: pool\nname: noted-2\nmaxRuns: 2 # b\n';
    await ada.prints(['apply', '-f', ada.file('several.yaml', several)]);
    expect(await ada.prints(['get', 'pool', 'noted-2'])).toBe(
      '# two\nkind: pool\nname: noted-2\nmaxRuns: 2 # b\n',
    );
    await ada.prints([
      'apply',
      '-f',
      ada.file('unnamed.md', '---\n# small\nmodel: rehearsal-a\n---\nBe kind.\n'),
    ]);
    expect(await ada.prints(['get', 'persona', 'unnamed'])).toBe(
      '---\n# small\nmodel: rehearsal-a\nname: unnamed\n---\nBe kind.\n',
    );
  });

  test('--dry-run writes nothing', async () => {
    const input = 'kind: pool\nname: never\n';
    expect(await ada.prints(['apply', '-f', '-', '--dry-run'], { input })).toContain(
      'pool/never would be created\n',
    );
    expect(await ada.muster(['get', 'pool', 'never'])).toMatchObject({ code: 3 });
  });

  test('warns about misspelt fields on standard error; --strict refuses them', async () => {
    const file = ada.file('misspelt.yaml', 'kind: workspace\nname: misspelt\nrepo: https://a.example/b\n');
    const warning = `warning: ${file}: workspace/misspelt: repo is not a known field; did you mean "repos"?\n`;
    const strict = await ada.muster(['apply', '-f', file, '--strict']);
    expect(strict).toMatchObject({ code: 2, out: '' });
    expect(strict.err).toBe(
      `${warning}muster: there are warnings, and --strict is set; nothing was written\n`,
    );
    expect(await ada.muster(['get', 'workspace', 'misspelt'])).toMatchObject({ code: 3 });
    for (const [flags, done] of [
      [['--dry-run'], 'would be created'],
      [[], 'created (generation 1)'],
      [[], 'unchanged'],
    ] as const)
      expect(await ada.muster(['apply', '-f', file, ...flags])).toMatchObject({
        code: 0,
        out: expect.stringContaining(`workspace/misspelt ${done}\n`),
        err: warning,
      });
    const [result] = await ada.data<[object]>(['apply', '-f', file]);
    expect(result).toMatchObject({ action: 'unchanged', warnings: [{ field: 'payload.repo' }] });
  });

  test('--dry-run rejects what apply would', async () => {
    const input = 'kind: pool\nname: never\nmaxRuns: many\n';
    const result = await ada.muster(['apply', '-f', '-', '--dry-run'], { input });
    expect(result).toMatchObject({ code: 2, err: expect.stringContaining('maxRuns') });
  });

  test('checks every document before it writes the first, and ends with a summary', async () => {
    const set = (maxRuns: string) =>
      `kind: pool\nname: a1\n---\nkind: pool\nname: a2\nmaxRuns: ${maxRuns}\n---\nkind: zone\nname: a3\n`;
    const mixed = await ada.muster([
      'apply',
      '-f',
      ada.file('set.yaml', set('many').replace('zone', 'pool')),
    ]);
    expect(mixed.code).toBe(2);
    expect(mixed.err).toMatch(
      /pool\/a2: .*maxRuns.*\nmuster: 1 of 3 documents is rejected; nothing was written\n$/,
    );
    expect(await ada.muster(['get', 'pool', 'a1'])).toMatchObject({ code: 3 });
    const file = ada.file('set.yaml', set('3').replace('zone', 'workspace').concat('pool: a2\n'));
    const dry = await ada.muster(['apply', '-f', file, '--dry-run']);
    expect(dry.out).toMatch(/\n3 would be created\n$/);
    // The pool that the workspace names is among the documents.
    expect(dry.err).toBe('');
    expect(await ada.prints(['apply', '-f', file])).toMatch(/\n3 created\n$/);
    ada.file('set.yaml', `${set('4').replace('zone', 'workspace')}pool: a2\n`);
    expect(await ada.prints(['apply', '-f', file])).toMatch(/\n2 unchanged, 1 changed\n$/);
  });

  test('reads several documents, nested folders, and Markdown for personas', async () => {
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
    expect(await ada.prints(['apply', '-f', join(ada.home, 'round.md')])).toBe('persona/round unchanged\n');
  });

  test.each([
    ['a YAML error, with its line', 'kind: pool\nname: [\n', 2, /bad\.yaml:\d+: /],
    ['a missing kind', 'name: x\n', 2, /bad\.yaml: the field kind is missing/],
    [
      'an unknown kind',
      'kind: zoo\nname: x\n',
      2,
      /bad\.yaml: unknown kind "zoo"; expected one of workspace, /,
    ],
    ['a wrong field', 'kind: pool\nname: x\nmaxRuns: many\n', 2, /bad\.yaml: pool\/x: .*maxRuns/],
    ['an empty file', '', 2, /no resources in .*bad\.yaml/],
  ])('reports %s', async (_, text, code, problem) => {
    const { err, ...ended } = await ada.muster(['apply', '-f', ada.file('bad.yaml', text)]);
    expect(ended.code).toBe(code);
    expect(err).toMatch(problem);
    expect(err.trim().split('\n')).toHaveLength(1);
  });
});

test('status of an agent that no runner takes names the pool and the commands that start one', async () => {
  await writeResource(ada.api, 'pool', 'gpu', {});
  await writeResource(ada.api, 'workspace', 'gpu', { pool: 'gpu' });
  await ada.prints(['spawn', 'Hi.', '--name', 'unserved', '--workspace', 'gpu', '--model', 'gpt-6']);
  const text = await ada.prints(['status', 'gpu:unserved']);
  expect(text).toMatch(/^to fix +No runner of the pool "gpu" can run gpt-6 \(Codex\)\. Start one: /m);
  expect(text).toContain('muster runner --key KEY --pool gpu');
  const refused = await ada.muster(['send', 'gpu:unserved', 'x', '--model', 'opus']);
  expect(refused.err).toContain('"opus" is a model of Claude Code; this agent runs on Codex');
});

describe('secret', () => {
  const fingerprint = async (name: string) => (await document('secret', name)).fingerprint;

  test('set reads the value from standard input or a file, and never shows it', async () => {
    const first = await ada.prints(['secret', 'set', 'npm'], { input: 'first-value\n' });
    expect(first).toBe(`secret/npm set (generation 1, fingerprint ${await fingerprint('npm')})\n`);
    await writeResource(ada.api, 'secret', 'npm', { note: 'of the team' });
    const again = await ada.prints(['secret', 'set', 'npm', '-f', '-'], { input: 'first-value' });
    expect(await ada.prints(['get', 'secret'])).toMatch(
      new RegExp(`^npm .* ${await fingerprint('npm')}$`, 'm'),
    );
    expect(again).toContain(`generation 3, fingerprint ${await fingerprint('npm')}`);
    expect(first).toContain(String(await fingerprint('npm')));
    const key = '-----BEGIN-----\nlines\n';
    const file = ada.file('key.pem', key);
    const changed = await ada.prints(['secret', 'set', 'npm', '-f', file, '--justification', 'a new key']);
    expect(changed).toContain('generation 4');
    expect(await document('secret', 'npm')).toMatchObject({ note: 'of the team' });
    const { fingerprint: ofKey } = await writeResource(ada.api, 'secret', 'npm', { value: key });
    expect(changed).toContain(String(ofKey));
    for (const args of [
      ['get', 'secret', 'npm'],
      ['get', 'secrets'],
      ['history', 'secret', 'npm'],
    ])
      for (const format of ['table', 'json', 'yaml'])
        expect(await ada.prints([...args, '-o', format])).not.toMatch(/first-value|BEGIN|value:|"value":/);
  });

  test.each([
    ['an empty value', '', /the value is empty/],
    ['an empty line', '\n', /the value is empty/],
    ['a value that is too long', 'x'.repeat(65_537), /the value has more than 65536 bytes/],
  ])('set refuses %s', async (_, input, problem) => {
    expect(await ada.muster(['secret', 'set', 'bad'], { input })).toMatchObject({
      code: 2,
      err: expect.stringMatching(problem),
    });
  });

  test('apply writes a value without showing it; without one the value stays', async () => {
    const file = ada.file('secret.yaml', 'kind: secret\nname: applied\nvalue: applied-value\nnote: 1\n');
    const created = await ada.prints(['apply', '-f', file]);
    expect(created).toContain('+value: "***"\n');
    expect(created).toContain('secret/applied created (generation 1)\n');
    expect(created + JSON.stringify(await ada.data(['apply', '-f', file]))).not.toContain('applied-value');
    const before = await fingerprint('applied');
    ada.file('secret.yaml', await ada.prints(['get', 'secret', 'applied']));
    expect(await ada.prints(['apply', '-f', file])).toBe('secret/applied unchanged\n');
    ada.file('secret.yaml', 'kind: secret\nname: applied\nnote: 2\n');
    expect(await ada.prints(['apply', '-f', file])).toContain('secret/applied changed');
    expect(await fingerprint('applied')).toBe(before);
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

  test('suggests what exists when nothing is found', async () => {
    expect(await ada.muster(['get', 'pool', 'nowhere'])).toMatchObject({
      code: 3,
      err: expect.stringMatching(/^muster: .*; muster get pool lists them\n$/),
    });
    expect(await ada.muster(['get', 'zoo'])).toMatchObject({
      code: 3,
      err: expect.stringMatching(/kind "zoo" not found; the kinds are workspace, persona,/),
    });
    for (const [kind, command] of [
      ['change-request', 'cr open <agent>'],
      ['profile', 'apply -f'],
    ] as const)
      expect((await ada.muster(['get', kind])).err).toMatch(
        new RegExp(`^no resources of kind ${kind}; \\w+ one with muster ${command}\n$`),
      );
  });

  test('deletes after --yes only', async () => {
    await writeResource(ada.api, 'pool', 'old', {});
    expect(await ada.muster(['delete', 'pool', 'old'])).toMatchObject({
      code: 2,
      err: expect.stringContaining('standard input is not a terminal; use --yes'),
    });
    expect(await ada.prints(['delete', 'pools', 'old', '--yes'])).toBe('deleted pool/old\n');
    expect(await ada.muster(['delete', 'pool', 'old', '-y'])).toMatchObject({ code: 3 });
    expect(await ada.prints(['history', 'pool', 'old'])).toMatch(/ delete /);
  });
});

describe('edit', () => {
  test('writes the edited text, and nothing when the text is unchanged', async () => {
    await writeResource(ada.api, 'pool', 'edited', { maxRuns: 1 });
    const env = editor('sed -i \'s/maxRuns: 1/maxRuns: 2/\' "$1"');
    expect(await ada.prints(['edit', 'pool', 'edited'], { env })).toBe(
      'pool/edited changed (generation 2)\n',
    );
    expect(await document('pool', 'edited')).toMatchObject({ maxRuns: 2 });
    const idle = await ada.muster(['edit', 'pool', 'edited'], { env: editor('true') });
    expect(idle).toEqual({ code: 0, out: '', err: 'no changes\n' });
  });

  test('keeps the text when someone else changed the resource first', async () => {
    await writeResource(ada.api, 'pool', 'raced', { maxRuns: 1 });
    const other = ada.file('other.yaml', 'kind: pool\nname: raced\nmaxRuns: 9\n');
    const env = editor(
      `"${process.execPath}" "${program}" apply -f ${other} >/dev/null && echo '# mine' >> "$1"`,
    );
    const { code, err } = await ada.muster(['edit', 'pool', 'raced'], { env });
    expect(code).toBe(5);
    const file =
      /^muster: someone else changed pool\/raced meanwhile; your text is in (\S+)\n$/.exec(err)?.[1] ?? '';
    expect(readFileSync(file, 'utf8')).toBe('kind: pool\nname: raced\nmaxRuns: 1\n# mine\n');
    expect(await document('pool', 'raced')).toMatchObject({ maxRuns: 9 });
  });

  test('keeps the text when it is invalid, and when the editor fails', async () => {
    await writeResource(ada.api, 'pool', 'odd', {});
    for (const [script, code, why] of [
      ['echo "name: other" > "$1"', 2, 'the field kind is missing'],
      ['printf "kind: pool\\nname: other\\n" > "$1"', 2, 'kind and name must not change'],
      ['printf "kind: pool\\nname: odd\\nmaxRuns: x\\n" > "$1"', 2, 'maxRuns'],
      ['exit 3', 1, 'failed (exit code 3)'],
    ] as const) {
      const ended = await ada.muster(['edit', 'pool', 'odd'], { env: editor(script) });
      expect(ended.code).toBe(code);
      expect(ended.err).toContain(why);
      const file = /your text is in (\S+)\n$/.exec(ended.err)?.[1] ?? '';
      expect(() => readFileSync(file)).not.toThrow();
    }
  });
});

test('a token is created, works, and is revoked', async () => {
  const { out, err } = await ada.muster(['token', 'create', 'robot', '--role', 'viewer', '--expires', '90d']);
  expect(err).toBe('shown once; revoke it with muster token revoke robot\n');
  const env = { MUSTER_API_KEY: out.trim() };
  expect(await ada.prints(['whoami'], { env })).toMatch(/^admin \(viewer\) of .*, expires 20/);
  expect(await ada.muster(['spawn', 'x'], { env })).toMatchObject({ code: 4 });
  expect(await ada.muster(['token', 'create', 'robot'])).toMatchObject({ code: 5 });
  expect(await ada.muster(['token', 'create', 'x', '--role', 'king'])).toMatchObject({
    code: 2,
    err: expect.stringContaining('Allowed choices are viewer, member'),
  });
  expect(await ada.prints(['token', 'revoke', 'robot'])).toContain('revoked robot');
});

test('apply accepts a separator after the last document', async () => {
  const input = 'kind: persona\nname: trailing\ninstructions: Be brief.\n---\n';
  expect(await ada.muster(['apply', '-f', '-'], { input })).toMatchObject({ code: 0 });
  expect(await ada.prints(['get', 'persona', 'trailing'])).toContain('Be brief.');
});

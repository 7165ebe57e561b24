import { describe, expect, test } from 'vitest';
import { completionAt } from './completion.ts';
import { insertField } from './insert-field.ts';
import { knownFields } from './known-fields.ts';

/** `|` is the caret. */
function at(kind: Parameters<typeof completionAt>[0], marked: string) {
  const caret = marked.indexOf('|');
  return completionAt(kind, marked.replace('|', ''), caret);
}
const words = (...parameters: Parameters<typeof at>) => at(...parameters)?.choices.map(({ word }) => word);

describe('at the caret', () => {
  test('fields that begin with what was typed, without those that are there', () => {
    expect(words('workspace', 'kind: workspace\np|')).toEqual(['pool', 'persona', 'projectSettings']);
    expect(words('workspace', 'pool: x\np|\n')).toEqual(['persona', 'projectSettings']);
    expect(at('pool', 'kind: pool\nmaxR|')).toMatchObject({
      from: 11,
      choices: [{ word: 'maxRuns', insert: 'maxRuns: ' }],
    });
    expect(at('workspace', 're|')?.choices[0]?.insert).toBe('repos:');
  });

  test('fields of what they stand in', () => {
    expect(words('workspace', 'repos:\n  - u|')).toEqual(['url']);
    expect(words('workspace', 'repos:\n- url: x\n  b|')).toEqual(['baseBranch']);
    expect(words('share-link', 'agentId:\n  tenant:\n    o|')).toEqual(['org']);
    expect(words('share-link', 'agentId:\n  tenant:\n    org: x\n  w|')).toEqual(['workspace']);
  });

  test('values, where there are only a few', () => {
    expect(words('token', 'role: m|')).toEqual(['member']);
    expect(words('token', 'rotate: |')).toEqual(['true', 'false']);
    expect(words('pool', 'vmProfile: d|')).toBeUndefined();
  });

  test('nothing in the middle of a line, in a whole word, in prose, or where nothing is known', () => {
    expect(words('pool', 'max|Runs: 1')).toBeUndefined();
    expect(words('pool', 'maxRuns|')).toBeUndefined();
    expect(words('pool', 'zebra|')).toBeUndefined();
    expect(words('environment', 'setup:\n  - n|')).toBeUndefined();
    expect(words('persona', '---\nname: p\n---\nmo|')).toBeUndefined();
    expect(words('persona', '---\nname: p\nmo|\n---\nText')).toEqual(['model']);
    expect(words('persona', '---\nin|\n---\n')).toBeUndefined();
  });
});

describe('a field that is put in with its example', () => {
  const put = (kind: Parameters<typeof insertField>[0], text: string, name: string) => {
    const field = knownFields(kind).find((known) => known.name === name);
    if (!field) throw new Error(`there is no field ${name}`);
    const { at: place, text: added, selectFrom, selectTo } = insertField(kind, text, field);
    const whole = `${text.slice(0, place)}${added}${text.slice(place)}`;
    return [whole, whole.slice(selectFrom, selectTo)];
  };

  test('stands behind the others, its value selected', () => {
    expect(put('pool', 'kind: pool\n', 'maxRuns')).toEqual(['kind: pool\nmaxRuns: 4\n', '4']);
    expect(put('pool', 'kind: pool', 'maxRuns')).toEqual(['kind: pool\nmaxRuns: 4\n', '4']);
    expect(put('environment', '', 'setup')).toEqual(['setup:\n  - npm ci\n', 'setup:\n  - npm ci']);
  });

  test('stands among the settings of a persona, or begins them', () => {
    expect(put('persona', '---\nname: p\n---\nText\n', 'fastMode')).toEqual([
      '---\nname: p\nfastMode: true\n---\nText\n',
      'true',
    ]);
    expect(put('persona', 'Text\n', 'fastMode')).toEqual(['---\nfastMode: true\n---\nText\n', 'true']);
    expect(put('persona', '---\nname: p\n---\n', 'instructions')[0]).toMatch(/^---\nname: p\n---\nYou are /);
  });

  test.each(['workspace', 'persona', 'environment', 'vm-profile', 'pool', 'token', 'share-link'] as const)(
    'every known field of %s has a meaning and an example',
    (kind) => {
      for (const { name, meaning, example } of knownFields(kind))
        expect([name, meaning !== '', example !== '']).toEqual([name, true, true]);
    },
  );
});

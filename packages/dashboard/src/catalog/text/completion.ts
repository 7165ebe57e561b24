import { type Kind, type Schema, splitFrontMatter } from '@muster/sdk/contract';
import { fieldsOf, isNested, schemaBelow, schemaOf, valuesOf } from './known-fields.ts';

/** What may stand at the caret instead of the word that is being typed. */
export interface Completion {
  /** Where that word begins. */
  readonly from: number;
  readonly choices: readonly Choice[];
}

export interface Choice {
  readonly word: string;
  readonly insert: string;
  readonly note: string;
}

const nameLine = /^((?: |- )*)([A-Za-z][\w-]*)$/;
const valueLine = /^((?: |- )*)([A-Za-z][\w-]*): +([\w-]*)$/;
const fieldLine = /^((?: |- )*)([A-Za-z][\w-]*):/;

/** Names of fields at the beginning of a line, and values where a field has only a few; null where neither fits. */
export function completionAt(kind: Kind, text: string, caret: number): Completion | null {
  const end = text.indexOf('\n', caret);
  if (text.slice(caret, end < 0 ? undefined : end).trim() !== '') return null;
  if (!isAmongSettings(kind, text, caret)) return null;
  const above = text.slice(0, caret).split('\n');
  const line = above.pop() ?? '';
  const name = nameLine.exec(line);
  if (name) {
    const [, lead = '', typed = ''] = name;
    return completion(caret, typed, nameChoices(kind, text, above, lead.length));
  }
  const [, lead = '', field = '', typed = ''] = valueLine.exec(line) ?? [];
  const schema = field && schemaAt(kind, above, lead.length)?.properties?.[field];
  if (!schema) return null;
  const choices = valuesOf(schema).map((word) => ({ word, insert: word, note: '' }));
  return completion(caret, typed, choices);
}

function completion(caret: number, typed: string, all: readonly Choice[]): Completion | null {
  const choices = all.filter(({ word }) => word.toLowerCase().startsWith(typed.toLowerCase()));
  const isDone = choices.some(({ word }) => word === typed);
  return choices.length === 0 || isDone ? null : { from: caret - typed.length, choices };
}

/** The caret is in YAML, not in the prose of a persona. */
function isAmongSettings(kind: Kind, text: string, caret: number): boolean {
  if (kind !== 'persona') return true;
  const { settings, linesAbove } = splitFrontMatter(text);
  const start = text.indexOf('\n') + 1;
  return linesAbove === 1 && caret >= start && caret <= start + settings.length;
}

function nameChoices(kind: Kind, text: string, above: readonly string[], depth: number): readonly Choice[] {
  const schema = schemaAt(kind, above, depth);
  if (!schema) return [];
  const isTaken = (name: string) =>
    depth === 0 &&
    (new RegExp(`^${name}:`, 'm').test(text) || (kind === 'persona' && name === 'instructions'));
  return fieldsOf(schema)
    .filter(({ name }) => !isTaken(name))
    .map(({ name, meaning }) => ({
      word: name,
      insert: isNested(schema.properties?.[name] ?? {}) ? `${name}:` : `${name}: `,
      note: meaning,
    }));
}

/** What the fields at this depth belong to, found by the lines above that are set in less. */
function schemaAt(kind: Kind, above: readonly string[], depth: number): Schema | undefined {
  const parents: string[] = [];
  let inner = depth;
  for (let at = above.length - 1; at >= 0 && inner > 0; at--) {
    const [, lead = '', name = ''] = fieldLine.exec(above[at] ?? '') ?? [];
    if (name === '' || lead.length >= inner) continue;
    parents.unshift(name);
    inner = lead.length;
  }
  return parents.reduce<Schema | undefined>(
    (schema, name) => schema && schemaBelow(schema, name),
    schemaOf(kind),
  );
}

import { type Kind, splitFrontMatter } from '@muster/sdk/contract';
import { stringify } from 'yaml';
import type { KnownField } from './known-fields.ts';

/** A text put into another: where, and what of it is then selected, so that one types over it. */
export interface Insertion {
  readonly at: number;
  readonly text: string;
  readonly selectFrom: number;
  readonly selectTo: number;
}

/** A field with its example, behind the fields that are there. */
export function insertField(kind: Kind, text: string, field: KnownField): Insertion {
  if (kind !== 'persona') return insertion(text, text.length, lineOf(field));
  const { settings, linesAbove } = splitFrontMatter(text);
  if (field.name === 'instructions') return insertion(text, text.length, String(field.example));
  if (linesAbove === 0) {
    const { line, from, to } = lineOf(field);
    return { at: 0, text: `---\n${line}---\n`, selectFrom: 4 + from, selectTo: 4 + to };
  }
  return insertion(text, text.indexOf('\n') + 1 + settings.length, lineOf(field));
}

interface Line {
  readonly line: string;
  /** The part of it that is the value. */
  readonly from: number;
  readonly to: number;
}

function lineOf({ name, example }: KnownField): Line {
  const line = stringify({ [name]: example });
  const isOneLine = line.indexOf('\n') === line.length - 1;
  return { line, from: isOneLine ? name.length + 2 : 0, to: line.length - 1 };
}

function insertion(text: string, at: number, what: Line | string): Insertion {
  const { line, from, to } = typeof what === 'string' ? { line: what, from: 0, to: what.length } : what;
  const gap = at === 0 || text[at - 1] === '\n' ? '' : '\n';
  const start = at + gap.length;
  return { at, text: `${gap}${line}`, selectFrom: start + from, selectTo: start + to };
}

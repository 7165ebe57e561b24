import { messageOf } from '../../lib/errors.ts';
import type { ContextUse, Usage } from '../harness.ts';
import { mostTokens } from '../plan.ts';

/**
 * One line of a message that the rehearsal agent follows. `invalid` fails the run when it is reached; `unknown` is prose
 * that begins like a directive.
 */
export type Directive =
  | { readonly type: 'say' | 'run' | 'push' | 'ask' | 'finish' | 'fail'; readonly text: string }
  | { readonly type: 'add-task' | 'complete-task' | 'unknown' | 'invalid'; readonly text: string }
  | { readonly type: 'sleep' | 'limit'; readonly ms: number }
  | { readonly type: 'write'; readonly path: string; readonly text: string }
  | { readonly type: 'spawn'; readonly name: string; readonly description: string }
  | { readonly type: 'output'; readonly value: unknown }
  | { readonly type: 'usage'; readonly usage: Usage }
  | { readonly type: 'plan'; readonly steps: readonly PlannedStep[] }
  | { readonly type: 'compact'; readonly beforeTokens: number; readonly afterTokens: number }
  | { readonly type: 'context'; readonly context: ContextUse };

interface PlannedStep {
  readonly text: string;
  readonly status: string;
}

const shownNameLength = 50;

/** The lines that begin with `!`, in order; every other line is prose. */
export function parseDirectives(text: string): Directive[] {
  return text
    .split(/\r?\n/)
    .filter((line) => line.startsWith('!'))
    .map(parseLine);
}

function parseLine(line: string): Directive {
  const [word, rest] = firstWord(line.slice(1));
  const parse = parsers[word];
  if (parse) return parse(rest.trim());
  const known = Object.keys(parsers).map((w) => `!${w}`);
  const name = `!${word.slice(0, shownNameLength)}`;
  return { type: 'unknown', text: `unknown directive ${name} (known: ${known.join(' ')})` };
}

const parsers: Readonly<Record<string, (rest: string) => Directive>> = Object.assign(Object.create(null), {
  say: (text: string) => (text ? { type: 'say', text } : needs('!say', 'TEXT')),
  sleep: (rest: string) => duration('sleep', rest),
  run: (text: string) => (text ? { type: 'run', text } : needs('!run', 'COMMAND')),
  write: (rest: string) => {
    const [path, text] = firstWord(rest);
    return path ? { type: 'write', path, text } : needs('!write', 'PATH TEXT');
  },
  push: (text: string) => ({ type: 'push', text }),
  task: parseTask,
  ask: (text: string) => (text ? { type: 'ask', text } : needs('!ask', 'QUESTION')),
  finish: (text: string) => ({ type: 'finish', text }),
  spawn: (rest: string) => {
    const [name, description] = firstWord(rest);
    if (!name || !description) return needs('!spawn', 'NAME TEXT');
    return { type: 'spawn', name, description: unescapeOnce(description) };
  },
  output: parseOutput,
  usage: parseUsage,
  plan: (rest: string) => ({ type: 'plan', steps: rest === '' ? [] : rest.split(';').map(parseStep) }),
  compact: (rest: string) => {
    const [beforeTokens, afterTokens] = twoCounts(rest);
    if (beforeTokens === undefined || afterTokens === undefined)
      return needs('!compact', 'BEFORE AFTER, two whole numbers of tokens');
    return { type: 'compact', beforeTokens, afterTokens };
  },
  context: (rest: string) => {
    const [usedTokens, windowTokens] = twoCounts(rest);
    if (usedTokens === undefined || windowTokens === undefined)
      return needs('!context', 'USED WINDOW, two whole numbers of tokens');
    return { type: 'context', context: { usedTokens, windowTokens } };
  },
  limit: (rest: string) => duration('limit', rest),
  fail: (text: string) => ({ type: 'fail', text: text || 'The rehearsal agent failed as requested.' }),
});

function parseTask(rest: string): Directive {
  const [verb, text] = firstWord(rest);
  if (text && verb === 'add') return { type: 'add-task', text };
  if (text && verb === 'done') return { type: 'complete-task', text };
  return needs('!task', '"add SUBJECT" or "done ID-OR-SUBJECT"');
}

function parseOutput(json: string): Directive {
  try {
    return { type: 'output', value: JSON.parse(json) };
  } catch (error) {
    return invalid(`!output needs JSON: ${messageOf(error)}`);
  }
}

function parseUsage(rest: string): Directive {
  const words = rest.split(/\s+/);
  const [inputTokens, cachedInputTokens, outputTokens] = words.slice(0, 3).map(wholeNumber);
  const costUsd = decimal(words[3]);
  if (words.length !== 4 || inputTokens === undefined || cachedInputTokens === undefined) return needsUsage();
  if (outputTokens === undefined || costUsd === undefined || costUsd > 1e9) return needsUsage();
  return { type: 'usage', usage: { inputTokens, cachedInputTokens, outputTokens, costUsd } };
}

const stepMarks: Readonly<Record<string, string>> = { x: 'completed', '>': 'in_progress', ' ': 'pending' };

/** `[x] done`, `[>] in progress`, `to do`. */
function parseStep(step: string): PlannedStep {
  const [, mark = ' ', text = ''] = /^\s*(?:\[([x> ])\])?(.*)$/s.exec(step) ?? [];
  return { text: text.trim(), status: stepMarks[mark] ?? 'pending' };
}

function twoCounts(rest: string): (number | undefined)[] {
  const words = rest.split(/\s+/);
  return words.length === 2 ? words.map(wholeNumber).map((n) => (n && n > mostTokens ? undefined : n)) : [];
}

const needsUsage = (): Directive =>
  needs('!usage', 'INPUT CACHED OUTPUT USD, three whole numbers and dollars');

/** The limit of a timer. */
const mostSeconds = 2_000_000;

function duration(type: 'sleep' | 'limit', rest: string): Directive {
  const seconds = decimal(rest);
  if (seconds === undefined || seconds > mostSeconds)
    return needs(`!${type}`, `SECONDS, at most ${mostSeconds}`);
  return { type, ms: Math.ceil(seconds * 1000) };
}

function decimal(word: string | undefined): number | undefined {
  return word && /^(\d+\.?\d*|\.\d+)$/.test(word) ? Number(word) : undefined;
}

function wholeNumber(word: string): number | undefined {
  const value = /^\d+$/.test(word) ? Number(word) : Number.NaN;
  return Number.isSafeInteger(value) ? value : undefined;
}

function firstWord(rest: string): [word: string, rest: string] {
  const [, word = '', tail = ''] = /^(\S*)\s?(.*)$/s.exec(rest) ?? [];
  return [word, tail];
}

/** `\n` is a line break and `\\` a backslash. Each spawn removes one level, so directives can be nested. */
function unescapeOnce(text: string): string {
  return text.replace(/\\([\\n])/g, (_, c: string) => (c === 'n' ? '\n' : '\\'));
}

const invalid = (text: string): Directive => ({ type: 'invalid', text });
const needs = (directive: string, what: string): Directive => invalid(`${directive} needs ${what}`);

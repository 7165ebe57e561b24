import { type Choose, Instance } from './instance.ts';
import type { Schema } from './schema.ts';

/**
 * The smallest instance of a JSON Schema that can be found. Building one means choosing, here and there, among
 * alternatives (`anyOf`, `enum`, several types, optional branches). The choices of an attempt are a list of numbers,
 * so that attempts can be made in order: all first alternatives; then each single choice changed; then, as far as
 * the budget goes, all combinations. The validator has the last word on each.
 */
const mostAttempts = 200;

/** `undefined` when none is found. */
export function smallestInstance(schema: Schema): unknown {
  let attempts = 0;
  for (const value of instances(schema.schema)) {
    if (value !== undefined && schema.problemsOf(value).length === 0) return value;
    attempts += 1;
    if (attempts >= mostAttempts) return undefined;
  }
  return undefined;
}

function* instances(schema: unknown): Generator<unknown> {
  const first = attempt(schema, []);
  yield first.value;
  for (const [at, arity] of first.arities.entries())
    for (let choice = 1; choice < arity; choice++) yield attempt(schema, [...zeros(at), choice]).value;
  for (let choices = next([], first.arities); choices; ) {
    const tried = attempt(schema, choices);
    yield tried.value;
    choices = next(choices, tried.arities);
  }
}

/** What is chosen beyond the end of the list is the first alternative. */
function attempt(schema: unknown, choices: readonly number[]) {
  const arities: number[] = [];
  const choose: Choose = (arity) => {
    arities.push(arity);
    return Math.min(choices[arities.length - 1] ?? 0, arity - 1);
  };
  return { value: new Instance(schema, choose).build(), arities };
}

/** Counts on: the last choice that still can be raised is, and those behind it begin anew. */
function next(choices: readonly number[], arities: readonly number[]): number[] | undefined {
  for (let at = arities.length - 1; at >= 0; at--) {
    const choice = (choices[at] ?? 0) + 1;
    if (choice < (arities[at] ?? 0)) return [...arities.slice(0, at).map((_, i) => choices[i] ?? 0), choice];
  }
  return undefined;
}

const zeros = (count: number): number[] => new Array<number>(count).fill(0);

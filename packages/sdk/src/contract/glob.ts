/**
 * Globs for file paths. A pattern is compiled to a nondeterministic automaton, which reads a path once and tracks the set
 * of possible states. There is no backtracking: the cost is at most the length of the pattern times that of the path.
 *
 *   *          characters other than `/`
 *   **         as a whole path segment: any number of segments
 *   ?          one character other than `/`
 *   [a-z]      one of these characters; `[!a-z]` or `[^a-z]` one of the others
 *   {a,b}      one of the alternatives, which may be patterns themselves
 *   @(a|b)     the same; `?(…)` also none, `+(…)` one or more, `*(…)` none or more
 *   \x         the character x
 *   !pattern   at the beginning: every path that the pattern does not match
 */
type State =
  | { readonly op: 'character'; readonly code: number }
  | { readonly op: 'set'; readonly ranges: readonly (readonly [number, number])[]; readonly negated: boolean }
  | { readonly op: 'name' | 'path' | 'end' }
  | Fork;

/** Leads to two other states without reading a character. */
interface Fork {
  readonly op: 'fork';
  to: number;
  other: number;
}

const slash = 0x2f;

/** What is wrong with a pattern, or null. */
export function globProblem(pattern: string): string | null {
  // Only these characters can cause a problem.
  if (!/[[{(\\]/.test(pattern)) return null;
  const glob = compile(pattern);
  return typeof glob === 'string' ? glob : null;
}

/** The steps that are left. A step reads one character; the costs below were measured in steps. */
interface Budget {
  steps: number;
}

/** A few hundredths of a second. */
const maxSteps = 2_000_000;
const stepsPerState = 16;
const stepsPerVisit = 20;
const pathsPerStep = 8;

/**
 * Returns the patterns that match at least one of the paths. A pattern that is invalid, or undecided when the steps are
 * used up, counts as matching, so that an expensive path does not hide a change.
 */
export function matchingGlobs(patterns: Iterable<string>, paths: readonly string[]): Set<string> {
  const matching = new Set<string>();
  if (paths.length === 0) return matching;
  const sorted = new SortedPaths(paths);
  const budget: Budget = { steps: maxSteps };
  for (const pattern of new Set(patterns)) {
    if (matchesOne(pattern, sorted, budget)) matching.add(pattern);
  }
  return matching;
}

function matchesOne(pattern: string, paths: SortedPaths, budget: Budget): boolean {
  const glob = budget.steps < 0 ? 'the steps are used up' : compile(pattern);
  if (typeof glob === 'string') return true;
  budget.steps -= stepsPerState * glob.size;
  return glob.matchesOne(paths, budget);
}

/** In alphabetical order, in which most paths begin like the one before. */
class SortedPaths {
  readonly texts: readonly string[];
  /** How many characters each path shares with the one before. */
  readonly shared: Int32Array;
  readonly #byLastCode = new Map<number, SortedPaths>();

  constructor(paths: readonly string[]) {
    this.texts = [...paths].sort();
    this.shared = Int32Array.from(this.texts, (path, i) => sharedLength(path, this.texts[i - 1] ?? ''));
  }

  /** Those that end with this character. */
  ending(code: number): SortedPaths {
    const known = this.#byLastCode.get(code);
    if (known) return known;
    const ending = new SortedPaths(this.texts.filter((path) => path.charCodeAt(path.length - 1) === code));
    this.#byLastCode.set(code, ending);
    return ending;
  }
}

function sharedLength(a: string, b: string): number {
  const most = Math.min(a.length, b.length);
  let length = 0;
  while (length < most && a.charCodeAt(length) === b.charCodeAt(length)) length += 1;
  // A character of two code units is shared as a whole, or not.
  return length > 0 && (a.codePointAt(length - 1) as number) > 0xffff ? length - 1 : length;
}

/** A set of states, and the sets that each next character leads to. */
interface StateSet {
  readonly states: readonly number[];
  readonly isEmpty: boolean;
  readonly isEnd: boolean;
  /** By the code of an ASCII character. */
  readonly next: (StateSet | undefined)[];
}

/** A compiled pattern. State sets are cached, so that most characters cost one array access. */
class Glob {
  readonly size: number;
  readonly #states: readonly State[];
  readonly #isNegated: boolean;
  /** Every matching path ends with this character. */
  readonly #lastCode: number | undefined;
  readonly #sets = new Map<string, StateSet>();
  readonly #start: StateSet;
  /** The round in which each state was last entered: once per character. */
  readonly #entered: Int32Array;
  #round = 0;

  constructor(states: readonly State[], isNegated: boolean) {
    this.size = states.length;
    this.#states = states;
    this.#isNegated = isNegated;
    this.#lastCode = lastCodeOf(states);
    this.#entered = new Int32Array(states.length);
    this.#start = this.#stateSet([0]);
  }

  /** Whether one of the paths matches, or the steps are used up. */
  matchesOne(paths: SortedPaths, budget: Budget): boolean {
    const { texts, shared } =
      this.#lastCode === undefined || this.#isNegated ? paths : paths.ending(this.#lastCode);
    budget.steps -= texts.length / pathsPerStep;
    // The states after each number of characters, as far as the path begins like those before.
    const trail = [this.#start];
    let known = 0;
    let isOver = false;
    for (let i = 0; i < texts.length; i += 1) {
      const common = shared[i] as number;
      if (isOver && common >= known) continue;
      known = this.#read(texts[i] as string, Math.min(known, common), trail, budget);
      const { isEmpty, isEnd } = trail[known] as StateSet;
      if (isEnd !== this.#isNegated || budget.steps < 0) return true;
      isOver = isEmpty;
    }
    return false;
  }

  /** Reads the rest of a path until no state is left, and returns how much of it is read. */
  #read(path: string, start: number, trail: StateSet[], budget: Budget): number {
    let at = start;
    let set = trail[at] as StateSet;
    while (at < path.length && !set.isEmpty && budget.steps >= 0) {
      const code = path.charCodeAt(at);
      if (code < 128) {
        set = set.next[code] ?? this.#follow(set, code, budget);
        at += 1;
      } else {
        const point = path.codePointAt(at) as number;
        set = this.#follow(set, point, budget);
        at += point > 0xffff ? 2 : 1;
      }
      trail[at] = set;
    }
    budget.steps -= at - start;
    return at;
  }

  #follow(set: StateSet, code: number, budget: Budget): StateSet {
    const isAccepted = (index: number) => accepts(this.#states[index] as State, code, budget);
    const next = this.#stateSet(set.states.filter(isAccepted).map((index) => index + 1));
    budget.steps -= stepsPerVisit * (set.states.length + next.states.length);
    if (code < 128) set.next[code] = next;
    return next;
  }

  /** Replaces forks by the states that they lead to. */
  #stateSet(entries: readonly number[]): StateSet {
    this.#round += 1;
    const waiting = [...entries];
    const states: number[] = [];
    for (let index = waiting.pop(); index !== undefined; index = waiting.pop()) {
      if (this.#entered[index] === this.#round) continue;
      this.#entered[index] = this.#round;
      const state = this.#states[index] as State;
      if (state.op === 'fork') waiting.push(state.other, state.to);
      else states.push(index);
    }
    const name = states.sort((a, b) => a - b).join();
    const known = this.#sets.get(name);
    if (known) return known;
    const set: StateSet = {
      states,
      isEmpty: states.length === 0,
      isEnd: states.at(-1) === this.size - 1,
      next: [],
    };
    this.#sets.set(name, set);
    return set;
  }
}

function accepts(state: State, code: number, budget: Budget): boolean {
  switch (state.op) {
    case 'character':
      return state.code === code;
    case 'name':
      return code !== slash;
    case 'path':
      return true;
    case 'set':
      budget.steps -= state.ranges.length;
      return (
        code !== slash && state.ranges.some(([from, to]) => code >= from && code <= to) !== state.negated
      );
    default:
      return false;
  }
}

function compile(pattern: string): Glob | string {
  const negated = pattern.startsWith('!') && pattern[1] !== '(';
  try {
    return new Glob(new Compiler(negated ? pattern.slice(1) : pattern).compile(), negated);
  } catch (error) {
    if (error instanceof GlobError) return error.message;
    throw error;
  }
}

class GlobError extends Error {}

class Compiler {
  readonly #pattern: string;
  readonly #states: State[] = [];
  #at = 0;

  constructor(pattern: string) {
    this.#pattern = pattern;
  }

  compile(): readonly State[] {
    this.#sequence('');
    this.#states.push({ op: 'end' });
    return this.#states;
  }

  /** Parses to the end of the pattern, or to a character that ends an alternative. */
  #sequence(ends: string): void {
    const start = this.#at;
    while (this.#at < this.#pattern.length && !ends.includes(this.#next())) {
      const c = this.#next();
      if ('@?*+!'.includes(c) && this.#pattern[this.#at + 1] === '(') this.#group(c);
      else if (this.#takeGlobstar(start, ends)) continue;
      else this.#single(c);
    }
  }

  #single(c: string): void {
    this.#at += c.length;
    if (c === '*') this.#anyNumber('name');
    else if (c === '?') this.#states.push({ op: 'name' });
    else if (c === '[') this.#class();
    else if (c === '{') this.#alternatives(',', '}');
    else this.#states.push({ op: 'character', code: (c === '\\' ? this.#escaped() : c).codePointAt(0) ?? 0 });
  }

  /** Parses `**` as a whole segment; elsewhere two stars mean the same as one. */
  #takeGlobstar(start: number, ends: string): boolean {
    const before = this.#pattern[this.#at - 1];
    if (!this.#pattern.startsWith('**', this.#at) || (this.#at > start && before !== '/')) return false;
    const after = this.#pattern[this.#at + 2] ?? '';
    if (after === '/') {
      this.#at += 3;
      // Any number of segments, each with its slash.
      const skip = this.#fork();
      this.#anyNumber('path');
      this.#states.push({ op: 'character', code: slash });
      skip.other = this.#states.length;
      return true;
    }
    if (after !== '' && !ends.includes(after)) return false;
    this.#at += 2;
    this.#states.push({ op: 'path' });
    this.#anyNumber('path');
    return true;
  }

  #anyNumber(op: 'name' | 'path'): void {
    const first = this.#states.length;
    const loop = this.#fork();
    this.#states.push({ op });
    this.#fork(first);
    loop.other = this.#states.length;
  }

  /** `?(…)`, `*(…)`, `+(…)`, `@(…)`. */
  #group(quantifier: string): void {
    if (quantifier === '!')
      throw new GlobError('must not contain "!(…)": a pattern is negated by a "!" in front');
    this.#at += 2;
    const mayRepeat = quantifier === '*' || quantifier === '+';
    const first = this.#states.length;
    const skip = quantifier === '*' || quantifier === '?' ? this.#fork() : undefined;
    this.#alternatives('|', ')');
    if (mayRepeat) this.#fork(first).other = this.#states.length;
    if (skip) skip.other = this.#states.length;
  }

  #alternatives(separator: string, end: string): void {
    const opening = end === '}' ? '{' : '(';
    const exits: Fork[] = [];
    let count = 0;
    for (let c = separator; c === separator; count += 1) {
      const choice = this.#fork();
      this.#sequence(separator + end);
      c = this.#pattern[this.#at] ?? '';
      if (c === '') throw new GlobError(`must close "${opening}" with "${end}"`);
      this.#at += 1;
      exits.push(this.#fork());
      choice.other = this.#states.length;
    }
    // After the last alternative: a state that accepts nothing.
    this.#states.push({ op: 'set', ranges: [], negated: false });
    for (const exit of exits) {
      exit.to = this.#states.length;
      exit.other = this.#states.length;
    }
    if (end === '}' && count === 1) throw new GlobError('must have a "," in "{…}"; write "\\{" for a brace');
  }

  #class(): void {
    const negated = this.#take('!') || this.#take('^');
    const ranges: [number, number][] = [];
    for (let isFirst = true; isFirst || this.#next() !== ']'; isFirst = false) {
      const from = this.#member();
      const isRange = this.#next() === '-' && this.#pattern[this.#at + 1] !== ']' && this.#take('-');
      const to = isRange ? this.#member() : from;
      if (from > to) throw new GlobError('must have ranges in ascending order in "[…]"');
      ranges.push([from, to]);
    }
    this.#at += 1;
    this.#states.push({ op: 'set', ranges, negated });
  }

  #member(): number {
    const c = this.#next();
    this.#at += c.length;
    return (c === '\\' ? this.#escaped() : c).codePointAt(0) ?? 0;
  }

  #escaped(): string {
    const c = this.#next();
    this.#at += c.length;
    return c;
  }

  #next(): string {
    const code = this.#pattern.codePointAt(this.#at);
    if (code === undefined) throw new GlobError('must not end within "[…]" or with "\\"');
    return String.fromCodePoint(code);
  }

  #take(c: string): boolean {
    if (this.#pattern[this.#at] !== c) return false;
    this.#at += 1;
    return true;
  }

  /** Adds a fork to the next state, or to the given one; the caller sets its other target. */
  #fork(to = this.#states.length + 1): Fork {
    const state: Fork = { op: 'fork', to, other: to };
    this.#states.push(state);
    return state;
  }
}

/** The last character of every match, if it is the same one. Only ASCII characters are one code unit for certain. */
function lastCodeOf(states: readonly State[]): number | undefined {
  const end = states.length - 1;
  const last = states[end - 1];
  if (last?.op !== 'character' || last.code >= 128) return undefined;
  const leadsToEnd = (state: State) => state.op === 'fork' && (state.to === end || state.other === end);
  return states.some(leadsToEnd) ? undefined : last.code;
}

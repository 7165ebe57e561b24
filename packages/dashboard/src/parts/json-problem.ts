/** Where a text stops being JSON, and what should stand there. */
export interface JsonProblem {
  readonly line: number;
  readonly message: string;
}

class Fault extends Error {
  readonly at: number;

  constructor(at: number, message: string) {
    super(message);
    this.at = at;
  }
}

/**
 * Null when the text is JSON. What `JSON.parse` says differs between browsers, and mostly lacks the line; so the text
 * is read once more, by the same grammar, to see where it breaks.
 */
export function jsonProblem(text: string): JsonProblem | null {
  try {
    JSON.parse(text);
    return null;
  } catch {
    return faultOf(text);
  }
}

/** What keeps a text from being an output schema, as far as a browser can tell; undefined when nothing does. */
export function schemaProblem(text: string): string | undefined {
  if (text.trim() === '') return undefined;
  const problem = jsonProblem(text);
  if (problem) return `Line ${problem.line}: ${problem.message}.`;
  return /^\s*\{/.test(text) ? undefined : 'A JSON Schema is an object: it begins with {.';
}

function faultOf(text: string): JsonProblem {
  try {
    new Reader(text).document();
  } catch (error) {
    if (error instanceof Fault) return { line: lineOf(text, error.at), message: error.message };
    throw error;
  }
  return { line: 1, message: 'this is not JSON' };
}

const lineOf = (text: string, at: number): number => text.slice(0, at).split('\n').length;

const number = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const word = /true|false|null/y;
const string = /"(?:[^"\\\p{Cc}]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/uy;
const space = /[ \t\r\n]*/y;

class Reader {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  document(): void {
    this.#value();
    if (this.#next() !== '') throw this.#fault('nothing may follow the end of the value');
  }

  #value(): void {
    const next = this.#next();
    if (next === '{') this.#list('}', () => this.#member());
    else if (next === '[') this.#list(']', () => this.#value());
    else if (next === '"') this.#string();
    else if (!this.#takes(number) && !this.#takes(word)) throw this.#fault('a value is missing here');
  }

  #list(end: string, item: () => void): void {
    this.#at += 1;
    if (this.#next() === end) {
      this.#at += 1;
      return;
    }
    for (;;) {
      item();
      const next = this.#next();
      if (next !== ',' && next !== end) throw this.#fault(`a comma or ${end} is missing here`);
      this.#at += 1;
      if (next === end) return;
      if (this.#next() === end) throw this.#fault(`nothing follows the comma before this ${end}`);
    }
  }

  #member(): void {
    if (this.#next() !== '"') throw this.#fault('a name in double quotes is missing here');
    this.#string();
    if (this.#next() !== ':') throw this.#fault('a colon is missing after the name');
    this.#at += 1;
    this.#value();
  }

  #string(): void {
    if (!this.#takes(string)) throw this.#fault('this text in quotes does not end, or has a sign it may not');
  }

  /** The next sign that is no white space; empty at the end. */
  #next(): string {
    this.#takes(space);
    return this.#text.charAt(this.#at);
  }

  #takes(pattern: RegExp): boolean {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#text);
    if (found) this.#at = pattern.lastIndex;
    return found !== null;
  }

  /** At the last sign before it, if something is missing at the end: there the reader has to write. */
  #fault(message: string): Fault {
    const isAtEnd = this.#at >= this.#text.length;
    return new Fault(
      isAtEnd ? this.#text.trimEnd().length : this.#at,
      isAtEnd ? 'the text ends too early' : message,
    );
  }
}

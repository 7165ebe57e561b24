/** The first syntax error of a JSON text. */
interface JsonProblem {
  readonly line: number;
  readonly message: string;
}

class JsonSyntaxError extends Error {
  readonly at: number;

  constructor(at: number, message: string) {
    super(message);
    this.at = at;
  }
}

/**
 * Null if the text is valid JSON. The errors of `JSON.parse` differ between browsers and mostly lack the line, so an
 * invalid text is parsed again here to find the line.
 */
export function jsonProblem(text: string): JsonProblem | null {
  try {
    JSON.parse(text);
    return null;
  } catch {
    return syntaxErrorOf(text);
  }
}

/** Why a text is not an output schema, as far as the browser can tell; undefined if it may be one. */
export function schemaProblem(text: string): string | undefined {
  if (text.trim() === '') return undefined;
  const problem = jsonProblem(text);
  if (problem) return `Line ${problem.line}: ${problem.message}.`;
  return /^\s*\{/.test(text) ? undefined : 'A JSON Schema must be an object that starts with {.';
}

function syntaxErrorOf(text: string): JsonProblem {
  try {
    new Reader(text).document();
  } catch (error) {
    if (error instanceof JsonSyntaxError) return { line: lineOf(text, error.at), message: error.message };
    throw error;
  }
  return { line: 1, message: 'invalid JSON' };
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
    if (this.#next() !== '') throw this.#error('unexpected text after the end of the JSON value');
  }

  #value(): void {
    const next = this.#next();
    if (next === '{') this.#list('}', () => this.#member());
    else if (next === '[') this.#list(']', () => this.#value());
    else if (next === '"') this.#string();
    else if (!this.#takes(number) && !this.#takes(word)) throw this.#error('expected a value');
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
      if (next !== ',' && next !== end) throw this.#error(`expected a comma or ${end}`);
      this.#at += 1;
      if (next === end) return;
      if (this.#next() === end) throw this.#error(`trailing comma before ${end}`);
    }
  }

  #member(): void {
    if (this.#next() !== '"') throw this.#error('expected a property name in double quotes');
    this.#string();
    if (this.#next() !== ':') throw this.#error('expected a colon after the property name');
    this.#at += 1;
    this.#value();
  }

  #string(): void {
    if (!this.#takes(string)) throw this.#error('the string is not closed or contains an invalid character');
  }

  /** The next character after white space; empty at the end. */
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

  /** If the text ends too early, the error is on the last line that has text: the user continues there. */
  #error(message: string): JsonSyntaxError {
    const isAtEnd = this.#at >= this.#text.length;
    return new JsonSyntaxError(
      isAtEnd ? this.#text.trimEnd().length : this.#at,
      isAtEnd ? 'unexpected end of JSON' : message,
    );
  }
}

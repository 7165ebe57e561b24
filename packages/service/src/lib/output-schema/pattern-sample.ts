/**
 * A short text that matches a regular expression, best effort: the first alternative, the fewest repetitions, the
 * first character of each class. What it does not understand (look-around, back references) gives `undefined`;
 * whoever asks checks the text anyway.
 */
export function samplePattern(pattern: string): string | undefined {
  try {
    const reader = new PatternReader(pattern);
    const text = reader.alternatives();
    return reader.atEnd() ? text : undefined;
  } catch {
    return undefined;
  }
}

const mostRepeats = 10_000;
const usualCharacters = 'a0A-_ .!@/:~éあ\n';
const escapedClasses: Readonly<Record<string, string>> = { d: '0', w: 'a', s: ' ', D: 'a', W: '-', S: 'a' };
const escapedControls: Readonly<Record<string, string>> = { n: '\n', t: '\t', r: '\r', f: '\f', v: '\v' };

class PatternReader {
  readonly #pattern: string;
  #at = 0;

  constructor(pattern: string) {
    this.#pattern = pattern;
  }

  atEnd(): boolean {
    return this.#at >= this.#pattern.length;
  }

  alternatives(): string {
    const first = this.#sequence();
    while (this.#take('|')) this.#sequence();
    return first;
  }

  #sequence(): string {
    let text = '';
    while (!this.atEnd() && this.#next() !== '|' && this.#next() !== ')') {
      const atom = this.#atom();
      text += atom.repeat(this.#fewest());
      if (text.length > mostRepeats) throw new Error('too long');
    }
    return text;
  }

  #atom(): string {
    const c = this.#read();
    if (c === '^' || c === '$') return '';
    if (c === '.') return 'a';
    if (c === '[') return this.#class();
    if (c === '\\') return this.#escape();
    if (c !== '(') return c;
    if (this.#take('?') && !this.#take(':')) this.#groupName();
    const text = this.alternatives();
    if (!this.#take(')')) throw new Error('an open group');
    return text;
  }

  #groupName(): void {
    const name = /^<[A-Za-z_$][\w$]*>/.exec(this.#pattern.slice(this.#at))?.[0];
    if (!name) throw new Error('look-around');
    this.#at += name.length;
  }

  #escape(): string {
    const c = this.#read();
    if (c === 'b' || c === 'B') return '';
    if (/[1-9kpPcux]/.test(c)) {
      const code = /^(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4}))/.exec(this.#pattern.slice(this.#at - 1));
      if (!code) throw new Error('not understood');
      this.#at += code[0].length - 1;
      return String.fromCharCode(Number.parseInt(code[1] ?? code[2] ?? '', 16));
    }
    return escapedClasses[c] ?? escapedControls[c] ?? c;
  }

  /** The expression of the class itself says which character is in it. */
  #class(): string {
    const start = this.#at - 1;
    this.#take('^');
    this.#take(']');
    while (this.#next() !== ']') if (this.#read() === '\\') this.#read();
    this.#read();
    const source = this.#pattern.slice(start, this.#at);
    const matches = new RegExp(`^${source}$`, 'u');
    const named = source.slice(1, -1).split('');
    const found = [...named, ...usualCharacters].find((c) => matches.test(c));
    if (found === undefined) throw new Error('an empty class');
    return found;
  }

  #fewest(): number {
    const quantifier = /^(?:[*+?]|\{(\d+)(?:,\d*)?\})\??/.exec(this.#pattern.slice(this.#at));
    if (!quantifier) return 1;
    this.#at += quantifier[0].length;
    if (quantifier[1] !== undefined) return Math.min(Number(quantifier[1]), mostRepeats);
    return quantifier[0].startsWith('+') ? 1 : 0;
  }

  #next(): string {
    return this.#pattern[this.#at] ?? this.#end();
  }

  #read(): string {
    const c = this.#next();
    this.#at += 1;
    return c;
  }

  #take(c: string): boolean {
    if (this.#pattern[this.#at] !== c) return false;
    this.#at += 1;
    return true;
  }

  #end(): never {
    throw new Error('the pattern ends early');
  }
}

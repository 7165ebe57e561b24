import { Brackets } from './brackets.ts';
import { drawnLanguage, endOfDrawing, formulasIn, shownTargetLength } from './drawings.ts';
import { endOfHtmlTag, endOfMarkdownTag } from './html-tags.ts';

/**
 * Removes from a Markdown text what hosts do not show: comments, tags with their attributes, elements that are hidden,
 * the text instead of an image, titles of links, definitions of links, and the sources of drawings. Code stays, because it
 * is shown.
 *
 * Whether something is shown depends on the block that it is in: a paragraph is parsed as Markdown, a block of HTML by
 * the more lenient rules of browsers, and renderers differ in where they begin. So a part that may be a block of HTML is
 * searched by both rules, and what either one hides is removed. Code is recognised only where no renderer can take it
 * for something else, and markup that continues on another line ends what is shown of its paragraph. Too much may be
 * removed, never too little. It takes linear time: no search begins again where another one has been.
 */
export function withoutHiddenMarkup(markdown: string): string {
  const text = markdown.replaceAll('\r\n', '\n');
  // Renderers differ in whether these are spaces or ends of lines.
  if (/[\r\v\f\0]/.test(text)) return text.split('<', 1)[0] ?? '';
  return new Search(text).visible();
}

/** Elements whose content is not shown. */
const unseenElements = new Set(
  `script style template title head textarea noscript iframe object svg math datalist select noembed noframes xmp
   plaintext audio video canvas dialog`.split(/\s+/),
);
/** Elements without content. */
const voidElements = /^(?:area|base|br|col|embed|hr|img|input|link|meta|source|track|wbr)$/;
const hidingAttributes =
  /[\s/"']hidden(?=[\s=/>])|aria-hidden|(?:display\s*:\s*none|visibility\s*:\s*hidden|(?:opacity|font-size|width|height)\s*:\s*0)/i;

/** What may precede a block on its line: indentation, quotes, lists. */
const blockPrefix = '[ \\t>*+\\-\\d.)]*';
/** Where a block of HTML may begin, or a definition that continues on the next line. */
const otherBlock = new RegExp(`^${blockPrefix}(?:<(?:[/!?]|[A-Za-z][A-Za-z\\d-]*(?:[\\s/>]|$))|\\[[^\\]]*$)`);
const likeFence = new RegExp(`^${blockPrefix}(?:\`{3,}(?=[^\`]*$)|~{3,})`);
const language = /^ ?[\w+#.-]{0,20}(?!\S)/;
const definition = new RegExp(`${blockPrefix}\\[(\\^?)(?:\\\\.|[^[\\]\\\\]){1,999}\\]:`, 'y');
const label = new RegExp(`^${blockPrefix}\\[[^[\\]]{1,999}\\]:`, 'gm');
/** Blocks of HTML that a blank line does not end. */
const longBlocks = /^(?:pre|script|style|textarea)$/;
const fence = /^(?:(`{3,})[^`]*|(~{3,}).*)$/;
const special = /[`\\<![\]]/g;
const closingFence = /^ {0,3}(`+|~+)[ \t]*$/;
const blank = /^[ \t]*$/;
/** The line between the head and the rows of a table. */
const tableHead = /^[ \t>*+\d.)]*[|:-][|:\- \t]*$/;
/** Front matter, and quotes between lines of `>>>`: GitLab looks for them before it looks for code. */
const frontMatter = /^(?:---|\+\+\+|;;;)/;
const longQuote = /^[ \t]*>>>/m;

class Search {
  readonly #text: string;
  /** With ASCII letters in lower case. */
  readonly #lower: string;
  /** 1 for each character that is removed. */
  readonly #removed: Uint8Array;
  /** What takes the place of something that is removed from there on. */
  readonly #notes = new Map<number, string>();
  readonly #hasDefinitions: boolean;
  /** Whether code can still be recognised with certainty. */
  #mayHaveCode: boolean;
  /** A block of HTML began that a blank line does not end. */
  #isInLongBlock = false;
  /** Where the last drawing ends. */
  #endOfDrawing = 0;
  /** The last search for each mark. */
  readonly #found = new Map<string, { readonly from: number; readonly at: number }>();

  constructor(text: string) {
    this.#text = text;
    this.#lower = text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase());
    this.#removed = new Uint8Array(text.length);
    this.#hasDefinitions = [...text.matchAll(label)].some(
      ({ index, 0: { length } }) => this.#endOfDefinition(index + length, text.length) !== null,
    );
    this.#mayHaveCode = !startsWithFrontMatter(text) && !longQuote.test(text);
  }

  visible(): string {
    let at = 0;
    let isAfterHtml = false;
    while (at < this.#text.length) {
      const { next, isCut } = this.#paragraph(at, isAfterHtml);
      at = next;
      isAfterHtml = isCut;
    }
    const kept: string[] = [this.#notes.get(0) ?? ''];
    for (let from = this.#removed.indexOf(0); from !== -1; ) {
      const to = this.#removed.indexOf(1, from);
      kept.push(this.#text.slice(from, to === -1 ? undefined : to), this.#notes.get(to) ?? '');
      from = to === -1 ? -1 : this.#removed.indexOf(0, to);
    }
    return kept.join('');
  }

  /**
   * Searches the lines up to the next blank line or block of code. Returns where to go on, which may be the middle of a
   * line, after something that began here.
   */
  #paragraph(start: number, isAfterHtml: boolean): { readonly next: number; readonly isCut: boolean } {
    let mayBeHtml = isAfterHtml || this.#isInLongBlock;
    let at = start;
    let next = this.#text.length;
    for (; at < this.#text.length; ) {
      const end = this.#endOfLine(at);
      const line = this.#text.slice(at, end);
      if (blank.test(line) && !this.#isInLongBlock) {
        next = end + 1;
        break;
      }
      const opening = this.#mayHaveCode && !mayBeHtml ? fence.exec(line) : null;
      if (opening) {
        this.#removeInfo(at, line);
        next = this.#endOfCode(end + 1, (opening[1] ?? opening[2]) as string);
        this.#removeDrawing(at, line, next);
        break;
      }
      if (likeFence.test(line)) {
        this.#removeInfo(at, line);
        this.#removeDrawing(at, line);
        this.#mayHaveCode = false;
      }
      mayBeHtml ||= otherBlock.test(line);
      at = end + 1;
    }
    const end = Math.min(at, this.#text.length);
    const html = mayBeHtml ? this.#asHtml(start, end) : end;
    const reached = Math.max(html, this.#asMarkdown(start, end, mayBeHtml));
    return reached > end ? { next: reached, isCut: true } : { next, isCut: false };
  }

  /** Hosts show nothing of what follows the marks of a block of code; its first word is the language. */
  #removeInfo(at: number, line: string): void {
    const marks = likeFence.exec(line)?.[0].length ?? 0;
    const shown = language.exec(line.slice(marks))?.[0].length ?? 0;
    this.#remove(at + marks + shown, at + line.length);
  }

  /** Removes a block that hosts draw, if this line begins one. */
  #removeDrawing(at: number, line: string, end?: number): void {
    const language = at < this.#endOfDrawing ? null : drawnLanguage(line);
    if (language === null) return;
    this.#endOfDrawing = end ?? endOfDrawing(this.#text, at, line);
    this.#remove(at, this.#endOfDrawing);
    this.#notes.set(at, `[${language} drawing]\n`);
  }

  /** Where a block of code ends that begins at `from`. */
  #endOfCode(from: number, marks: string): number {
    for (let at = from; at < this.#text.length; ) {
      const end = this.#endOfLine(at);
      const [, closing = ''] = closingFence.exec(this.#text.slice(at, end)) ?? [];
      if (closing.startsWith(marks)) return end + 1;
      at = end + 1;
    }
    return this.#text.length;
  }

  #endOfLine(at: number): number {
    const end = this.#next('\n', at);
    return end === -1 ? this.#text.length : end;
  }

  /** Like `indexOf`, but a search that continues an earlier one uses its result. */
  #next(mark: string, from: number): number {
    return this.#search(mark, from, () => this.#text.indexOf(mark, from));
  }

  /** The next character that means something in a paragraph. */
  #nextSpecial(from: number): number {
    return this.#search('special', from, () => {
      special.lastIndex = from;
      return special.exec(this.#text)?.index ?? -1;
    });
  }

  #search(name: string, from: number, find: () => number): number {
    const known = this.#found.get(name);
    if (known && from >= known.from && (known.at === -1 || from <= known.at)) return known.at;
    const at = find();
    this.#found.set(name, { from, at });
    return at;
  }

  /** Where something ends whose last characters are `mark`; null if it does not. */
  #after(mark: string, from: number): number | null {
    const at = this.#next(mark, from);
    return at === -1 ? null : at + mark.length;
  }

  #remove(from: number, to: number): void {
    this.#removed.fill(1, from, to);
  }

  /**
   * Removes markup, and the rest of a paragraph after markup that continues on another line: it would be something else
   * for a renderer that ends the paragraph there. Returns where to go on.
   */
  #removeMarkup(at: number, to: number, end: number, mayBeHtml: boolean): number {
    const isComment = this.#text.startsWith('<!--', at);
    const isAtLineStart = at === 0 || this.#text[at - 1] === '\n';
    let until = to;
    if (to > this.#endOfLine(at) && !(isComment && isAtLineStart)) {
      until = Math.max(to, end);
      if (mayBeHtml && (isComment || isOpen(this.#text.slice(at, until)))) until = this.#text.length;
    }
    this.#remove(at, until);
    return until;
  }

  /** By the rules of browsers. Returns where it ended: at `end`, or later. */
  #asHtml(start: number, end: number): number {
    for (let at = this.#next('<', start); at !== -1 && at < end; ) {
      const found = this.#hiddenByBrowsers(at, end);
      const next = found === null ? at + 1 : this.#removeMarkup(at, found, end, true);
      if (next > end) return next;
      at = this.#next('<', next);
    }
    return end;
  }

  /** The end of what browsers hide from a `<` on; null if it is text. */
  #hiddenByBrowsers(at: number, end: number): number | null {
    const rest = this.#text.length;
    const next = this.#text[at + 1] ?? '';
    if (this.#text.startsWith('<!--', at)) {
      const early = this.#earlyEndOfComment(at);
      return Math.min(early ?? rest, this.#after('-->', at + 4) ?? rest);
    }
    if (next === '!' || next === '?') {
      this.#enterLongBlock();
      return this.#after('>', at) ?? rest;
    }
    if (!/[A-Za-z/]/.test(next)) return null;
    const found = endOfHtmlTag(this.#text, at, this.#isInLongBlock ? rest : end);
    return found === -1 ? rest : this.#endOfElement(at, found);
  }

  /** Browsers also end a comment with `--!>`, and directly after its beginning; null if neither is there. */
  #earlyEndOfComment(at: number): number | null {
    const empty = /^<!---?>/.exec(this.#text.slice(at, at + 6))?.[0];
    return empty ? at + empty.length : this.#after('--!>', at + 4);
  }

  #enterLongBlock(): void {
    this.#isInLongBlock = true;
    this.#mayHaveCode = false;
  }

  /** The end of a tag, or of its element if that is not shown. */
  #endOfElement(at: number, endOfTag: number): number {
    const name = /^<\/?([a-z][a-z\d-]*)/.exec(this.#lower.slice(at, at + 20))?.[1] ?? '';
    if (longBlocks.test(name)) this.#enterLongBlock();
    if (this.#text[at + 1] === '/' || voidElements.test(name)) return endOfTag;
    if (!unseenElements.has(name) && !hidingAttributes.test(this.#text.slice(at, endOfTag))) return endOfTag;
    const tag = new RegExp(`<(?:!--|(/?)${name}(?![a-z\\d-]))`, 'g');
    tag.lastIndex = endOfTag;
    let depth = 1;
    for (let match = tag.exec(this.#lower); match; match = tag.exec(this.#lower)) {
      if (match[0] === '<!--') {
        tag.lastIndex = this.#after('-->', tag.lastIndex) ?? this.#text.length;
        continue;
      }
      depth += match[1] ? -1 : 1;
      if (depth === 0) return this.#after('>', tag.lastIndex) ?? this.#text.length;
    }
    return this.#text.length;
  }

  /** By the rules of Markdown for the text of a paragraph. Returns where it ended: at `end`, or later. */
  #asMarkdown(start: number, end: number, mayBeHtml: boolean): number {
    if (start >= end) return end;
    this.#removeDefinitions(start, end);
    this.#removeExtraCells(start, end);
    const brackets = new Brackets(this.#hasDefinitions);
    /** Until a tag, or backticks without others that close them, code on one line is code for every renderer. */
    let mayHaveCode = this.#mayHaveCode && !mayBeHtml;
    const code: [number, number][] = [];
    let next = start;
    for (let at = this.#nextSpecial(start); at !== -1 && at < end; at = this.#nextSpecial(next)) {
      const character = this.#text[at];
      const following = this.#text[at + 1] ?? '';
      next = at + 1;
      if (character === '\\') {
        mayHaveCode &&= following !== '`';
        next = at + 2;
      } else if (character === '`') {
        const endOfCode = mayHaveCode ? this.#endOfInlineCode(at, end) : null;
        mayHaveCode = endOfCode !== null;
        if (endOfCode !== null) code.push([at, endOfCode]);
        next = endOfCode ?? next;
      } else if (character === '<') {
        if (!/[A-Za-z/!?]/.test(following)) continue;
        mayHaveCode = false;
        const found = this.#hiddenByMarkdown(at, end);
        if (found === null) continue;
        next = this.#removeMarkup(at, found, end, mayBeHtml);
        if (next >= end) {
          // The bracket that closes an image may be in what was removed.
          brackets.closeAll(at);
          break;
        }
      } else if (character === '!' && following === '[') {
        brackets.open(at + 2, true);
        next = at + 2;
      } else if (character === '[') brackets.open(at + 1, false);
      else if (character === ']' && brackets.close(at) && following === '(') this.#hideTarget(at + 2, end);
    }
    for (const [from, to] of brackets.hidden) this.#remove(from, to);
    for (const [from, to] of formulasIn(this.#text, start, end, code)) {
      this.#remove(from, to);
      this.#notes.set(from, '[formula]');
    }
    return Math.max(next, end);
  }

  /** Where code that begins with the backticks at `at` ends; null if that is not on the same line. */
  #endOfInlineCode(at: number, end: number): number | null {
    const lineEnd = Math.min(this.#endOfLine(at), end);
    const runs = /`+/g;
    runs.lastIndex = at;
    const opening = runs.exec(this.#text)?.[0] ?? '';
    for (let run = runs.exec(this.#text); run && run.index < lineEnd; run = runs.exec(this.#text)) {
      if (run[0].length !== opening.length) continue;
      // The cells of a table are separated before code is looked for.
      return this.#text.slice(at, run.index).includes('|') ? null : runs.lastIndex;
    }
    return null;
  }

  /** The end of what Markdown hides from a `<` on; null if it is text. */
  #hiddenByMarkdown(at: number, end: number): number | null {
    const within = (found: number | null): number | null => (found !== null && found <= end ? found : null);
    if (this.#text.startsWith('<!--', at)) {
      const found = within(this.#after('-->', at + 4));
      return found !== null && (this.#earlyEndOfComment(at) ?? found) < found ? this.#text.length : found;
    }
    const closing = /^<(?:(\?)|!(\[CDATA\[)?)/.exec(this.#text.slice(at, at + 9));
    if (closing) {
      const found = within(this.#after(closing[1] ? '?>' : closing[2] ? ']]>' : '>', at + 2));
      // For browsers it ends with the first `>`, and what follows is markup again.
      return found !== null && this.#next('<', at + 1) < found && this.#next('<', at + 1) !== -1
        ? this.#text.length
        : found;
    }
    const found = endOfMarkdownTag(this.#text, at, end);
    return found === -1 ? null : this.#endOfElement(at, found);
  }

  /** What is hidden after `](`, such as `https://example.com?words "title")`. */
  #hideTarget(from: number, end: number): void {
    const destination = /\s*(<[^<>\n]*>|(?:[^\s<()\\]|\\.|\([^\s()]*\))*)/y;
    destination.lastIndex = from;
    const [, address = ''] = destination.exec(this.#text) ?? [];
    const after = Math.min(destination.lastIndex, end);
    const isInBrackets = address.startsWith('<');
    const shown = shownTargetLength(isInBrackets ? address.slice(1, -1) : address);
    this.#remove(after - address.length + shown + Number(isInBrackets), after - Number(isInBrackets));
    const gap = /\s+(?=["'(])/y;
    gap.lastIndex = destination.lastIndex;
    if (!gap.test(this.#text)) return;
    const to = this.#endOfTitle(gap.lastIndex, end);
    if (to !== null) this.#remove(destination.lastIndex, to);
  }

  #endOfTitle(from: number, end: number): number | null {
    const opening = this.#text[from] as string;
    const mark = opening === '(' ? ')' : opening;
    let to = this.#after(mark, from + 1);
    while (to !== null && to <= end && this.#text[to - 2] === '\\') to = this.#after(mark, to);
    return to !== null && to <= end ? to : null;
  }

  /** Definitions such as `[name]: destination "title"`, and footnotes. */
  #removeDefinitions(start: number, end: number): void {
    for (let at = start; at < end; at = this.#endOfLine(at) + 1) {
      definition.lastIndex = at;
      const [label, isFootnote] = definition.exec(this.#text) ?? [];
      if (label === undefined || definition.lastIndex > end) continue;
      const to = isFootnote ? end : this.#endOfDefinition(definition.lastIndex, end);
      if (to === null) continue;
      this.#remove(at, to);
      at = to;
    }
  }

  /** Cells of a table that are in none of its columns. */
  #removeExtraCells(start: number, end: number): void {
    let columns = 0;
    for (let at = start; at < end; at = this.#endOfLine(at) + 1) {
      const line = this.#text.slice(at, Math.min(this.#endOfLine(at), end));
      if (columns === 0)
        columns = /[|:]/.test(line) && tableHead.test(line) ? (line.match(/-+/g)?.length ?? 0) : 0;
      else {
        const cells = [...line.matchAll(/(?<!\\)\|/g)];
        const last = cells[/^[ \t]*\|/.test(line) ? columns : columns - 1];
        if (last) this.#remove(at + last.index + 1, at + line.length);
      }
    }
  }

  /** The end of a definition after its name; null if it is none. */
  #endOfDefinition(from: number, end: number): number | null {
    const destination = /[ \t]*\n?[ \t]*(?:<[^\n]*>[^\n]*|[^\s<]\S*)/y;
    destination.lastIndex = from;
    if (!destination.test(this.#text) || destination.lastIndex > end) return null;
    const after = destination.lastIndex;
    const gap = /[ \t]*\n?[ \t]*(?=["'(])/y;
    gap.lastIndex = after;
    const title = gap.test(this.#text) && gap.lastIndex > after ? this.#endOfTitle(gap.lastIndex, end) : null;
    if (title !== null && this.#isLineEnd(title)) return Math.min(this.#endOfLine(title), end);
    return this.#isLineEnd(after) ? Math.min(this.#endOfLine(after), end) : null;
  }

  #isLineEnd(at: number): boolean {
    return blank.test(this.#text.slice(at, this.#endOfLine(at)));
  }
}

/** It may follow a line that names the encoding. */
function startsWithFrontMatter(text: string): boolean {
  const start = text.trimStart();
  const line = start.slice(0, start.indexOf('\n') + 1);
  return frontMatter.test(line.includes('coding:') ? start.slice(line.length).trimStart() : start);
}

/** Whether something may still be hidden at the end of a text that begins with markup, regardless of where a renderer begins. */
const isOpen = (text: string): boolean =>
  /^.+<(?:[!?]|script|style|template|textarea|pre)/is.test(text) ||
  hidingAttributes.test(text) ||
  text.lastIndexOf('<') > text.lastIndexOf('>') ||
  /=\s*"[^"]*$/.test(text) ||
  /=\s*'[^']*$/.test(text);

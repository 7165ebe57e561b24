import { type Document, isScalar, parseDocument, visit, type YAMLParseError } from 'yaml';

interface SyntaxProblem {
  readonly offset: number;
  readonly message: string;
}

/** How many lines with syntax errors are found at a time. */
const mostBroken = 8;

/**
 * Reads a text as far as it can be read. Each line with a syntax error is left out, so that what is wrong elsewhere is
 * found too. Offsets are those of the text.
 */
export function readSyntax(text: string): {
  readonly document: Document;
  readonly broken: readonly SyntaxProblem[];
} {
  const broken: SyntaxProblem[] = [];
  let source = text;
  for (;;) {
    const document = parseDocument(source, { prettyErrors: false });
    const [error] = document.errors;
    if (!error) return { document, broken };
    const problem = problemOf(error, source, document);
    broken.push(problem);
    const next =
      error.code === 'MULTIPLE_DOCS' ? source.slice(0, problem.offset) : withoutLine(source, problem.offset);
    if (next === source || broken.length === mostBroken) return { document, broken };
    source = next;
  }
}

/** Blanks a line and the lines that belong to it. */
function withoutLine(text: string, offset: number): string {
  const start = text.lastIndexOf('\n', offset - 1) + 1;
  const lineEnd = (from: number): number => {
    const end = text.indexOf('\n', from);
    return end < 0 ? text.length : end;
  };
  const depthAt = (from: number): number => /^[ \t]*/.exec(text.slice(from, lineEnd(from)))?.[0].length ?? 0;
  const depth = depthAt(start);
  let end = lineEnd(start);
  while (end < text.length) {
    const line = text.slice(end + 1, lineEnd(end + 1));
    const belongs = line.trim() === '' || depthAt(end + 1) > depth || /^\s*[\]}]/.test(line);
    if (!belongs) break;
    end = lineEnd(end + 1);
  }
  return text.slice(0, start) + text.slice(start, end).replace(/[^\n]/g, ' ') + text.slice(end);
}

/** In our words, and where the cause is: the parser often finds out only later. */
function problemOf({ code, message, pos }: YAMLParseError, text: string, document: Document): SyntaxProblem {
  const [offset] = pos;
  const at = (message: string, where = offset): SyntaxProblem => ({ offset: where, message });
  if (/^Flow (sequence|map)/.test(message) && /end with/.test(message)) {
    const isList = message.startsWith('Flow sequence');
    const opened = openBracket(text.slice(0, offset), isList ? '[' : '{');
    return at(isList ? 'This list has no closing ].' : 'This object has no closing }.', opened ?? offset);
  }
  if (message.startsWith('Missing closing')) {
    const quote = message.includes("'") ? "'" : '"';
    return at(`This text has no closing ${quote}.`, openQuote(document) ?? offset);
  }
  if (code === 'BLOCK_AS_IMPLICIT_KEY' || code === 'MULTILINE_IMPLICIT_KEY')
    return nestedProblem(code, text, offset);
  if (message.startsWith('Implicit map keys need')) return at(noColon);
  return at(texts[code] ?? tokenText(message, text[offset] ?? ''));
}

const noColon = 'Expected a colon and a space after the field name, as in name: value';

const texts: Partial<Readonly<Record<YAMLParseError['code'], string>>> = {
  DUPLICATE_KEY: 'Duplicate field.',
  TAB_AS_INDENT: 'Indent with spaces, not tabs.',
  MULTIPLE_DOCS: 'Only one document is allowed. Remove the line --- and everything after it.',
  MISSING_CHAR: 'Expected - before an entry of the list, or less indentation.',
  BAD_DQ_ESCAPE:
    'Unknown escape in a text with double quotes. Write \\\\ for a backslash, or use single quotes.',
  BAD_INDENT: 'The indentation does not fit the lines above.',
  BAD_ALIAS: 'This alias (*) has no anchor (&) of its name.',
};

function tokenText(message: string, character: string): string {
  if (message.startsWith('Plain value cannot start'))
    return `A value can’t begin with ${character}. Put it in quotes.`;
  if (message.startsWith('Block scalar header')) return 'Nothing may follow | or > in its line.';
  if (/flow-(seq|map)-end/.test(message)) return `This ${character} closes nothing.`;
  return 'This can’t be read here. Check the indentation, quotes and brackets.';
}

/** `a: b: c`, a line without a colon, or a line that is indented too far below a value. */
function nestedProblem(code: string, text: string, offset: number): SyntaxProblem {
  const end = text.indexOf('\n', offset);
  const rest = text.slice(offset, end < 0 ? undefined : end);
  if (code === 'BLOCK_AS_IMPLICIT_KEY' && /:(\s|$)/.test(rest))
    return { offset, message: 'A value can’t contain a colon and a space. Put it in quotes.' };
  const start = text.lastIndexOf('\n', offset - 1) + 1;
  const isAfterKey = /:\s/.test(text.slice(start, offset));
  if (isAfterKey && end >= 0) return { offset: end + 1, message: 'This line is indented too far.' };
  return { offset, message: noColon };
}

/** The last bracket that is not closed. Brackets in texts count, too: this is only for the place of a message. */
function openBracket(text: string, open: '[' | '{'): number | undefined {
  const close = open === '[' ? ']' : '}';
  let closed = 0;
  for (let at = text.length - 1; at >= 0; at--) {
    if (text[at] === close) closed += 1;
    else if (text[at] === open && closed-- === 0) return at;
  }
  return undefined;
}

/** The start of the last text in quotes: it runs to the end. */
function openQuote(document: Document): number | undefined {
  let start: number | undefined;
  visit(document, {
    Scalar: (_, node) => {
      if (isScalar(node) && /^QUOTE/.test(node.type ?? '')) start = node.range?.[0] ?? start;
    },
  });
  return start;
}

import { cutText } from '../cut-text.ts';
import { withoutHiddenMarkup } from './hidden-markup.ts';
import { quoted } from './quoted.ts';

/** More of a text than this is not looked at; GitHub allows this much. Hidden markup is searched for while nothing else runs. */
export const mostTextLength = 64 * 1024;

/**
 * What a person sees of a Markdown text that somebody else wrote: without markup that hosts do not show, and without
 * characters that nobody sees or that change the order of others.
 */
export const visibleText = (markdown: string): string =>
  visibleCharacters(withoutInvisibleEntities(withoutHiddenMarkup(beginningOf(markdown))))
    .replace(/\n{3,}/g, '\n\n')
    .trim();

/** Only whole paragraphs: in the one that is cut, what hides a text may be gone. */
const beginningOf = (markdown: string): string =>
  markdown.length <= mostTextLength
    ? markdown
    : markdown.slice(0, Math.max(0, markdown.lastIndexOf('\n\n', mostTextLength)));

/** The beginning of what a person sees of a text, up to a number of bytes. */
export function cutMarkdown(markdown: string, mostBytes: number): string {
  const whole = visibleText(markdown);
  const { text, truncated } = cutText(whole, mostBytes - cutNote.length - 1);
  return truncated || markdown.length > mostTextLength ? `${text.trimEnd()}\n${cutNote}` : whole;
}

/** Text of somebody else as a quote, up to a number of bytes: the beginning of what a person sees of it. */
export const quoteMarkdown = (markdown: string, mostBytes: number): string =>
  quoteVisible(visibleText(markdown), mostBytes, markdown.length > mostTextLength);

/** The same of a text that has nothing else; `isCut` if it is only a beginning. */
export function quoteVisible(visible: string, mostBytes: number, isCut: boolean): string {
  const whole = quoted(visible);
  const { text, truncated } = cutText(whole, mostBytes - cutLine.length);
  return truncated || isCut ? text.trimEnd() + cutLine : whole;
}

/** The end of a log as a quote, up to a number of bytes. A log is not Markdown: nothing but characters is removed. */
export function quoteLog(log: string, mostBytes: number): string {
  const lines = quoted(visibleCharacters(log.slice(-mostTextLength)).trimEnd()).split('\n');
  let first = lines.length;
  let bytes = cutLine.length;
  while (first > 0) {
    bytes += Buffer.byteLength(lines[first - 1] ?? '') + 1;
    if (bytes > mostBytes) break;
    first -= 1;
  }
  return first === 0 ? lines.join('\n') : [cutLine.trim(), ...lines.slice(first)].join('\n');
}

/** The last lines of a text that is not Markdown, each cut. */
export const lastLines = (text: string, count: number, mostCharacters: number): string[] =>
  visibleCharacters(text.slice(-mostTextLength))
    .trimEnd()
    .split('\n')
    .slice(-count)
    .map((line) => line.slice(0, mostCharacters));

/** A title, a name or a path of somebody else on one line. Hosts show their markup as it is written. */
export function oneLine(text: string, mostCharacters: number): string {
  const characters = [...visibleCharacters(text.slice(0, mostTextLength)).replace(/\s+/g, ' ').trim()];
  if (characters.length <= mostCharacters) return characters.join('');
  return `${characters.slice(0, mostCharacters - 1).join('')}…`;
}

/** Names and addresses of a host within one line of text: none of them can begin another one. */
export const line = (parts: TemplateStringsArray, ...values: readonly (string | number)[]): string =>
  String.raw({ raw: parts }, ...values.map((value) => oneLine(String(value), mostInLine)));

/** Enough for an address. */
const mostInLine = 2_000;
const cutNote = '[cut]';
const cutLine = `\n> ${cutNote}`;

/** Colours and other sequences for terminals: CSI, then OSC and its like, then those of two characters. */
const terminalSequences =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  /(?:\u001b\[|\u009b)[0-?]*[ -/]*[@-~]|\u001b[\]PX^_][^\u0007\u001b]*(?:\u0007|\u001b\\)|\u001b[ -/]*[0-~]/g;
const lineBreaks = /\r\n|[\r\v\f\u0085\u2028\u2029]/g;
/** Those that Unicode tells programs not to show (zero-width, bidirectional, tags, fillers), and two others. */
const invisible = /[\p{Default_Ignorable_Code_Point}\ufff9-\ufffb\u2800]/gu;
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const controls = /[\u0000-\u0008\u000e-\u001f\u007f-\u009f]/g;
const spaces = /[\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]/g;

const visibleCharacters = (text: string): string =>
  text
    .toWellFormed()
    .replace(terminalSequences, '')
    .replace(lineBreaks, '\n')
    .replace(invisible, '')
    .replace(controls, '')
    .replace(spaces, ' ');

const invisibleNames = [
  ...['shy', 'zwj', 'zwnj', 'lrm', 'rlm', 'ZeroWidthSpace', 'NoBreak', 'ic', 'InvisibleComma', 'it', 'af'],
  ...['InvisibleTimes', 'ApplyFunction', 'NegativeVeryThinSpace', 'NegativeThinSpace', 'NegativeMediumSpace'],
  'NegativeThickSpace',
];
const entities = new RegExp(
  `&(?:#(?:[xX]0*([0-9a-fA-F]{1,6})|0*([0-9]{1,7}));?|(?:${invisibleNames.join('|')});)`,
  'g',
);

/** Removes the entities of invisible characters. All others stay as they are written. */
const withoutInvisibleEntities = (text: string): string =>
  text.replace(entities, (entity, hexadecimal?: string, decimal?: string) => {
    if (hexadecimal === undefined && decimal === undefined) return '';
    const code = hexadecimal === undefined ? Number(decimal) : Number.parseInt(hexadecimal, 16);
    if (code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) return '';
    return visibleCharacters(String.fromCodePoint(code)) === '' ? '' : entity;
  });

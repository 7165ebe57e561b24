const escapes = new RegExp(
  [
    // Colours and moves of the cursor.
    '(?:\\u001b\\[|\\u009b)[0-9;:?<=>]*[ -/]*[@-~]',
    // Titles, links and the clipboard: to their end, where they have one.
    '(?:\\u001b\\]|\\u009d)[^\\u0007\\u001b\\u009c]*(?:\\u0007|\\u001b\\\\|\\u009c)',
    '\\u001b[()*+][0-9A-Za-z]',
    '\\u001b[ -~]?',
  ].join('|'),
  'g',
);
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for.
const rubbedOut = /[^\n\u0008]\u0008/g;
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for.
const controls = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g;

/**
 * The output of a program as a terminal would have left it: without colours and other commands, and of a line that was
 * written over and over only what came last.
 */
export function terminalText(text: string): string {
  return text
    .replace(escapes, '')
    .replace(/\r+\n/g, '\n')
    .replace(/^.*\r(?=[^\r\n])/gm, '')
    .replace(rubbedOut, '')
    .replace(controls, '');
}

const colours = '\\u001b\\[[0-9;]*m';
const controls = [
  '(?:\\u001b\\[|\\u009b)[0-9;?]*[ -/]*[@-~]',
  // Titles, links and the clipboard: to their end, where they have one.
  '(?:\\u001b\\]|\\u009d)[^\\u0007\\u001b\\u009c]*(?:\\u0007|\\u001b\\\\|\\u009c)',
  '\\u001b[@-_]?',
  '[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f]',
].join('|');
const everything = new RegExp(controls, 'g');
const allButColours = new RegExp(`(${colours})|${controls}`, 'g');

/** An agent prints anything: what would move the cursor or change the terminal is not passed on. */
export const printable = (text: string): string => text.replace(everything, '');

/** The same for a line that we have coloured ourselves. */
export const shownInTerminal = (text: string): string =>
  text.replace(allButColours, (_, colour: string | undefined) => colour ?? '');

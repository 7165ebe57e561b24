import { planStepsIn } from '../contract/plan.ts';
import type { EntryType, TimelineEntry } from '../contract/timeline.ts';

/** What a document says of an entry, whatever its format. */

/** `TOOL_CALL` → `Tool call` */
export const titleOf = (type: EntryType): string =>
  `${type[0]}${type.slice(1).toLowerCase().replaceAll('_', ' ')}`;

/** Behind the title, in one line; empty for most entries. */
export function noteOf({ type, data, runId }: TimelineEntry): string {
  const note = noteIn(type, data, runId);
  return typeof note === 'string' ? plainText(note).replace(/\s+/g, ' ') : '';
}

function noteIn(type: EntryType, data: TimelineEntry['data'], runId: string): unknown {
  if (type === 'RUN_STARTED' || type === 'RUN_ENDED') return runId;
  if (type === 'TASK_CHANGED') return data.status;
  if (type === 'CHILD_SETTLED') return data.reason;
  if (type === 'SETTINGS_CHANGED') return JSON.stringify(data);
  return data.tool ?? data.code;
}

const programTypes: readonly EntryType[] = ['TOOL_CALL', 'TOOL_RESULT', 'SETUP_OUTPUT', 'PUSH'];

/** Written by a program rather than by an agent or a person. */
export const isOfProgram = ({ type }: TimelineEntry): boolean => programTypes.includes(type);

/** What an entry has beside its text: arguments, diffs, commits, the steps of a plan. */
export function detailsOf({ type, text, data }: TimelineEntry): string[] {
  const { input, diff, commits, files } = data;
  const details: string[] = [];
  if (type === 'TOOL_CALL' && typeof input === 'object' && input !== null) {
    const values = Object.values(input);
    if (values.length > 1 || values[0] !== text) details.push(JSON.stringify(input, null, 2));
  }
  if (typeof diff === 'string' && diff !== '') details.push(diff);
  if (type === 'PUSH')
    for (const list of [commits, files]) if (Array.isArray(list)) details.push(list.join('\n'));
  if (type === 'PLAN')
    details.push(
      planStepsIn(data)
        .map((step) => `${step.status}: ${step.text}`)
        .join('\n'),
    );
  return details;
}

export const imageIdsOf = ({ data }: TimelineEntry): string[] =>
  Array.isArray(data.attachmentIds) ? data.attachmentIds.map(String) : [];

const terminalCodes = [
  '\\u001b\\[[0-9;?]*[ -/]*[@-~]',
  // Titles, links and the clipboard, up to their terminator.
  '\\u001b\\][^\\u0007\\u001b]*(?:\\u0007|\\u001b\\\\)',
  '[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f]',
].join('|');
const allTerminalCodes = new RegExp(terminalCodes, 'g');
const directionControls = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** Without codes for terminals; characters that reorder text are written out. */
export const plainText = (text: string): string =>
  text
    .replaceAll('\r\n', '\n')
    .replace(allTerminalCodes, '')
    .replace(
      directionControls,
      (control) => `[U+${control.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')}]`,
    );

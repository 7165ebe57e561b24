import { pathOf } from '../contract/display-text.ts';
import type { TimelineEntry } from '../contract/timeline.ts';
import { detailsOf, imageIdsOf, isOfProgram, noteOf, plainText, titleOf } from './entry-parts.ts';
import type { TranscriptWriter } from './transcript-writer.ts';

export const markdownWriter: TranscriptWriter = {
  start: () => '',
  agentStart: ({ agentId, phaseReason, phaseSince }, isFirst) =>
    `${isFirst ? '' : '\n---\n\n'}# ${pathOf(agentId)}\n\nWorkspace ${agentId.workspace}, owner ${agentId.account}: ${phaseReason} since ${phaseSince}\n`,
  entry: (entry) =>
    `\n${entryMarkdown(
      { ...entry, text: plainText(entry.text) },
      { details: [...detailsOf(entry).map(plainText), ...imageIdsOf(entry).map((id) => `image ${id}`)] },
    )}\n`,
  agentEnd: '',
  end: '',
};

export interface MarkdownLimits {
  readonly shorten?: (text: string) => string;
  readonly details?: readonly string[];
}

/** What programs printed is fenced and what was said is quoted, so that neither can be mistaken for the transcript itself. */
export function entryMarkdown(
  entry: TimelineEntry,
  { shorten = (text) => text, details = [] }: MarkdownLimits = {},
): string {
  const note = noteOf(entry);
  const heading = `**${titleOf(entry.type)}**${note && ` ${shorten(note)}`} · ${entry.sequence} · ${entry.at}`;
  const text = shorten(entry.text.trim());
  const body = isOfProgram(entry) ? fenced(text) : text.replace(/^/gm, '> ');
  return [heading, ...(text === '' ? [] : [body]), ...details.map(fenced)].join('\n\n');
}

function fenced(text: string): string {
  let longest = 2;
  for (const [ticks] of text.matchAll(/`+/g)) longest = Math.max(longest, ticks.length);
  const fence = '`'.repeat(longest + 1);
  return `${fence}\n${text}\n${fence}`;
}

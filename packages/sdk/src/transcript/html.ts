import { pathOf } from '../contract/display-text.ts';
import type { TimelineEntry } from '../contract/timeline.ts';
import { detailsOf, imageIdsOf, isOfProgram, noteOf, plainText, titleOf } from './entry-parts.ts';
import type { Images, TranscriptWriter } from './transcript-writer.ts';

/**
 * One file without scripts that loads nothing: its policy forbids both, also for what a hostile text would add. All texts
 * are escaped, and Markdown stays text.
 */
export const htmlWriter: TranscriptWriter = {
  start: (exportedAt) => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width">
<meta name="referrer" content="no-referrer">
<title>Transcript</title>
<style>${style}</style>
</head>
<body>
<p>Exported ${escaped(exportedAt)}</p>
`,
  agentStart: ({ agentId, phaseReason, phaseSince }) =>
    `<section>
<h1 dir="auto">${escaped(pathOf(agentId))}</h1>
<p>Workspace ${escaped(agentId.workspace)}, owner ${escaped(agentId.account)}: ${escaped(phaseReason)} since ${escaped(phaseSince)}</p>
`,
  entry: entryHtml,
  agentEnd: '</section>\n',
  end: '</body>\n</html>\n',
};

async function entryHtml(entry: TimelineEntry, _isFirst: boolean, images: Images): Promise<string> {
  const { type, sequence, at } = entry;
  const note = noteOf(entry);
  const text = entry.text.trim();
  const head = `<b>${escaped(titleOf(type))}</b>${note && ` <code dir="auto">${escaped(note)}</code>`} <small>${escaped(sequence)} · <time>${escaped(at)}</time></small>`;
  const parts = [...(text === '' ? [] : [text]), ...detailsOf(entry)].map(
    (part) => `<pre dir="auto">${escaped(part)}</pre>`,
  );
  for (const id of imageIdsOf(entry)) {
    const url = await images(id);
    parts.push(url === null ? '<p>An image that was deleted</p>' : `<img alt="Image" src="${url}">`);
  }
  const body = parts.join('\n');
  if (isOfProgram(entry) && body !== '')
    return `<details class="${escaped(type)}"><summary>${head} ${firstLineOf(text)}</summary>\n${body}\n</details>\n`;
  return `<article class="${escaped(type)}"><p>${head}</p>\n${body}\n</article>\n`;
}

const summaryLength = 120;

const firstLineOf = (text: string): string =>
  `<code dir="auto">${escaped((text.split('\n', 1)[0] ?? '').slice(0, summaryLength))}</code>`;

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

const escaped = (text: string): string =>
  plainText(text).replace(/[&<>"']/g, (character) => entities[character] ?? '');

const style = `
:root{color-scheme:light dark;font:15px/1.5 system-ui,sans-serif}
body{max-width:60rem;margin:2rem auto;padding:0 1rem}
article,details{margin:.4rem 0;padding:.2rem .8rem;border-left:3px solid #8886;content-visibility:auto;contain-intrinsic-size:auto 4rem}
article>p{margin:0}
pre{margin:.3rem 0;white-space:pre-wrap;overflow-wrap:anywhere;font:inherit}
details pre{font:13px/1.45 ui-monospace,monospace}
summary{cursor:pointer;overflow-wrap:anywhere}
small{opacity:.7}
img{max-width:100%;max-height:30rem}
.AGENT_SPAWNED,.FOLLOW_UP_QUEUED{border-color:#36c}
.QUESTION,.WARNING{border-color:#c80}
.ERROR{border-color:#c33}
`;

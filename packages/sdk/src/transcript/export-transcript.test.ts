import { expect, test } from 'vitest';
import { NotFoundError } from '../client/index.ts';
import type { AgentStatus } from '../contract/agent.ts';
import type { AgentId } from '../contract/identity.ts';
import type { EntryType, TimelineEntry } from '../contract/timeline.ts';
import {
  type ExportSettings,
  exportTranscript,
  type TranscriptSource,
  transcriptFormats,
} from './export-transcript.ts';

const at = '2026-01-31T09:00:00.000Z';
const entryOf = (sequence: number, type: EntryType, text: string, data = {}): TimelineEntry => ({
  sequence: String(sequence),
  at,
  runId: '1',
  type,
  followUpId: '',
  text,
  data,
});
const agentIdOf = (path: string) =>
  ({ workspace: 'w', account: 'ada', agent: path.split('/') }) as unknown as AgentId;

/** Agents by their path, as a client answers. */
function sourceOf(agents: Readonly<Record<string, Iterable<TimelineEntry>>>): TranscriptSource {
  const pathOf = (agent: unknown) => (typeof agent === 'string' ? agent : (agent as AgentId).agent.join('/'));
  return {
    status: async (agent: unknown) =>
      ({
        agentId: agentIdOf(pathOf(agent)),
        phaseReason: 'FINISHED',
        phaseSince: at,
      }) as unknown as AgentStatus,
    timelineAll: async function* (agent: unknown) {
      yield* agents[pathOf(agent)] ?? [];
    },
    listAll: async function* ({ parent }: { parent?: unknown } = {}) {
      for (const path of Object.keys(agents))
        if (path.startsWith(`${pathOf(parent)}/`)) yield { agentId: agentIdOf(path) };
    },
    attachments: {
      read: async (_: unknown, id: string) => {
        if (id === 'gone') throw new NotFoundError(404, { code: 5, message: 'gone', details: [] });
        return { content: 'aGk=', mediaType: id === 'odd' ? 'text/html' : 'image/png' };
      },
    },
  } as unknown as TranscriptSource;
}

async function documentOf(source: TranscriptSource, settings: ExportSettings): Promise<string> {
  let whole = '';
  for await (const piece of exportTranscript(source, 'a', settings)) whole += piece;
  return whole;
}

const hostile = [
  '</pre></article><script>alert(1)</script><img src=x onerror=alert(2)>',
  '"><svg onload=alert(3)>',
  "' style='background:url(http://evil.example)",
  '<!-- <style>@import "http://evil.example";</style>',
  '```\n# Forged\n````',
  'a\u001b[31mred\u001b[0m \u202egnp.exe',
  'line\r# carriage\u2028# separator',
];
const types: EntryType[] = [
  'MESSAGE',
  'TOOL_CALL',
  'TOOL_RESULT',
  'QUESTION',
  'TASK_CHANGED',
  'ERROR',
  'PUSH',
];
const hostileEntries = hostile.flatMap((text, at) =>
  types.map((type, kind) =>
    entryOf(at * types.length + kind + 1, type, text, {
      tool: text,
      code: text,
      status: text,
      diff: text,
      input: { [text]: text, other: 1 },
      commits: [text],
      files: [text],
      attachmentIds: ['image', 'odd', 'gone'],
    }),
  ),
);

test('HTML has no markup of a text, no script, and loads nothing', async () => {
  const html = await documentOf(sourceOf({ a: hostileEntries }), { format: 'html' });
  const tags = [...html.matchAll(/<\/?([a-zA-Z!][^\s>]*)([^>]*)>/g)];
  const known = [
    '!doctype',
    'html',
    'head',
    'meta',
    'title',
    'style',
    'body',
    'p',
    'section',
    'h1',
    'b',
    'code',
    'small',
    'time',
    'pre',
    'img',
    'article',
    'details',
    'summary',
  ];
  expect([...new Set(tags.map(([, name]) => name))].filter((name) => !known.includes(name ?? ''))).toEqual(
    [],
  );
  for (const [, , attributes] of tags) expect(attributes).not.toMatch(/\son\w+=|url\(|href/i);
  const sources = [...html.matchAll(/src="([^"]*)"/g)].map(([, source]) => source);
  expect(new Set(sources)).toEqual(new Set(['data:image/png;base64,aGk=']));
  expect(html).toContain("default-src 'none'");
  expect(html).toContain('An image that was deleted');
  expect(html).toContain('[U+202E]gnp.exe');
  expect(html).not.toContain('\u001b');
  expect(html).toContain('&lt;script&gt;alert(1)&lt;/script&gt;');
});

test('Markdown keeps every line of a text in its quote or fence', async () => {
  const markdown = await documentOf(sourceOf({ a: hostileEntries }), { format: 'md' });
  let fence = '';
  const outside: string[] = [];
  for (const line of markdown.split(/\n|\r|\u2028/)) {
    const [ticks = ''] = /^`{3,}$/.exec(line) ?? [];
    if (fence === '' && ticks !== '') fence = ticks;
    else if (fence !== '' && ticks === fence) fence = '';
    else if (fence === '') outside.push(line);
  }
  expect(fence).toBe('');
  expect(outside.filter((line) => line.startsWith('#'))).toEqual(['# a']);
  expect(outside.filter((line) => !/^(> |\*\*|# a$|Workspace |$)/.test(line))).toEqual([]);
});

test('JSON is one object with every entry as it is, also of agents below if asked', async () => {
  const child = [entryOf(1, 'MESSAGE', 'from below')];
  const source = sourceOf({ a: hostileEntries, 'a/b': child, 'a/b/c': [] });
  const alone = JSON.parse(await documentOf(source, { format: 'json' }));
  expect(alone.agents).toEqual([{ status: expect.anything(), entries: hostileEntries }]);
  const all = JSON.parse(await documentOf(source, { format: 'json', hasChildren: true }));
  const paths = all.agents.map(({ status }: { status: AgentStatus }) => status.agentId.agent.join('/'));
  expect(paths).toEqual(['a', 'a/b', 'a/b/c']);
  expect(all.agents[1].entries).toEqual(child);
});

test.each(transcriptFormats)('no entry is read before the one before it is written: %s', async (format) => {
  const count = 3_000;
  let live = 0;
  function* entries() {
    for (let n = 1; n <= count; n++) {
      live = n;
      yield entryOf(n, n % 2 ? 'MESSAGE' : 'TOOL_RESULT', `entry ${n}`);
    }
  }
  let longest = 0;
  let written = 0;
  for await (const piece of exportTranscript(sourceOf({ a: entries() }), 'a', { format })) {
    longest = Math.max(longest, piece.length);
    const [, last] = /entry (\d+)/.exec(piece) ?? [];
    // No entry is read before the one before it was written.
    if (last !== undefined) expect(Number(last)).toBe(live);
    if (last !== undefined) written += 1;
  }
  expect(written).toBe(count);
  expect(longest).toBeLessThan(4_000);
});

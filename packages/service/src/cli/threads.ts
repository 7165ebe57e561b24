import { compareThreads, firstLine, type Thread, threadPlace } from '@muster/sdk/contract';
import type { Command } from 'commander';
import { addCommand, type Flags, type Invocation } from './command.ts';
import { usageError } from './errors.ts';
import { messageText, textFileOption } from './input.ts';

export function addThreadCommands(program: Command): void {
  const threads = program
    .command('threads')
    .description("comment on an agent's changes, and read its answers");
  addCommand(threads, 'ls <agent>', 'list the review threads', list, { isDefault: true }).option(
    '--open',
    'only open threads',
  );
  addCommand(
    threads,
    'add <agent> <place> [text]',
    'comment on a place such as src/login.ts:12, src/login.ts:12-20 or src/login.ts; the agent gets a message',
    add,
  )
    .option('--repo <url>', 'the repository, if the agent has several')
    .option(...textFileOption);
  addCommand(
    threads,
    'reply <agent> <thread> [text]',
    'reply to a thread: opens it again, and the agent gets a message',
    reply,
  ).option(...textFileOption);
  addCommand(
    threads,
    'resolve <agent> <thread>',
    'resolve a thread',
    (invocation, agent: string, id: string) => settle(invocation, agent, id, true),
  );
  addCommand(
    threads,
    'reopen <agent> <thread>',
    'open a thread again',
    (invocation, agent: string, id: string) => settle(invocation, agent, id, false),
  );
}

async function list(
  { flags, client, output, signal }: Invocation<Flags<never, 'open'>>,
  agent: string,
): Promise<void> {
  const threads: Thread[] = [];
  const filter = flags.open ? { states: ['OPEN'] as const } : {};
  for await (const thread of client().threads(agent, filter, { signal })) threads.push(thread);
  threads.sort(compareThreads);
  await output.table(
    threads,
    [
      { title: 'ID', of: ({ threadId }) => threadId },
      { title: 'STATE', of: ({ state }) => state },
      { title: 'ANSWER', of: ({ answer }) => answer },
      { title: 'PLACE', of: threadPlace },
      { title: 'LAST', of: ({ comments }) => lastText(comments), isFlexible: true },
    ],
    `${agent} has no review threads; add one with muster threads add ${agent} <place> "…"`,
  );
}

function lastText(comments: Thread['comments']): string {
  const last = comments.at(-1);
  return last ? `${last.author}: ${firstLine(last.body)}` : '';
}

/** `src/login.ts:12-20` */
function placeIn(place: string): { path: string; line?: number; startLine?: number } {
  const [, path = '', first, last] = /^(.*?)(?::(\d+)(?:-(\d+))?)?$/.exec(place) ?? [];
  const hasOddLine = first === undefined && path.includes(':');
  if (path === '' || hasOddLine || Number(last ?? first) < Number(first) || Number(first) < 1)
    throw usageError(
      `place "${place}": expected a file, such as src/login.ts, src/login.ts:12 or src/login.ts:12-20`,
    );
  if (first === undefined) return { path };
  return { path, line: Number(last ?? first), startLine: Number(first) };
}

async function add(
  { flags, client, output, signal }: Invocation<Flags<'repo' | 'file'>>,
  agent: string,
  place: string,
  text?: string,
): Promise<void> {
  const body = await messageText(text, flags.file, true, signal);
  const comment = { ...placeIn(place), repo: flags.repo, body };
  const review = await client().createReview(agent, { comments: [comment] }, { signal });
  output.answer(review, ({ threads }) => output.line(threads[0]?.threadId ?? ''));
}

async function reply(
  { flags, client, output, signal }: Invocation<Flags<'file'>>,
  agent: string,
  id: string,
  text?: string,
): Promise<void> {
  const body = await messageText(text, flags.file, true, signal);
  const answer = await client().replyToThread(agent, id, body, { signal });
  output.answer(answer, ({ followUpId }) => output.line(followUpId));
}

async function settle(
  { client, output, signal }: Invocation,
  agent: string,
  id: string,
  resolved: boolean,
): Promise<void> {
  const { thread } = await client().resolveThread(agent, id, resolved, { signal });
  output.answer(thread, ({ state }) => output.line(state));
}

import type { ReplyOf } from '@muster/sdk/contract';
import { invalidField } from '../errors.ts';
import { type agentTool, callRoute, type Tool, type ToolReply } from './tool.ts';

/** The most characters of a diff that a model has to read at a time. */
const partLength = 50_000;

type Define = ReturnType<typeof agentTool<Record<never, never>, never>>;

export const diffTool = (define: Define): Tool =>
  define({
    name: 'diff',
    description:
      'Shows the changes of an agent as a unified diff: what it has pushed, or its working tree. A long diff is shown in parts; the last line of a part says how to get the next one.',
    input: {
      workingTree: {
        type: 'boolean',
        description: 'Shows also uncommitted and unpushed changes. Default false.',
      },
      from: {
        type: 'integer',
        minimum: 0,
        description: 'Where the part starts, as the previous part says. Default 0.',
      },
    },
    run: async ({ workingTree = false, from = 0 }, call) => {
      const reply = await callRoute(call, 'diff', { agentId: call.agentId });
      return diffReply(call.name, reply, workingTree, from);
    },
  });

export function diffReply(
  name: string,
  reply: ReplyOf<'diff'>,
  isWorkingTree: boolean,
  from: number,
): ToolReply {
  const { branch } = reply;
  const { diff = '', diffStat = null } = isWorkingTree ? (reply.workingTree ?? {}) : reply;
  const total = diff.length;
  if (from > total)
    throw invalidField('from', `must be at most ${total}, the length of the diff; got ${from}`);
  const part = partOf(diff, from);
  const next = from + part.length < total ? from + part.length : null;
  const data = { branch, diffStat, workingTree: isWorkingTree, from, next, length: total, diff: part };
  if (diff === '') return { text: noChanges(name, reply, isWorkingTree), data };
  const { files = 0, insertions = 0, deletions = 0 } = diffStat ?? {};
  const lines = [
    `${isWorkingTree ? `The working tree of ${name}` : `${name} on ${branch}`}: ${files} ${files === 1 ? 'file' : 'files'}, +${insertions} -${deletions}`,
    part.replace(/\n$/, ''),
    ...(next === null
      ? []
      : [`(Cut: characters ${from} to ${next} of ${total}. Pass from: ${next} for the next part.)`]),
  ];
  return { text: lines.join('\n'), data };
}

const noChanges = (name: string, { workingTree }: ReplyOf<'diff'>, isWorkingTree: boolean): string => {
  if (isWorkingTree) return `The working tree of ${name} has no changes.`;
  return `${name} has pushed nothing${workingTree?.diff ? '; workingTree: true shows unpushed changes' : ''}.`;
};

/** Whole lines, unless one is longer than a part. */
function partOf(diff: string, from: number): string {
  const part = diff.slice(from, from + partLength);
  if (from + partLength >= diff.length) return part;
  const end = part.lastIndexOf('\n') + 1;
  if (end > 0) return part.slice(0, end);
  // Not within a character of two code units.
  return /[\ud800-\udbff]$/.test(part) ? part.slice(0, -1) : part;
}

import {
  ageOf,
  clock,
  firstLine,
  imageTypeOf,
  limits,
  type PendingFollowUp,
  statusText,
} from '@muster/sdk/contract';
import type { Command } from 'commander';
import { addCommand, type Flags, type Invocation } from './command.ts';
import { CommandError, exitCodes, usageError } from './errors.ts';
import {
  addSettingsOptions,
  collect,
  deliveryTime,
  fileBytes,
  messageText,
  type SettingsFlags,
  settingsOf,
  tasksOf,
  textFileOption,
} from './input.ts';
import { newestSequence } from './logs.ts';
import {
  actOnEach,
  addSelectOptions,
  confirmSelection,
  isSelection,
  type SelectedAgent,
  type SelectFlags,
  selectAgents,
} from './several-agents.ts';
import { followOption, onlyOf, waitOrFollow } from './wait.ts';

export function addQueueCommands(program: Command): void {
  addSettingsOptions(addSelectOptions(addCommand(program, 'send', 'send agents a message', send)))
    .argument('[agents...]', 'one or more agents, then the text, unless --file has it')
    .usage('[options] <agents...> [text]')
    .option(...textFileOption)
    .option('--task <subject>', 'a task that comes with the message; may be repeated', collect)
    .option(
      '--image <file>',
      'an image that comes with the message (PNG, JPEG, WebP or GIF); may be repeated',
      collect,
    )
    .option('--id <id>', 'your own message id: sending it again has no further effect')
    .option('--steer', 'add the message to the turn that is running')
    .option('--preempt', 'deliver immediately: clears the queue and interrupts the current turn')
    .option('--replace', 'with --id: replace the undelivered message with this id')
    .option('--at <time>', 'deliver at this time, such as "tomorrow 9:00"')
    .option('--in <duration>', 'deliver after this long, such as 2h')
    .option('--wait', 'wait until the message is answered; sets the exit code')
    .option(...followOption);

  const queue = program
    .command('queue')
    .description("list, order and remove an agent's undelivered messages");
  addCommand(queue, 'list <agent>', 'list the messages', list, { isDefault: true }).alias('ls');
  addCommand(queue, 'show <agent> <id>', 'show a message, with its run and the answer', show);
  addCommand(queue, 'remove <agent> <id>', 'remove an undelivered message', remove);
  addCommand(
    queue,
    'order <agent> <ids...>',
    'change the order: these messages first, the others after them',
    order,
  );
  addCommand(queue, 'clear <agent>', 'discard all queued messages; scheduled messages stay', clear);
}

type SendFlags = SettingsFlags &
  SelectFlags &
  Flags<'file' | 'id' | 'at' | 'in', 'steer' | 'preempt' | 'replace' | 'wait' | 'follow', 'task' | 'image'>;

function imageIn(file: string): Buffer {
  const bytes = fileBytes(file);
  if (!imageTypeOf(bytes)) throw usageError(`${file}: expected a PNG, JPEG, WebP or GIF image`);
  if (bytes.length > limits.attachmentBytes)
    throw usageError(`${file}: expected at most ${limits.attachmentBytes} bytes; got ${bytes.length}`);
  return bytes;
}

/** The last argument is the text, unless the only argument is an agent or the text is in a file. */
function namesAndText(flags: SendFlags, given: readonly string[]): { names: string[]; text?: string } {
  const text = isSelection(flags) || given.length > 1 ? given.at(-1) : undefined;
  if (flags.file !== undefined || text === undefined) return { names: [...given] };
  return { names: given.slice(0, -1), text };
}

async function send(invocation: Invocation<SendFlags>, given: string[]): Promise<void> {
  const { flags, client, output, signal } = invocation;
  const { names, text } = namesAndText(flags, given);
  if (flags.replace && flags.id === undefined)
    throw usageError('--replace needs --id: the id of the message to replace');
  const deliverAt = await deliveryTime(flags);
  const settings = { ...tasksOf(flags.task), ...settingsOf(flags) };
  const images = (flags.image ?? []).map(imageIn);
  const hasSettings = Object.keys(settings).length > 0 || images.length > 0;
  const connected = client();
  const description = await messageText(text, flags.file, !hasSettings, signal);
  if (description === '' && !hasSettings)
    throw usageError(
      `the message is empty: use muster send ${names[0] ?? '<agent>'} "…", --file, or standard input`,
    );
  const agents = await selectAgents(invocation, names);
  const isOne = agents.length === 1 && !isSelection(flags);
  const queue = async ({ ref }: SelectedAgent) => {
    const attachmentIds: string[] = [];
    for (const bytes of images)
      attachmentIds.push((await connected.attachments.upload(ref, bytes, { signal })).attachmentId);
    const message = { description, ...(images.length > 0 && { attachmentIds }), ...settings };
    const { steer, preempt, replace } = flags;
    return connected.queue(
      ref,
      { ...message, followUpId: flags.id, steer, preempt, replace, deliverAt },
      { signal },
    );
  };
  if (flags.follow || flags.wait) {
    const only = onlyOf(agents, flags);
    const followAfter = flags.follow ? await newestSequence(connected, only.ref, signal) : undefined;
    const { followUpId } = await queue(only);
    return waitOrFollow(invocation, { ...only, followAfter, followUpId });
  }
  await confirmSelection(invocation, agents, 'sends the message to');
  await actOnEach(invocation, agents, queue, ({ name }, { followUpId, wakesAt }) => {
    output.line(isOne ? followUpId : `${name} ${followUpId}`);
    if (!deliverAt && wakesAt)
      output.note(
        `${name} continues at ${clock(wakesAt)}, and gets the message after that; muster retry ${name} continues now`,
      );
    if (deliverAt)
      output.note(
        `will be delivered at ${clock(deliverAt)}; cancel it with muster queue remove ${name} ${followUpId}`,
      );
  });
}

async function list({ client, output, signal }: Invocation, agent: string): Promise<void> {
  const followUps: PendingFollowUp[] = [];
  for await (const followUp of client().followUps(agent, { signal })) followUps.push(followUp);
  await output.table(
    followUps,
    [
      { title: 'ID', of: ({ followUpId }) => followUpId },
      {
        title: 'WHEN',
        of: ({ deliverAt, steer }) => (deliverAt ? clock(deliverAt) : steer ? 'this turn' : 'next'),
      },
      { title: 'AGE', of: ({ queuedAt }) => ageOf(queuedAt), isRight: true },
      {
        title: 'MESSAGE',
        of: ({ description, attachmentIds }) =>
          [firstLine(description), ...attachmentIds.map(() => '[image]')].join(' ').trim(),
        isFlexible: true,
      },
    ],
    `no messages are queued for ${agent}`,
  );
  if (followUps.length === 0 || output.format !== 'table') return;
  const status = await client().status(agent, { signal });
  if (status.wakesAt) output.note(`${agent} is ${statusText(status)}`);
}

async function show({ client, output, signal }: Invocation, agent: string, id: string): Promise<void> {
  const followUp = await client().followUp(agent, id, { signal });
  output.answer(followUp, ({ state, description, run, answer }) => {
    output.line(run ? `${state} in run ${run.runId} (${run.outcome || run.state})` : state);
    output.line(`\n${description}`);
    if (answer !== '') output.line(`\n${answer}`);
  });
}

async function remove({ client, output, signal }: Invocation, agent: string, id: string): Promise<void> {
  const reply = await client().removeFollowUp(agent, id, { signal });
  if (!reply.removed)
    throw new CommandError(
      `message ${id} is not in the queue of ${agent}; muster queue ${agent} lists its messages`,
      exitCodes.notFound,
    );
  output.answer(reply, () => output.line(`removed ${id}`));
}

/** The service takes the whole order; people name what they want first. */
async function order({ client, output, signal }: Invocation, agent: string, ids: string[]): Promise<void> {
  const queued: string[] = [];
  for await (const { followUpId, state } of client().followUps(agent, { signal }))
    if (state === 'QUEUED') queued.push(followUpId);
  const rest = queued.filter((id) => !ids.includes(id));
  const reply = await client().orderQueue(agent, [...ids, ...rest], { signal });
  output.answer(reply, ({ followUpIds }) => {
    for (const id of followUpIds) output.line(id);
  });
}

async function clear({ client, output, signal }: Invocation, agent: string): Promise<void> {
  const reply = await client().clearFollowUps(agent, { signal });
  output.answer(reply, ({ cleared }) =>
    output.line(`cleared ${cleared === 1 ? '1 message' : `${cleared} messages`}`),
  );
}

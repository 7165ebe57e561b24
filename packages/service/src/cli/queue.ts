import { ageOf, clock, firstLine, imageTypeOf, limits, type PendingFollowUp } from '@muster/sdk/contract';
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
} from './input.ts';
import { newestSequence } from './logs.ts';
import { waitOrFollow } from './wait.ts';

export function addQueueCommands(program: Command): void {
  addSettingsOptions(addCommand(program, 'send <agent> [text]', 'send an agent a message', send))
    .option('-f, --file <file>', 'read the text from a file; - is standard input')
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
    .option('--follow', 'show the transcript until the agent needs you');

  const queue = program.command('queue').description("list and remove an agent's undelivered messages");
  addCommand(queue, 'list <agent>', 'list the messages', list, { isDefault: true });
  addCommand(queue, 'show <agent> <id>', 'show a message, with its run and the answer', show);
  addCommand(queue, 'remove <agent> <id>', 'remove an undelivered message', remove);
  addCommand(queue, 'clear <agent>', 'discard all queued messages; scheduled messages stay', clear);
}

type SendFlags = SettingsFlags &
  Flags<'file' | 'id' | 'at' | 'in', 'steer' | 'preempt' | 'replace' | 'wait' | 'follow', 'task' | 'image'>;

function imageIn(file: string): Buffer {
  const bytes = fileBytes(file);
  if (!imageTypeOf(bytes)) throw usageError(`${file}: expected a PNG, JPEG, WebP or GIF image`);
  if (bytes.length > limits.attachmentBytes)
    throw usageError(`${file}: expected at most ${limits.attachmentBytes} bytes; got ${bytes.length}`);
  return bytes;
}

async function send(invocation: Invocation<SendFlags>, agent: string, text?: string): Promise<void> {
  const { flags, client, output, signal } = invocation;
  if (flags.replace && flags.id === undefined)
    throw usageError('--replace needs --id: the id of the message to replace');
  const deliverAt = await deliveryTime(flags);
  const settings = { ...tasksOf(flags.task), ...settingsOf(flags) };
  const images = (flags.image ?? []).map(imageIn);
  const hasSettings = Object.keys(settings).length > 0 || images.length > 0;
  const connected = client();
  const description = await messageText(text, flags.file, !hasSettings, signal);
  if (description === '' && !hasSettings)
    throw usageError(`the message is empty: use muster send ${agent} "…", --file, or standard input`);
  const followAfter = flags.follow ? await newestSequence(connected, agent, signal) : undefined;
  const attachmentIds: string[] = [];
  for (const bytes of images)
    attachmentIds.push((await connected.attachments.upload(agent, bytes, { signal })).attachmentId);
  const reply = await connected.queue(
    agent,
    {
      description,
      ...(images.length > 0 && { attachmentIds }),
      ...settings,
      followUpId: flags.id,
      steer: flags.steer,
      preempt: flags.preempt,
      replace: flags.replace,
      deliverAt,
    },
    { signal },
  );
  const { followUpId } = reply;
  if (flags.follow || flags.wait)
    return waitOrFollow(invocation, { ref: agent, name: agent, followAfter, followUpId });
  output.answer(reply, () => {
    output.line(followUpId);
    if (deliverAt)
      output.note(
        `will be delivered at ${clock(deliverAt)}; cancel it with muster queue remove ${agent} ${followUpId}`,
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

async function clear({ client, output, signal }: Invocation, agent: string): Promise<void> {
  const reply = await client().clearFollowUps(agent, { signal });
  output.answer(reply, ({ cleared }) => output.line(`cleared ${cleared}`));
}

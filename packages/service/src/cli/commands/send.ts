import { clock } from '@muster/sdk/contract';
import { type AttendFlags, attend } from '../attend.ts';
import { CommandError, exitCodes } from '../exit-codes.ts';
import type { Invocation } from '../invocation.ts';
import { newestSequence } from '../newest.ts';
import { messageText, type SettingsFlags, settingsOf, tasksOf } from '../settings.ts';
import { deliveryTime } from '../times.ts';

interface Flags extends SettingsFlags, AttendFlags {
  readonly file?: string;
  readonly task?: readonly string[];
  readonly id?: string;
  readonly preempt?: boolean;
  readonly replace?: boolean;
  readonly at?: string;
  readonly in?: string;
}

export async function run({
  args,
  flags,
  client: connect,
  output,
  signal,
}: Invocation<Flags>): Promise<void> {
  const [agent = '', text] = args as [string, string | undefined];
  if (flags.replace && flags.id === undefined)
    throw new CommandError('--replace needs --id: the id of the message to replace', exitCodes.usage);
  const deliverAt = await deliveryTime(flags);
  const client = connect();
  const more = { ...tasksOf(flags.task), ...settingsOf(flags) };
  const hasMore = Object.keys(more).length > 0;
  const description = await messageText(text, flags.file, !hasMore, signal);
  if (description === '' && !hasMore)
    throw new CommandError(`say something: muster send ${agent} "…", --file, or pipe it in`, exitCodes.usage);
  const followAfter = flags.follow ? await newestSequence(client, agent, signal) : undefined;
  const reply = await client.queue(
    agent,
    {
      description,
      ...more,
      ...(flags.id !== undefined && { followUpId: flags.id }),
      ...(flags.preempt && { preempt: true }),
      ...(flags.replace && { replace: true }),
      ...(deliverAt !== undefined && { deliverAt }),
    },
    { signal },
  );
  if (flags.follow || flags.wait) {
    const { followUpId } = reply;
    await attend(client, { ref: agent, name: agent, followAfter, followUpId }, output, signal);
    return;
  }
  output.answer(reply, ({ followUpId }) => {
    output.line(followUpId);
    if (deliverAt)
      output.note(`comes at ${clock(deliverAt)}; muster queue remove ${agent} ${followUpId} takes it back`);
  });
}

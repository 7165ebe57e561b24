import { agentIdOf } from '@muster/sdk';
import { pathOf } from '@muster/sdk/contract';
import { type AttendFlags, attend } from '../attend.ts';
import { CommandError, exitCodes } from '../exit-codes.ts';
import type { Invocation } from '../invocation.ts';
import { labelsOf, messageText, type SettingsFlags, settingsOf, tasksOf } from '../settings.ts';

interface Flags extends SettingsFlags, AttendFlags {
  readonly file?: string;
  readonly name?: string;
  readonly workspace?: string;
  readonly expect?: string;
  readonly task?: readonly string[];
  readonly label?: readonly string[];
}

export async function run({
  args,
  flags,
  client: connect,
  output,
  signal,
}: Invocation<Flags>): Promise<void> {
  const [text] = args as [string | undefined];
  const client = connect();
  const description = await messageText(text, flags.file, !flags.task, signal);
  if (description === '' && !flags.task)
    throw new CommandError(
      'say what the agent is to do: muster spawn "…", --file, or pipe it in',
      exitCodes.usage,
    );
  const spawned = await client.spawn(
    {
      path: {
        ...(flags.name !== undefined && agentIdOf(flags.name)),
        ...(flags.workspace !== undefined && { workspace: flags.workspace }),
      },
      description,
      ...(flags.expect !== undefined && { expectedOutput: flags.expect }),
      ...tasksOf(flags.task),
      ...labelsOf(flags.label),
      ...settingsOf(flags),
    },
    { signal },
  );
  const { agentId, dashboardUrl } = spawned;
  const name = pathOf(agentId);
  if (flags.follow) output.note(`${name} in ${agentId.workspace} (Ctrl-C leaves it at work)`);
  if (flags.follow || flags.wait) {
    const followAfter = flags.follow ? '0' : undefined;
    await attend(client, { ref: agentId, name, followAfter }, output, signal);
    return;
  }
  output.answer(spawned, () => {
    output.line(name);
    output.note(`muster logs -f ${name} shows it work; ${dashboardUrl}`);
  });
}

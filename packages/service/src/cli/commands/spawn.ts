import { agentIdOf } from '@muster/sdk';
import { exitCodeFor } from '../attention.ts';
import { CommandError, exitCodes } from '../exit-codes.ts';
import { follow } from '../follow.ts';
import type { Invocation } from '../invocation.ts';
import { messageText, type SettingsFlags, settingsOf, tasksOf } from '../settings.ts';
import { statusLine } from '../status-text.ts';
import { pathOf } from '../words.ts';

interface Flags extends SettingsFlags {
  readonly file?: string;
  readonly name?: string;
  readonly workspace?: string;
  readonly expect?: string;
  readonly task?: readonly string[];
  readonly wait?: boolean;
  readonly follow?: boolean;
}

export async function run({
  args,
  flags,
  client: connect,
  output,
  signal,
}: Invocation<Flags>): Promise<void> {
  const [text] = args as [string | undefined];
  const description = messageText(text, flags.file).trim();
  if (description === '' && !flags.task)
    throw new CommandError(
      'say what the agent is to do: muster spawn "…", --file, or pipe it in',
      exitCodes.usage,
    );
  const client = connect();
  const spawned = await client.spawn(
    {
      path: {
        ...(flags.name !== undefined && agentIdOf(flags.name)),
        ...(flags.workspace !== undefined && { workspace: flags.workspace }),
      },
      description,
      ...(flags.expect !== undefined && { expectedOutput: flags.expect }),
      ...tasksOf(flags.task),
      ...settingsOf(flags),
    },
    { signal },
  );
  const { agentId } = spawned;
  if (!flags.wait && !flags.follow) {
    output.answer(spawned, () => {
      output.line(pathOf(agentId));
      output.note(`muster logs -f ${pathOf(agentId)} shows it work; ${spawned.dashboardUrl}`);
    });
    return;
  }
  if (flags.follow) output.note(`${pathOf(agentId)} in ${agentId.workspace} (Ctrl-C leaves it at work)`);
  const status = flags.follow
    ? await follow(client, agentId, '0', output, signal)
    : await client.wait(agentId, { signal });
  if (flags.follow) output.note(statusLine(status, output));
  else output.answer(status, () => output.line(statusLine(status, output)));
  process.exitCode = exitCodeFor(status);
}

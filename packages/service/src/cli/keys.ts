import type { ListedKey } from '@muster/sdk';
import { clock, providerName } from '@muster/sdk/contract';
import type { Command } from 'commander';
import { addCommand, type Flags, type Invocation } from './command.ts';
import { CommandError } from './errors.ts';
import { isConfirmed, justificationOption, yesOption } from './input.ts';

/** Commands about keys of people: tokens, command lines and sign-ins. */
export function addKeyCommands(program: Command): void {
  const keys = program.command('keys').description('list and revoke keys');
  addCommand(keys, 'ls', 'list the keys of your account', list).option(
    '--account <account>',
    "that of another account, or '*' for all (admins)",
  );
  addCommand(keys, 'revoke', 'end keys within 5 seconds; a token is deleted from the catalog', revoke)
    .argument('<key-id...>')
    .option(...justificationOption)
    .option(...yesOption);
}

async function list({ client, output, signal, flags }: Invocation<Flags<'account'>>): Promise<void> {
  const { account } = flags;
  const keys: ListedKey[] = [];
  for await (const key of client().keys({ account }, { signal })) keys.push(key);
  await output.table(
    keys,
    [
      { title: 'KEY', of: ({ keyId }) => keyId },
      { title: 'KIND', of: ({ kind, isCurrent }) => (isCurrent ? `${kind} (this one)` : kind) },
      { title: 'ACCOUNT', of: ({ ownerProvider, account }) => `${providerName(ownerProvider)}/${account}` },
      { title: 'ROLE', of: ({ role }) => role },
      { title: 'NAME', of: ({ name, client: program }) => name || program, isFlexible: true },
      { title: 'LAST USED', of: ({ lastUsedAt }) => timeText(lastUsedAt) },
      { title: 'EXPIRES', of: ({ expiresAt }) => timeText(expiresAt) },
    ],
    'no keys',
  );
}

const timeText = (time: string | null): string => (time === null ? '–' : clock(time));

async function revoke(
  { client, output, signal, flags }: Invocation<Flags<'justification', 'yes'>>,
  keyIds: readonly string[],
): Promise<void> {
  if (!flags.yes) {
    output.note(
      `This ends ${keyIds.length === 1 ? `the key ${keyIds[0]}` : `the keys ${keyIds.join(', ')}`}.`,
    );
    if (!(await isConfirmed(signal))) throw new CommandError('nothing was revoked');
  }
  const { justification } = flags;
  for (const keyId of keyIds) await client().revokeKey(keyId, { justification, signal });
  output.answer({ revoked: keyIds }, () => output.line(`revoked ${keyIds.join(', ')}`));
}

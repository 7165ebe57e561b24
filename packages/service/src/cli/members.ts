import type { Member } from '@muster/sdk';
import { memberRoles, providerName, usd } from '@muster/sdk/contract';
import { Argument, type Command } from 'commander';
import { addCommand, type Flags, type Invocation } from './command.ts';
import { CommandError, usageError } from './errors.ts';
import { isConfirmed, justificationOption, yesOption } from './input.ts';

type UpdateFlags = Flags<'justification', 'yes'>;
type Change = Pick<Parameters<ReturnType<Invocation['client']>['updateMember']>[0], 'disabled' | 'role'>;

export function addMemberCommands(program: Command): void {
  const members = program.command('members').description('the accounts of the tenant, for admins');
  addCommand(
    members,
    'ls',
    'list accounts, with their roles, keys, sessions, live agents and spend',
    list,
  ).argument('[text]', 'only those with this text in their name');
  const account = ['<account>', 'its name, or provider_name/name'] as const;
  const disableText = 'end the sessions of an account and stop its keys; its agents stay as they are';
  addCommand(members, 'disable', disableText, disable)
    .argument(...account)
    .option(...yesOption)
    .option(...justificationOption);
  addCommand(members, 'enable', 'let the keys of an account work again', enable)
    .argument(...account)
    .option(...justificationOption);
  addCommand(members, 'role', 'set the role of an account, until it is cleared', setRole)
    .argument(...account)
    .addArgument(new Argument('<role>').choices([...memberRoles, 'clear']))
    .option(...justificationOption);
}

async function list({ client, output, signal }: Invocation, text = ''): Promise<void> {
  const members: Member[] = [];
  for await (const member of client().members({ text }, { signal })) members.push(member);
  await output.table(
    members,
    [
      { title: 'ACCOUNT', of: nameOf, isFlexible: true },
      { title: 'NAME', of: ({ displayName }) => displayName, isFlexible: true, isOptional: true },
      { title: 'ROLE', of: roleOf },
      { title: 'SIGN-IN', of: ({ lastSignIn }) => lastSignIn || '–' },
      { title: 'LAST SEEN', of: ({ lastSeenAt }) => lastSeenAt?.slice(0, 16).replace('T', ' ') ?? '–' },
      { title: 'KEYS', of: ({ keys }) => String(keys), isRight: true },
      { title: 'SESSIONS', of: ({ sessions }) => String(sessions), isRight: true },
      { title: 'LIVE', of: ({ liveAgents }) => String(liveAgents), isRight: true },
      { title: 'THIS MONTH', of: ({ spendUsd }) => usd(spendUsd), isRight: true },
    ],
    'No account matches.',
  );
}

const nameOf = ({ ownerProvider, account }: Member): string => `${providerName(ownerProvider)}/${account}`;

const roleOf = ({ role, roleOverride, disabled }: Member): string => {
  if (disabled) return 'disabled';
  return roleOverride === '' ? role || '–' : `${role || roleOverride} (set)`;
};

async function disable(invocation: Invocation<UpdateFlags>, account: string): Promise<void> {
  const { flags, output, signal } = invocation;
  const member = await find(invocation, account);
  const { keys, sessions, liveAgents } = member;
  if (!flags.yes) {
    output.note(
      `This ends ${sessions} sessions of ${nameOf(member)}, and ${keys} keys stop working. ${liveAgents} live agents stay as they are.`,
    );
    if (!(await isConfirmed(signal))) throw new CommandError('nothing was done');
  }
  await update(invocation, member, { disabled: true }, 'is disabled');
}

const enable = async (invocation: Invocation<UpdateFlags>, account: string): Promise<void> =>
  update(invocation, await find(invocation, account), { disabled: false }, 'is enabled');

async function setRole(invocation: Invocation<UpdateFlags>, account: string, role: string): Promise<void> {
  const member = await find(invocation, account);
  if (role === 'clear') return update(invocation, member, { role: '' }, 'has no role that was set');
  return update(invocation, member, { role: role as (typeof memberRoles)[number] }, `has the role ${role}`);
}

async function update(
  { client, output, signal, flags }: Invocation<UpdateFlags>,
  member: Member,
  change: Change,
  result: string,
): Promise<void> {
  const { account, ownerProvider } = member;
  const justification = flags.justification ?? '';
  const reply = await client().updateMember({ account, ownerProvider, ...change, justification }, { signal });
  output.answer(reply, () => output.line(`${nameOf(reply)} ${result}`));
}

/** A name that several providers have is refused: they are different people. */
async function find({ client, signal }: Invocation, name: string): Promise<Member> {
  const found: Member[] = [];
  const text = name.slice(name.indexOf('/') + 1);
  for await (const member of client().members({ text }, { signal }))
    if (member.account === name || nameOf(member) === name) found.push(member);
  const [member, other] = found;
  if (!member) throw new CommandError(`no account "${name}"; muster members ls lists them`);
  if (other) throw usageError(`"${name}" is several accounts: use ${found.map(nameOf).join(' or ')}`);
  return member;
}

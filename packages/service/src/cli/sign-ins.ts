import type { SignInAttempt } from '@muster/sdk';
import { clock, kindTable, providerName } from '@muster/sdk/contract';
import type { Command } from 'commander';
import { get } from './catalog.ts';
import { addCommand, type Invocation } from './command.ts';
import { CommandError } from './errors.ts';
import type { Output, Style } from './output.ts';

export function addSignInCommands(program: Command): void {
  const signIns = program
    .command('sign-in')
    .description(
      'providers that people sign in with: OpenID Connect or GitHub; create them with muster apply',
    );
  addCommand(signIns, 'ls', 'list the providers', list);
  addCommand(signIns, 'show <sign-in>', 'print a provider as a file', (invocation, name: string) =>
    get(invocation, 'sign-in', name),
  );
  addCommand(
    signIns,
    'test <sign-in>',
    'check the provider, the client and the redirect URI, and show who signed in last, with the claims and the rules that matched',
    test,
  );
}

async function list({ client, output, signal }: Invocation): Promise<void> {
  const entries = [];
  for await (const entry of client().catalog.listAll('sign-in', { signal })) entries.push(entry);
  await output.table(
    entries,
    [
      { title: 'SIGN-IN', of: ({ name }) => name },
      { title: 'STATE', of: ({ document }) => (document.paused ? 'paused' : 'active') },
      {
        title: 'PROVIDER',
        of: ({ document }) => kindTable['sign-in'].summary({ ...document, paused: false }),
        isFlexible: true,
      },
      { title: 'REDIRECT URI', of: ({ document }) => String(document.redirectUri ?? '') },
    ],
    'nobody can sign in with a provider; create one with muster apply -f',
  );
}

const shownAttempts = 10;

async function test({ client, output, signal }: Invocation, name: string): Promise<void> {
  const { signIns } = client();
  const asked = Promise.all([signIns.test(name, { signal }), signIns.list(name, {}, { signal })]);
  const [tested, attempts] = await output.progress.during('asking the provider', asked);
  const reply = { ...tested, signIns: attempts };
  output.answer(reply, () => {
    if (tested.redirectUri) output.line(`${output.paint('dim', 'redirect'.padEnd(9))}${tested.redirectUri}`);
    for (const { name: check, ok, advice } of tested.checks) {
      const result = output.paint(ok ? 'green' : 'red', (ok ? 'ok' : 'failed').padEnd(9));
      output.line(`${result}${check}${advice && `: ${advice}`}`);
    }
    for (const attempt of attempts.slice(0, shownAttempts)) describe(output, attempt);
    if (attempts.length === 0) output.line('nobody has signed in with it yet');
  });
  const failed = tested.checks.filter(({ ok }) => !ok).length;
  if (failed > 0) throw new CommandError(`${name}: ${failed} of ${tested.checks.length} checks failed`);
}

const styles = { ACCEPTED: 'green', REFUSED: 'red', FAILED: 'red' } as const satisfies Record<
  SignInAttempt['outcome'],
  Style
>;

function describe(output: Output, attempt: SignInAttempt): void {
  const { at, outcome, ownerProvider, account, displayName, subject, role, rule, reason, claims } = attempt;
  const who = account ? `${providerName(ownerProvider)}/${account}` : '';
  const line = (label: string, text: string) => {
    if (text) output.line(`  ${output.paint('dim', label.padEnd(8))}${text}`);
  };
  output.line('');
  output.line(
    [clock(at), output.paint(styles[outcome], outcome.toLowerCase()), who, displayName]
      .filter(Boolean)
      .join('  '),
  );
  line('role', role);
  line('rule', rule);
  line('reason', reason);
  line('claims', subject && JSON.stringify({ sub: subject, ...claims }));
}

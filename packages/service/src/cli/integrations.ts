import type { Delivery } from '@muster/sdk';
import { clock, deliveryStates } from '@muster/sdk/contract';
import { type Command, Option } from 'commander';
import { addCommand, type Flags, type Invocation } from './command.ts';
import { CommandError, usageError } from './errors.ts';
import type { Style } from './output.ts';

export function addIntegrationCommands(program: Command): void {
  const integrations = program
    .command('integration')
    .description('check integrations with code hosts; create them with muster apply');
  addCommand(
    integrations,
    'test <integration>',
    'check the credential, its permissions and the webhook, and say what to change',
    test,
  );
  addCommand(
    integrations,
    'deliveries <integration>',
    'list the deliveries of the webhook, newest first',
    deliveries,
  )
    .addOption(
      new Option('--state <state>', 'only deliveries in this state').choices(
        deliveryStates.map((state) => state.toLowerCase()),
      ),
    )
    .option('-n, --limit <number>', 'how many', '50');
  addCommand(integrations, 'redeliver <integration> <delivery>', 'process a delivery again', redeliver);
}

async function test({ client, output, signal }: Invocation, name: string): Promise<void> {
  const testing = client().testIntegration(name, { signal });
  const reply = await output.progress.during('asking the code host', testing);
  const missing = reply.checks.filter(({ ok }) => !ok).length;
  output.answer(reply, ({ account, webhookUrl, checks }) => {
    if (account !== '') output.line(`${output.paint('dim', 'account'.padEnd(9))}${account}`);
    if (webhookUrl !== '') output.line(`${output.paint('dim', 'webhook'.padEnd(9))}${webhookUrl}`);
    for (const { name: check, ok, advice } of checks) {
      const result = output.paint(ok ? 'green' : 'red', (ok ? 'ok' : 'missing').padEnd(9));
      output.line(`${result}${check}${advice && `: ${advice}`}`);
    }
  });
  if (missing > 0)
    throw new CommandError(
      `${name}: ${missing} of ${reply.checks.length} checks failed; fix what is missing`,
    );
}

async function deliveries(
  { flags, client, output, signal }: Invocation<Flags<'state' | 'limit'>>,
  name: string,
): Promise<void> {
  const limit = Number(flags.limit);
  if (!Number.isInteger(limit) || limit < 1)
    throw usageError(`--limit ${flags.limit}: expected a number above 0`);
  const state = deliveryStates.find((known) => known.toLowerCase() === flags.state);
  const found: Delivery[] = [];
  for await (const delivery of client().deliveries(name, { states: state && [state] }, { signal })) {
    if (found.push(delivery) >= limit) break;
  }
  await output.table(
    found,
    [
      { title: 'RECEIVED', of: ({ receivedAt }) => clock(receivedAt) },
      { title: 'DELIVERY', of: ({ deliveryId }) => deliveryId },
      { title: 'EVENT', of: ({ event }) => event },
      { title: 'SUBJECT', of: ({ subject }) => subject },
      { title: 'STATE', of: (delivery) => delivery.state.toLowerCase(), style: stateStyle },
      { title: 'ATTEMPTS', of: ({ attempts }) => String(attempts), isRight: true },
      { title: 'REASON', of: ({ reason }) => reason, isFlexible: true },
    ],
    `no deliveries; muster integration test ${name} says whether the webhook is set up`,
  );
}

const stateStyle = ({ state }: Delivery): Style | undefined =>
  (({ RECEIVED: 'yellow', DONE: 'green', IGNORED: 'dim', FAILED: 'red' }) as const)[state];

async function redeliver({ client, output, signal }: Invocation, name: string, id: string): Promise<void> {
  const delivery = await client().redeliver(name, id, { signal });
  output.answer(delivery, () => output.line(`delivery ${id} is processed again`));
}

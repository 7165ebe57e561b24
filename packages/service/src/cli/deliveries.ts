import type { Delivery, MusterClient, ReplyOf, TriggerDelivery } from '@muster/sdk';
import { clock, deliveryStates } from '@muster/sdk/contract';
import { type Command, Option } from 'commander';
import { addCommand, type Flags, type Invocation } from './command.ts';
import { CommandError, usageError } from './errors.ts';
import type { Style } from './output.ts';

/** Who receives deliveries: an integration, or a trigger. */
export interface DeliverySource {
  readonly noun: 'integration' | 'trigger';
  readonly about: Readonly<Record<'test' | 'deliveries' | 'redeliver', string>>;
  /** What is said while the test runs. */
  readonly testing: string;
  readonly test: (
    client: MusterClient,
    name: string,
    signal: AbortSignal,
  ) => Promise<ReplyOf<'testIntegration'>>;
  readonly list: (
    client: MusterClient,
    name: string,
    states: Delivery['state'][] | undefined,
    signal: AbortSignal,
  ) => AsyncIterable<Delivery | TriggerDelivery>;
  readonly redeliver: (
    client: MusterClient,
    name: string,
    id: string,
    signal: AbortSignal,
  ) => Promise<Delivery>;
}

/** The commands `test`, `deliveries` and `redeliver`. */
export function addDeliveryCommands(parent: Command, source: DeliverySource): void {
  const { noun, about } = source;
  addCommand(parent, `test <${noun}>`, about.test, (invocation: Invocation, name: string) =>
    test(invocation, source, name),
  );
  addCommand(
    parent,
    `deliveries <${noun}>`,
    about.deliveries,
    (invocation: Invocation<Flags<'state' | 'limit'>>, name: string) => deliveries(invocation, source, name),
  )
    .addOption(
      new Option('--state <state>', 'only deliveries in this state').choices(
        deliveryStates.map((state) => state.toLowerCase()),
      ),
    )
    .option('-n, --limit <number>', 'how many', '50');
  addCommand(
    parent,
    `redeliver <${noun}> <delivery>`,
    about.redeliver,
    async ({ client, output, signal }: Invocation, name: string, id: string) => {
      const delivery = await source.redeliver(client(), name, id, signal);
      output.answer(delivery, () => output.line(`delivery ${id} is processed again`));
    },
  );
}

async function test(
  { client, output, signal }: Invocation,
  source: DeliverySource,
  name: string,
): Promise<void> {
  const reply = await output.progress.during(source.testing, source.test(client(), name, signal));
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
  { noun, list }: DeliverySource,
  name: string,
): Promise<void> {
  const limit = Number(flags.limit);
  if (!Number.isInteger(limit) || limit < 1)
    throw usageError(`--limit ${flags.limit}: expected a number above 0`);
  const state = deliveryStates.find((known) => known.toLowerCase() === flags.state);
  const found: Delivery[] = [];
  for await (const delivery of list(client(), name, state && [state], signal)) {
    if (found.push(delivery) >= limit) break;
  }
  await output.table(
    found,
    [
      { title: 'RECEIVED', of: ({ receivedAt }) => clock(receivedAt) },
      { title: 'DELIVERY', of: ({ deliveryId }) => deliveryId },
      { title: 'EVENT', of: ({ event }) => event },
      { title: noun === 'trigger' ? 'AGENT' : 'SUBJECT', of: ({ subject }) => subject },
      { title: 'STATE', of: (delivery) => delivery.state.toLowerCase(), style: stateStyle },
      { title: 'ATTEMPTS', of: ({ attempts }) => String(attempts), isRight: true },
      { title: 'REASON', of: ({ reason }) => reason, isFlexible: true },
    ],
    `no deliveries; muster ${noun} test ${name} says whether it is set up`,
  );
}

const stateStyle = ({ state }: Delivery): Style | undefined =>
  (({ RECEIVED: 'yellow', DONE: 'green', IGNORED: 'dim', FAILED: 'red' }) as const)[state];

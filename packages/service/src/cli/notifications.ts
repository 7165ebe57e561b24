import type { NotificationDelivery } from '@muster/sdk/contract';
import { clock, notificationStates, pathOf } from '@muster/sdk/contract';
import { type Command, Option } from 'commander';
import { get } from './catalog.ts';
import { addCommand, type Flags, type Invocation } from './command.ts';
import { CommandError, usageError } from './errors.ts';
import type { Style } from './output.ts';
import { addPauseCommands } from './pausing.ts';

export function addNotificationCommands(program: Command): void {
  const notifications = program
    .command('notification')
    .description('notify people by webhook, Slack or email; create notifications with muster apply');
  addCommand(notifications, 'ls', 'list notifications', (invocation) => get(invocation, 'notification'));
  addCommand(notifications, 'show <notification>', 'print a notification', (invocation, name: string) =>
    get(invocation, 'notification', name),
  );
  addCommand(notifications, 'test <notification>', 'send a test message, and say whether it arrived', test);
  addCommand(notifications, 'deliveries <notification>', 'list what was sent, newest first', deliveries)
    .addOption(
      new Option('--state <state>', 'only deliveries in this state').choices(
        notificationStates.map((state) => state.toLowerCase()),
      ),
    )
    .option('-n, --limit <number>', 'how many', '50');
  addCommand(notifications, 'redeliver <notification> <delivery>', 'send a message again', redeliver);
  addPauseCommands(notifications, { kind: 'notification', pause: 'send nothing more', resume: 'send again' });
}

async function test({ client, output, signal }: Invocation, name: string): Promise<void> {
  const testing = client().notifications.test(name, { signal });
  const delivery = await output.progress.during('sending a test message', testing);
  output.answer(delivery, () =>
    output.line(delivery.state === 'SENT' ? `${name}: the test message was sent` : ''),
  );
  if (delivery.state !== 'SENT')
    throw new CommandError(`${name}: ${delivery.error || delivery.state.toLowerCase()}`);
}

async function deliveries(
  { flags, client, output, signal }: Invocation<Flags<'state' | 'limit'>>,
  name: string,
): Promise<void> {
  const limit = Number(flags.limit);
  if (!Number.isInteger(limit) || limit < 1)
    throw usageError(`--limit ${flags.limit}: expected a number above 0`);
  const state = notificationStates.find((known) => known.toLowerCase() === flags.state);
  const found: NotificationDelivery[] = [];
  for await (const one of client().notifications.deliveries(name, { states: state && [state] }, { signal })) {
    if (found.push(one) >= limit) break;
  }
  await output.table(
    found,
    [
      { title: 'AT', of: ({ at }) => clock(at) },
      { title: 'DELIVERY', of: ({ deliveryId }) => deliveryId },
      { title: 'EVENT', of: ({ type }) => type },
      {
        title: 'ABOUT',
        of: ({ agentId, name: about }) => about || (agentId ? pathOf(agentId) : ''),
        isFlexible: true,
      },
      { title: 'STATE', of: (delivery) => delivery.state.toLowerCase(), style: stateStyle },
      { title: 'ATTEMPTS', of: ({ attempts }) => String(attempts), isRight: true },
      { title: 'REASON', of: ({ error }) => error, isFlexible: true },
    ],
    `nothing was sent yet; muster notification test ${name} sends a test message`,
  );
}

const stateStyle = ({ state }: NotificationDelivery): Style | undefined =>
  (({ QUEUED: 'yellow', SENDING: 'yellow', SENT: 'green', FAILED: 'red', DROPPED: 'dim' }) as const)[state];

async function redeliver({ client, output, signal }: Invocation, name: string, id: string): Promise<void> {
  const delivery = await client().notifications.redeliver(name, id, { signal });
  output.answer(delivery, () => output.line(`delivery ${id} is sent again`));
}

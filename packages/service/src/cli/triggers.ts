import { kindTable } from '@muster/sdk/contract';
import type { Command } from 'commander';
import { get } from './catalog.ts';
import { addCommand, type Invocation } from './command.ts';
import { addDeliveryCommands } from './deliveries.ts';
import { addPauseCommands } from './pausing.ts';

export function addTriggerCommands(program: Command): void {
  const triggers = program
    .command('trigger')
    .description(
      'requests of other systems that spawn agents or are messages to one; create triggers with muster apply',
    );
  addCommand(triggers, 'ls', 'list the triggers', list);
  addCommand(
    triggers,
    'show <trigger>',
    'print a trigger as a file, with its URL',
    (invocation, name: string) => get(invocation, 'trigger', name),
  );
  addDeliveryCommands(triggers, {
    noun: 'trigger',
    about: {
      test: 'check its account, its secret, and the agent or what a new one needs',
      deliveries: 'list the requests that it received, newest first, and what became of each',
      redeliver: 'process a request again; one that took effect has no further one',
    },
    testing: 'checking the trigger',
    test: (client, name, signal) => client.triggers.test(name, { signal }),
    list: (client, name, states, signal) => client.triggers.deliveries(name, { states }, { signal }),
    redeliver: (client, name, id, signal) => client.triggers.redeliver(name, id, { signal }),
  });
  addPauseCommands(triggers, {
    kind: 'trigger',
    pause: 'ignore its requests',
    resume: 'take its requests again',
  });
}

async function list({ client, output, signal }: Invocation): Promise<void> {
  const entries = [];
  for await (const entry of client().catalog.listAll('trigger', { signal })) entries.push(entry);
  await output.table(
    entries,
    [
      { title: 'TRIGGER', of: ({ name }) => name },
      {
        title: 'STATE',
        of: ({ document }) => (document.paused || document.pausedReason ? 'paused' : 'active'),
      },
      {
        title: 'DOES',
        of: ({ document }) => kindTable.trigger.summary({ ...document, paused: false, pausedReason: '' }),
        isFlexible: true,
      },
      { title: 'URL', of: ({ document }) => String(document.url ?? '') },
    ],
    'no triggers; create one with muster apply -f',
  );
}

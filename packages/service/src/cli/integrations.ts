import type { Command } from 'commander';
import { addDeliveryCommands } from './deliveries.ts';

export function addIntegrationCommands(program: Command): void {
  const integrations = program
    .command('integration')
    .description('check integrations with code hosts; create them with muster apply');
  addDeliveryCommands(integrations, {
    noun: 'integration',
    about: {
      test: 'check the credential, its permissions and the webhook, and say what to change',
      deliveries: 'list the deliveries of the webhook, newest first',
      redeliver: 'process a delivery again',
    },
    testing: 'asking the code host',
    test: (client, name, signal) => client.testIntegration(name, { signal }),
    list: (client, name, states, signal) => client.deliveries(name, { states }, { signal }),
    redeliver: (client, name, id, signal) => client.redeliver(name, id, { signal }),
  });
}

import type { NotificationDelivery } from '@muster/sdk/contract';
import { type Api, apiOf } from '../support/api.ts';
import { until } from '../support/async.ts';
import { uniqueName, writeResource } from '../support/catalog.ts';
import { type Server, startServer } from '../support/server.ts';
import { Receiver } from './receiver.ts';

export interface NotifyOptions {
  readonly env?: Record<string, string>;
  readonly runner?: boolean;
}

/** A service, and an endpoint that it may call. */
export async function startNotifying({ env = {}, runner = true }: NotifyOptions = {}): Promise<{
  readonly server: Server;
  readonly api: Api;
  readonly receiver: Receiver;
  close(): Promise<void>;
}> {
  const receiver = await Receiver.start();
  const server = await startServer({
    runner,
    env: {
      MUSTER_ALLOW_INNER_HOSTS: new URL(receiver.url).host,
      MUSTER_NOTIFICATION_SETTLE_SECONDS: '0',
      MUSTER_SANDBOX: 'off',
      ...env,
    },
  });
  return {
    ...{ server, receiver, api: apiOf(server) },
    close: async () => {
      await server.close();
      await receiver.close();
    },
  };
}

export const writeNotification = (
  api: Api,
  name: string,
  fields: Record<string, unknown>,
): Promise<Record<string, unknown>> => writeResource(api, 'notification', name, fields);

/** Spawns an agent of the rehearsal that does this. */
export async function spawn(
  api: Api,
  description: string,
  workspace = 'default',
): Promise<{ agent: string[] }> {
  const agentId = { agent: [uniqueName('agent')], workspace };
  const { status, body } = await api.post('/v1/agent/spawn', { agentId, description, model: 'rehearsal-a' });
  if (status !== 200) throw new Error(`spawn: ${status} ${JSON.stringify(body)}`);
  return agentId;
}

export async function deliveriesOf(api: Api, name: string): Promise<NotificationDelivery[]> {
  const { status, body } = await api.post<{ entries: NotificationDelivery[] }>(
    '/v1/notification/deliveries',
    { name },
  );
  if (status !== 200) throw new Error(`deliveries: ${status} ${JSON.stringify(body)}`);
  return body.entries;
}

export const untilDeliveries = (
  api: Api,
  name: string,
  holds: (all: readonly NotificationDelivery[]) => boolean,
): Promise<NotificationDelivery[]> => until(`deliveries of ${name}`, () => deliveriesOf(api, name), holds);

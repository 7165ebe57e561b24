import { MusterClient } from '@muster/sdk';
import { type Service, startService } from '../../bench/tools.ts';
import { runConcurrently, until } from '../../support/async.ts';

export const fleetSize = 200;
/** Longer than every measurement. */
const seconds = 600;
const startMs = 120_000;

export interface FleetAtWork {
  readonly service: Service;
  readonly client: MusterClient;
}

/** A service with 200 rehearsed agents that write a message each second. */
export async function startFleetAtWork(): Promise<FleetAtWork> {
  // The fake runner of the tests does not poll.
  const service = await startService({ MUSTER_LEASE_SECONDS: '3600' });
  const client = new MusterClient({ url: service.url, apiKey: service.key });
  try {
    await setToWork(client);
  } catch (error) {
    await service.close();
    throw error;
  }
  return { service, client };
}

async function setToWork(client: MusterClient): Promise<void> {
  const spawn = (path: string, description: string) =>
    client.spawn({ path, description, model: 'rehearsal-a' });
  await spawn('template', '!say hello');
  await client.wait('template');
  const ticking = Array.from({ length: seconds }, (_, second) => `!say ${second}\n!sleep 1`).join('\n');
  await runConcurrently(fleetSize, 8, (index) => spawn(`ticker-${index}`, ticking));
  await until(
    'all of them at work',
    async () => (await client.list({ phases: ['PHASE_RUNNING'] })).entries,
    (entries) => entries.filter(({ phaseReason }) => phaseReason === 'WORKING').length === fleetSize,
    startMs,
  );
}

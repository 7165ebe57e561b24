import { readFileSync } from 'node:fs';
import { gate, say } from './report.ts';
import { post, queriesOf, type Service, seedAgents, spawnTemplate, startService } from './tools.ts';

const polls = 6;

/** Measured from one poll of the runner to a later one, because each poll causes several queries. */
async function queriesPerSecond(service: Service): Promise<number> {
  const nextPoll = async () => {
    for (let before = await queriesOf(service); ; ) {
      await new Promise((resolve) => setTimeout(resolve, 100));
      const count = await queriesOf(service);
      if (count - before >= 4) return { count, second: performance.now() / 1000 };
      before = count;
    }
  };
  const first = await nextPoll();
  let last = first;
  for (let i = 0; i < polls; i += 1) last = await nextPoll();
  return (last.count - first.count) / (last.second - first.second);
}

export async function idle(): Promise<void> {
  const service = await startService();
  await spawnTemplate(service, 'rehearsal-a');
  await post(service, '/v1/agent/wait', { agentId: { agent: ['template'] } });
  const none = await queriesPerSecond(service);
  await seedAgents(service, 'idle-', 200_000, 10_000);
  const many = await queriesPerSecond(service);
  await service.close();
  say(`      queries per second, idle: ${none.toFixed(2)} with no agents, ${many.toFixed(2)} with 10,000`);
  gate(
    'idle queries, none against 10,000 agents (within 5 %)',
    Math.min(none, many) / Math.max(none, many),
    0.95,
  );
  gate('idle queries, 2/s against ours', 2 / Math.max(none, many), 1);
}

export async function memory(): Promise<void> {
  const service = await startService();
  await spawnTemplate(service, 'rehearsal-a');
  await post(service, '/v1/agent/wait', { agentId: { agent: ['template'] } });
  await seedAgents(service, 'idle-', 200_000, 10_000);
  await post(service, '/v1/agents', { pageSize: 100 });
  const rollup = readFileSync(`/proc/${service.pid}/smaps_rollup`, 'utf8');
  const megabytes = Number(/^Pss:\s+(\d+)/m.exec(rollup)?.[1]) / 1024;
  await service.close();
  say(`goal  memory of a service process with 10,000 idle agents: ${megabytes.toFixed(0)} MB (goal <= 150)`);
}

import { writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { InstantRunner, runnerKey } from './instant-runner.ts';
import { gate, say, seconds } from './report.ts';
import {
  alternated,
  here,
  load,
  post,
  type Service,
  seedAgents,
  spawnTemplate,
  startProgram,
  startService,
} from './tools.ts';

/** An idle agent that has run once, with a checklist. */
async function idleAgent(service: Service): Promise<void> {
  const agentId = { agent: ['idle-agent'] };
  const tasks = [{ subject: 'Reproduce it' }, { subject: 'Fix it' }, { subject: 'Add a test' }];
  await post(service, '/v1/agent/spawn', { agentId, description: 'Fix the login flow.', tasks });
  const runner = new InstantRunner({ url: service.url, key: await runnerKey(service) });
  const running = runner.run();
  await post(service, '/v1/agent/wait', { agentId });
  runner.stop();
  await running;
}

/** The status of one agent against a bare route, and lists out of few and many agents. */
export async function reads(): Promise<void> {
  const service = await startService({ MUSTER_RUNNER: 'off' });
  await idleAgent(service);
  await spawnTemplate(service);
  const body = JSON.stringify({ agentId: { agent: ['idle-agent'], workspace: 'default' } });
  const status = await post<unknown>(service, '/v1/agent/status', JSON.parse(body));
  const file = join(tmpdir(), `muster-bench-status-${process.pid}.json`);
  writeFileSync(file, JSON.stringify(status));
  const bare = await startProgram(here('bare-server.mjs'), [file], process.env);
  const env = { KEY: service.key, BODY: body, TARGET: '/v1/agent/status' };
  await load(service.url, 'post.lua', 2, env);
  const { ours, theirs } = await alternated({
    theirs: () => load(bare.url, 'post.lua', seconds, env),
    ours: () => load(service.url, 'post.lua', seconds, env),
  });
  bare.child.kill();
  say(`      bare Fastify, the same reply: ${theirs.toFixed(0)}/s; status: ${ours.toFixed(0)}/s`);
  gate('status against a bare Fastify route', ours / theirs, 0.45, 0.6);

  await seedAgents(service, 'few-', 10_000, 1_000, 'few');
  await seedAgents(service, 'many-', 100_000, 100_000, 'many');
  const list = (account: string) => () =>
    load(service.url, 'post.lua', seconds, {
      KEY: service.key,
      BODY: JSON.stringify({ account, pageSize: 100 }),
      TARGET: '/v1/agents',
    });
  const { few, many } = await alternated({ few: list('few'), many: list('many') });
  await service.close();
  say(`      list of 100 out of 1,000: ${few.toFixed(0)}/s; out of 100,000: ${many.toFixed(0)}/s`);
  gate('list out of 100,000 against list out of 1,000', many / few, 1 / 3);
}

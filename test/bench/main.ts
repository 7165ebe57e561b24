import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { limits } from '@muster/sdk/contract';
import { firstRequests } from './first-request.ts';
import { fillRunner } from './full-runner.ts';
import { helpTime } from './help-time.ts';
import { followUpToClaim, InstantRunner, runnerKey, waitToWake } from './latency.ts';
import {
  alternated,
  here,
  load,
  pgbench,
  post,
  type Service,
  seedAgents,
  startProgram,
  startService,
} from './tools.ts';

/**
 * Compares the service with what it is built on, in turns, because ratios are stable on a slow or busy machine. A missed
 * gate fails the run. Goals are printed beside the cost of an empty commit and of a bare round trip in the same run.
 */
const seconds = Number(process.env.MUSTER_BENCH_SECONDS ?? 6);
const missed: string[] = [];
const say = (line = ''): void => void process.stdout.write(`${line}\n`);

function gate(name: string, ratio: number, least: number): void {
  const ok = ratio >= least;
  if (!ok) missed.push(name);
  say(`${ok ? 'ok  ' : 'MISS'}  ${name}: ${ratio.toFixed(2)} (gate >= ${least})`);
}

function ceiling(name: string, figure: number, most: number): void {
  const ok = figure <= most;
  if (!ok) missed.push(name);
  say(`${ok ? 'ok  ' : 'MISS'}  ${name}: ${Number(figure.toFixed(2))} (gate <= ${most})`);
}

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

async function throughput(service: Service): Promise<void> {
  const env = { KEY: service.key };
  await load(service.url, 'queue-add.lua', 2, env);
  const { queueAdd, same, spawn } = await alternated({
    same: () => pgbench(service, 'queue-add.pgbench.sql', seconds),
    queueAdd: () => load(service.url, 'queue-add.lua', seconds, env),
    spawn: (round) => load(service.url, 'spawn.lua', seconds, { ...env, ROUND: String(round) }),
  });
  say(`      pgbench, the same transaction, 64 clients: ${same.toFixed(0)}/s`);
  say(`      queue-add over HTTP, 64 callers: ${queueAdd.toFixed(0)}/s; spawn: ${spawn.toFixed(0)}/s`);
  gate('queue-add against pgbench', queueAdd / same, 1.0);
  gate('spawn against pgbench', spawn / same, 0.5);
}

async function reads(service: Service): Promise<void> {
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
  gate('status against a bare Fastify route', ours / theirs, 0.35);

  await seedAgents(service, 'few-', 10_000, 1_000, 'few');
  await seedAgents(service, 'many-', 100_000, 100_000, 'many');
  const list = (account: string) => () =>
    load(service.url, 'post.lua', seconds, {
      KEY: service.key,
      BODY: JSON.stringify({ account, pageSize: 100 }),
      TARGET: '/v1/agents',
    });
  const { few, many } = await alternated({ few: list('few'), many: list('many') });
  say(`      list of 100 out of 1,000: ${few.toFixed(0)}/s; out of 100,000: ${many.toFixed(0)}/s`);
  gate('list out of 100,000 against list out of 1,000', many / few, 1 / 3);
}

/** Measured from one poll of the runner to a later one, because each poll causes several queries. */
async function queriesPerSecond(service: Service): Promise<number> {
  const read = async (): Promise<number> => {
    const text = await (await fetch(`${service.url}/metrics`)).text();
    return Number(/^muster_store_queries_total (\d+)/m.exec(text)?.[1]);
  };
  const nextPoll = async () => {
    for (let before = await read(); ; ) {
      await new Promise((resolve) => setTimeout(resolve, 100));
      const count = await read();
      if (count - before >= 4) return { count, second: performance.now() / 1000 };
      before = count;
    }
  };
  const first = await nextPoll();
  await nextPoll();
  await nextPoll();
  const last = await nextPoll();
  return (last.count - first.count) / (last.second - first.second);
}

async function idle(): Promise<void> {
  const service = await startService();
  await post(service, '/v1/agent/spawn', {
    agentId: { agent: ['template'] },
    description: 'x',
    model: 'rehearsal-a',
  });
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

async function memory(): Promise<void> {
  const service = await startService();
  await post(service, '/v1/agent/spawn', {
    agentId: { agent: ['template'] },
    description: 'x',
    model: 'rehearsal-a',
  });
  await post(service, '/v1/agent/wait', { agentId: { agent: ['template'] } });
  await seedAgents(service, 'idle-', 200_000, 10_000);
  await post(service, '/v1/agents', { pageSize: 100 });
  const rollup = readFileSync(`/proc/${service.pid}/smaps_rollup`, 'utf8');
  const megabytes = Number(/^Pss:\s+(\d+)/m.exec(rollup)?.[1]) / 1024;
  await service.close();
  say(`goal  memory of a service process with 10,000 idle agents: ${megabytes.toFixed(0)} MB (goal <= 150)`);
}

async function latency(): Promise<void> {
  const service = await startService({ MUSTER_RUNNER: 'off' });
  await service.database.query('CREATE TABLE bench_commits (n int)');
  const commits = await pgbench(service, 'empty-commit.pgbench.sql', 3, 1);
  const trips: number[] = [];
  for (let i = 0; i < 300; i += 1) {
    const from = performance.now();
    await (await fetch(`${service.url}/healthz`)).text();
    trips.push(performance.now() - from);
  }
  trips.sort((a, b) => a - b);
  say(
    `      beside: an empty commit takes ${(1000 / commits).toFixed(2)} ms, a bare round trip ${(trips[150] ?? 0).toFixed(2)} ms`,
  );
  const claim = await followUpToClaim(service, 1_000);
  say(
    `goal  follow-up → claimed at 100/s: p50 ${claim.p50.toFixed(1)} ms (goal <= 10), p99 ${claim.p99.toFixed(1)} ms (goal <= 50)`,
  );
  await claim.running;
  const wake = await waitToWake(service, 2_000);
  say(
    `goal  wait → woken, 2,000 open, 100/s: p50 ${wake.p50.toFixed(1)} ms, p99 ${wake.p99.toFixed(1)} ms (goal p99 <= 50)`,
  );
  await service.close();
}

async function firstRequest(): Promise<void> {
  for (const { title, oursMs, bareMs, most } of await firstRequests()) {
    say(
      `      ${title}, a message → its model request: bare ${bareMs.toFixed(0)} ms, by Muster ${oursMs.toFixed(0)} ms`,
    );
    ceiling(`first model request of a resumed ${title} against the bare one`, oursMs / bareMs, most);
  }
}

async function fullRunner(): Promise<void> {
  const { size, outcomes, peakRuns, peakRequests, peakSandboxes, memoryMb } = await fillRunner(
    limits.runsPerRunner,
  );
  const ended = Object.entries(outcomes).map(([outcome, count]) => `${count} ${outcome}`);
  say(`      ${size} agents queued at the same time: ${ended.join(', ')}`);
  say(`      most at one time: ${peakRuns} runs, ${peakSandboxes} sandboxes, ${peakRequests} model requests`);
  for (const { title, mb } of memoryMb)
    say(`      memory of a live ${title} agent with its sandbox, resident: ${mb.toFixed(0)} MB`);
  gate('agents on a full runner that completed', outcomes.COMPLETED ?? 0, size);
  ceiling('runs on a full runner that were lost', outcomes.LOST ?? 0, 0);
  ceiling(
    'agents live at the same time on a full runner',
    Math.max(peakRuns, peakSandboxes),
    limits.runsPerRunner,
  );
}

function help(): void {
  const { oursMs, bareMs } = helpTime();
  say(`      node -e 0: ${bareMs.toFixed(0)} ms, muster --help: ${oursMs.toFixed(0)} ms`);
  ceiling('muster --help less 100 ms against node -e 0', (oursMs - 100) / bareMs, 1.5);
}

const parts = process.argv.slice(2);
const wants = (part: string): boolean => parts.length === 0 || parts.includes(part);
const tools = { pgbench: ['throughput', 'latency'], wrk: ['throughput', 'reads'] };
for (const [tool, users] of Object.entries(tools)) {
  if (users.some(wants) && spawnSync(tool, ['--version']).error) {
    say(`${tool} is missing; on Debian: apt-get install postgresql-contrib wrk`);
    process.exit(2);
  }
}

if (wants('help')) help();
if (wants('throughput') || wants('reads')) {
  const service = await startService({ MUSTER_RUNNER: 'off' });
  await idleAgent(service);
  await post(service, '/v1/agent/spawn', {
    agentId: { agent: ['template'] },
    description: 'Fix the login flow.',
  });
  await seedAgents(service, 'bench-', 0, 1_000);
  if (wants('throughput')) await throughput(service);
  if (wants('reads')) await reads(service);
  await service.close();
}
if (wants('idle')) await idle();
if (wants('latency')) await latency();
if (wants('memory')) await memory();
if (wants('first-request')) await firstRequest();
if (wants('full-runner')) await fullRunner();
if (missed.length > 0) {
  say(`\n${missed.length} gate(s) missed: ${missed.join('; ')}`);
  process.exit(1);
}

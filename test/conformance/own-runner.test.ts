import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { agent, apiOf, statusOf, untilStatus } from '../support/api.ts';
import { until } from '../support/async.ts';
import { expectOk } from '../support/expect-reply.ts';
import { readUnlessGone } from '../support/files.ts';
import { runnerPid, type Server } from '../support/server.ts';
import { cleanUp, newFolder, outputOf, start } from './server-starts.ts';

afterEach(cleanUp);

const lease = { MUSTER_LEASE_SECONDS: '5' };

/** Starts an agent that works for ten minutes. */
async function startWork(server: Server, name: string) {
  const api = apiOf(server);
  expectOk(await api.post('/v1/agent/spawn', { agentId: agent(name), description: '!sleep 600' }));
  return untilStatus(api, [name], 'a run', ({ run }) => run?.state === 'RUNNING');
}

const secondRunOf = (server: Server) =>
  untilStatus(
    apiOf(server),
    ['long'],
    'a second run',
    ({ run }) => run?.runId === '2' && run.state === 'RUNNING',
  );

test('a runner of the service that is killed is started again, and its agents continue', async () => {
  const server = await start({ runner: true, env: lease });
  await startWork(server, 'long');
  const killed = runnerPid(server.env.MUSTER_DATA) ?? 0;
  expect(killed).not.toBe(server.process.pid);
  process.kill(killed, 'SIGKILL');
  expect((await fetch(`${server.url}/healthz`)).status).toBe(200);
  const status = await secondRunOf(server);
  expect(status.phaseReason).toBe('WORKING');
  expect(runnerPid(server.env.MUSTER_DATA)).not.toBe(killed);
  await until(
    'a line in the log',
    async () => outputOf(server),
    (text) => /"reason":"the runner process ended: SIGKILL".*"runner process died; restarting"/.test(text),
  );
});

test('the process that reads what agents write gets neither the service secret nor the address of the database', async () => {
  const server = await start({ runner: true, env: { MUSTER_SECRET_PREVIOUS: 'previous'.repeat(5) } });
  const seen = readFileSync(`/proc/${runnerPid(server.env.MUSTER_DATA)}/environ`, 'utf8');
  expect(seen).toContain('MUSTER_REHEARSAL_MS=');
  const { MUSTER_SECRET, MUSTER_SECRET_PREVIOUS, MUSTER_BOOTSTRAP_KEY, DATABASE_URL } = server.env;
  for (const value of [MUSTER_SECRET, MUSTER_SECRET_PREVIOUS, MUSTER_BOOTSTRAP_KEY, DATABASE_URL])
    expect(seen).not.toContain(value);
});

test('a service that is killed and started again at once gets the folder of its runner', async () => {
  const env = { ...lease, MUSTER_DATA: newFolder() };
  const first = await start({ runner: true, env });
  await startWork(first, 'long');
  first.process.kill('SIGKILL');
  const second = await start({ runner: true, env: { ...env, ...first.env }, databaseUrl: first.databaseUrl });
  await secondRunOf(second);
  expect((await statusOf(apiOf(second), 'long')).error).toBeNull();
});

test('what a run used before its runner was killed is counted once', async () => {
  const server = await start({ runner: true, env: lease });
  const api = apiOf(server);
  const data = server.env.MUSTER_DATA ?? '';
  // With the first usage it learns that no budget limits it, which counts for a while.
  const description =
    '!usage 50 10 5 0.25\n!run touch waits; until [ -e go ]; do sleep 0.1; done\n!usage 50 10 5 0.25\n!sleep 600';
  expectOk(await api.post('/v1/agent/spawn', { agentId: agent('spends'), description }));
  await untilStatus(api, ['spends'], 'a run', ({ run }) => run?.state === 'RUNNING');
  const [agentKey = ''] = readdirSync(join(data, 'agents'));
  const workspace = join(data, 'agents', agentKey, 'workspace');
  await until('a command', async () => existsSync(join(workspace, 'waits')), Boolean);
  // The service takes no report of what the run uses from here on.
  server.process.kill('SIGSTOP');
  writeFileSync(join(workspace, 'go'), '');
  const note = join(data, 'usage', `${agentKey}-1.json`);
  await until(
    'what the run used in the note',
    async () => readUnlessGone(note),
    (text) => text.includes('"costUsd":0.5'),
  );
  process.kill(runnerPid(data) ?? 0, 'SIGKILL');
  server.process.kill('SIGCONT');
  const counted = await untilStatus(
    api,
    ['spends'],
    'both runs counted',
    ({ run, cost }) => run?.runId === '2' && cost >= 1,
  );
  expect(counted).toMatchObject({ cost: 1, inputTokens: '200', outputTokens: '20' });
  await until(
    'the end of the note',
    async () => existsSync(note),
    (exists) => !exists,
  );
  expect((await statusOf(api, 'spends')).cost).toBe(1);
});

test('the key of the runner is in no argument and no variable', async () => {
  const server = await start({ runner: true });
  const folder = join('/proc', String(runnerPid(server.env.MUSTER_DATA)));
  for (const file of ['cmdline', 'environ'])
    expect(readFileSync(join(folder, file), 'utf8')).not.toContain('service-runner');
});

import { expect, test } from 'vitest';
import { resultOf, userOfSharedServer } from './cli.ts';

const ada = userOfSharedServer({ runner: false });

test('a runner with its own key runs agents, and exits at Ctrl-C', async () => {
  const { out: key } = await ada.runProcess(['token', 'create', 'machine', '--role', 'runner']);
  const runner = ada.start(['runner', '--key', key.trim(), '--name', 'runner-1']);
  const exited = resultOf(runner);
  await ada.agents.spawn('worker', { description: '!say Done.' });
  expect(await ada.prints(['wait', 'worker'])).toBe('worker idle: Done.\n');
  runner.kill('SIGINT');
  const { code, out } = await exited;
  expect(code).toBe(0);
  expect(out).toMatch(new RegExp(`^Runner runner-1 serves ${ada.server.url}\n`));
});

test.each([
  [{ MUSTER_URL: undefined }, 'the URL of the service is missing: set --url or MUSTER_URL'],
  [{ MUSTER_API_KEY: undefined }, 'the API key is missing: set --key or MUSTER_API_KEY'],
  [{}, 'the API key has role admin; a runner needs a key of role runner'],
])('runner reports what is wrong with %j in one line', async (env, problem) => {
  const { code, err } = await ada.runProcess(['runner'], { env });
  expect(code).toBe(1);
  expect(err).toMatch(new RegExp(`^muster: ${problem}.*\n$`));
});

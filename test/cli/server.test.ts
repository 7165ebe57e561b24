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
  [['runner'], { MUSTER_URL: undefined }, 'the URL of the service is missing: set --url or MUSTER_URL'],
  [['runner'], { MUSTER_API_KEY: undefined }, 'the API key is missing: set --key or MUSTER_API_KEY'],
  [['runner'], {}, 'the API key has role admin; a runner needs a key of role runner'],
  [['serve'], { MUSTER_PORT: '-1' }, 'MUSTER_PORT: expected a number from 0 to 65535; got "-1"'],
  [['serve'], { MUSTER_SECRET: 'short' }, 'MUSTER_SECRET must have at least 32 characters'],
])('%s reports what is wrong with %j in one line', async (args, env, problem) => {
  const { code, err } = await ada.runProcess(args, { env });
  expect(code).toBe(1);
  expect(err).toMatch(new RegExp(`^muster: ${problem}.*\n$`));
});

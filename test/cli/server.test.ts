import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { SignedIn } from '@muster/sdk/contract';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { until } from '../support/async.ts';
import { expectOk } from '../support/expect-reply.ts';
import { program, type Server, startServer } from '../support/server.ts';
import { signInWithCode } from '../support/sign-in.ts';
import { resultOf, userOfSharedServer } from './cli.ts';

const ada = userOfSharedServer({ runner: false });

test('a runner with its own key runs agents, and exits at Ctrl-C', async () => {
  const key = (await ada.prints(['token', 'create', 'machine', '--role', 'runner'])).trim();
  const runner = ada.start(['runner', '--key', key, '--name', 'runner-1']);
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
  const { code, err } = await ada.muster(args, { env });
  expect(code).toBe(1);
  expect(err).toMatch(new RegExp(`^muster: ${problem}.*\n$`));
});

/** The sign-in link that a service prints when it has started. */
async function linkOf({ output, url }: Server): Promise<string | undefined> {
  const text = await until(
    'the whole output',
    async () => output.join(''),
    (seen) => seen.includes('key file'),
  );
  expect(text).toMatch(new RegExp(`^Muster is ready at ${url}$`, 'm'));
  return /ready at .*\n {2}open {6}(\S+) {2}\(signs you in once; later use muster open\)\n/.exec(text)?.[1];
}

describe('a service', () => {
  const data = mkdtempSync(join(tmpdir(), 'muster-data-'));
  const kept = { MUSTER_DATA: data, MUSTER_BOOTSTRAP_KEY: undefined };
  let first: Server;
  beforeAll(async () => {
    first = await startServer({ runner: false, env: kept });
  });
  afterAll(async () => {
    await first?.close();
    rmSync(data, { recursive: true, force: true });
  });

  test('an operator key is created on its machine', async () => {
    const { code, out } = await ada.muster(['operator', 'create', '--account', 'olga'], { env: first.env });
    expect(code).toBe(0);
    const env = { MUSTER_URL: first.url, MUSTER_API_KEY: /mst_\S+/.exec(out)?.[0] ?? '' };
    expect(await ada.prints(['whoami'], { env })).toMatch(/^olga \(operator\)/);
  });

  test('prints its URL and a sign-in link for the configured, the generated and the stored admin key, and exits with 0 at Ctrl-C', async () => {
    const { databaseUrl } = first;
    const key = readFileSync(join(data, 'admin.key'), 'utf8').trim();
    const keyId = key.slice('mst_'.length).split('.')[0];
    const signsIn = async (own: Server): Promise<string> => {
      const [page, code] = (await linkOf(own))?.split('#code=') ?? [];
      expect(page).toBe(`${own.url}/`);
      return (expectOk(await signInWithCode(own.url, code)) as SignedIn).caller.keyId;
    };
    expect(await signsIn(first)).toBe(keyId);
    const stored = await startServer({ databaseUrl, env: kept });
    expect(stored.process.spawnargs).toContain(program);
    expect(await signsIn(stored)).toBe(keyId);
    const exited = once(stored.process, 'exit');
    stored.process.kill('SIGINT');
    expect(await exited).toEqual([0, null]);
    const configured = await startServer({ runner: false, databaseUrl, env: { MUSTER_BOOTSTRAP_KEY: key } });
    expect(await signsIn(configured)).toBe(keyId);
    await configured.end();
    // Without a key of this database, or with an address that other machines can reach, it prints no link.
    for (const env of [{}, { ...kept, MUSTER_HOST: '0.0.0.0' }]) {
      const later = await startServer({ runner: false, databaseUrl, env });
      expect(await linkOf(later)).toBeUndefined();
      await later.end();
    }
  });
});

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Service } from '@muster/sdk/contract';
import { afterAll, describe, expect, it } from 'vitest';
import type { SeenRequest, Step } from '../provider/script.ts';
import { until } from '../support/async.ts';
import { uniqueName, writeResource } from '../support/catalog.ts';
import { sandbox } from '../support/sandbox.ts';
import { type Backend, backends, useTestService } from './test-service.ts';

const service = useTestService({ runner: false });
const folder = mkdtempSync(join(tmpdir(), 'muster-several-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const said: Step = { say: 'That was all.' };
const names = ['main', 'spare'] as const;
const keyOf = (name: string): string => `sk-of-account-${name}-0123456789`;

/** Agents on a runner of their own, which has two accounts of the provider. */
async function onTwoAccounts({ provider, model }: Backend, env: Readonly<Record<string, string>> = {}) {
  const { stub, api } = service();
  const key = { anthropic: 'ANTHROPIC_API_KEY', openai: 'OPENAI_API_KEY' }[provider];
  const base = { anthropic: 'ANTHROPIC_BASE_URL', openai: 'OPENAI_BASE_URL' }[provider];
  const url = { anthropic: stub.anthropicUrl, openai: stub.openaiUrl }[provider];
  const file = join(folder, `${uniqueName('accounts')}.json`);
  const accounts = names.map((name) => ({ provider, name, variables: { [key]: keyOf(name), [base]: url } }));
  writeFileSync(file, JSON.stringify(accounts), { mode: 0o600 });
  const pool = uniqueName('several');
  await writeResource(api, 'pool', pool, {});
  const variables = { ANTHROPIC_API_KEY: '', OPENAI_API_KEY: '', MUSTER_ACCOUNTS: file, ...env };
  const runner = await service().runner(pool, variables);
  const agents = await service().emptyWorkspace({ pool });
  return {
    agents,
    file,
    /** Starts the runner again: it forgets which accounts are paused. */
    restart: async () => {
      await runner.kill('SIGTERM');
      await service().runner(pool, variables, runner.folder);
    },
    spawn: async (name: string, ...steps: readonly Step[]) => {
      const marker = service().script(...steps);
      await agents.spawn(name, { model, description: `Do it. ${marker}` });
      return marker;
    },
    /** By whose credentials the requests of a script were made. */
    accountsOf: (marker: string) => stub.requestsOf(marker).map(accountOf),
    states: async () => {
      const { runners } = (await api.get<Service>('/v1/service')).body;
      return runners.find((one) => one.pool === pool)?.accounts ?? [];
    },
  };
}

function accountOf({ headers }: SeenRequest): string {
  const sent = String(headers['x-api-key'] ?? headers.authorization).replace(/^Bearer /, '');
  return names.find((name) => keyOf(name) === sent) ?? `other: ${sent}`;
}

const limitOf = (seconds: number): Step => ({
  status: 429,
  headers: { 'retry-after': String(seconds) },
  times: 1,
});

describe.concurrent.each(backends)('$title with two accounts', (backend) => {
  const { provider } = backend;
  const [main, spare] = names.map((name) => `${provider}/${name}`);

  it('goes on with the second within the turn, and stays with it in later runs and after a restart of the runner', async () => {
    const { agents, restart, spawn, accountsOf, states } = await onTwoAccounts(backend);
    const marker = await spawn('a', { shell: 'echo one' }, limitOf(3_600), { shell: 'echo two' }, said);
    const status = await agents.wait('a');
    expect(status).toMatchObject({ response: 'That was all.', error: null, run: { account: spare } });
    expect(await agents.outcomes('a')).toEqual(['COMPLETED']);
    expect(accountsOf(marker)).toEqual(['main', 'main', 'spare', 'spare']);
    const [, limited, repeated] = service().stub.requestsOf(marker);
    expect(repeated?.text).toBe(limited?.text);
    expect(await agents.warnings('a')).toEqual([
      expect.stringMatching(new RegExp(`${main} is paused until .*; ${spare} takes over\\.$`)),
    ]);
    const shown = await until('the account paused', states, ([first]) => first?.state === 'PAUSED');
    expect(shown).toMatchObject([
      { account: main, error: `${provider} answered 429`, pausedUntil: expect.any(String) },
      { account: spare, error: '', pausedUntil: null },
    ]);

    await restart();
    const again = service().script(said);
    await agents.queue('a', `Again. ${again}`);
    expect(await agents.runEnded('a', 2)).toMatchObject({ run: { account: spare } });
    expect(accountsOf(again)).toEqual(['spare']);
    const other = await spawn('b', said);
    expect(await agents.wait('b')).toMatchObject({ run: { account: main } });
    expect(accountsOf(other)).toEqual(['main']);
  });

  it('waits for the earliest when both are paused, and goes on with that', async () => {
    const { agents, spawn, accountsOf } = await onTwoAccounts(backend, { MUSTER_LIMIT_WAIT_SECONDS: '0' });
    const marker = await spawn('a', limitOf(3_600), limitOf(2), { shell: 'echo back again' }, said);
    const status = await agents.wait('a');
    expect(status).toMatchObject({ response: 'That was all.', run: { account: spare } });
    expect(await agents.outcomes('a')).toEqual(['PARKED', 'COMPLETED']);
    expect(accountsOf(marker)).toEqual(['main', 'spare', 'spare', 'spare']);
    expect((await agents.warnings('a')).join('\n')).toContain(
      `2 of 2 accounts of ${provider} are paused; ${spare}`,
    );
  });

  it('leaves out an account whose key is refused, whatever the agent sends and reads', async () => {
    const { agents, file, spawn, accountsOf, states } = await onTwoAccounts(backend);
    const body = JSON.stringify({ model: backend.model, max_tokens: 1, messages: [] });
    const hostile = `node -e 'fetch(process.env.ANTHROPIC_BASE_URL + "/v1/messages", {method: "POST", headers: {"x-api-key": process.env.ANTHROPIC_AUTH_TOKEN, authorization: "Bearer stolen"}, body: process.argv[1]}).then(async (r) => console.log(r.status))' '${body}'`;
    const look = `env; cat /proc/[0-9]*/environ | tr "\\0" "\\n"; ${sandbox ? `cat ${file}` : ''}`;
    const shell = provider === 'anthropic' ? `${look}; ${hostile}` : look;
    const marker = await spawn('a', { status: 401, times: 1 }, { shell }, said);
    expect(await agents.wait('a')).toMatchObject({ response: 'That was all.', run: { account: spare } });
    expect(accountsOf(marker)).toEqual(['main', 'spare', 'spare']);
    const output = (await agents.texts('a', 'TOOL_RESULT')).join('\n');
    expect(output).toContain('HOME=');
    for (const name of names) expect(output).not.toContain(keyOf(name));
    const shown = await until('the account paused', states, ([first]) => first?.state === 'PAUSED');
    expect(shown).toMatchObject([
      { account: main, error: `${provider} answered 401`, pausedUntil: null },
      { account: spare, error: '' },
    ]);
    const other = await spawn('b', said);
    expect(await agents.wait('b')).toMatchObject({ run: { account: spare } });
    expect(accountsOf(other)).toEqual(['spare']);
    // An agent of the other account is retried: the refused account may be asked again.
    await spawn('c', { status: 500 });
    await until(
      'the agent retrying',
      () => agents.status('c'),
      ({ phaseReason }) => phaseReason === 'RETRYING',
    );
    expect(await states()).toMatchObject([{ state: 'PAUSED' }, {}]);
    expect((await agents.send('agent/retry', 'c')).status).toBe(200);
    await until('the account free', states, ([first]) => first?.state === 'FREE');
    await agents.kill('c');
    const seen = service().stub.requests.map(({ headers }) => JSON.stringify(headers));
    expect(seen.filter((headers) => headers.includes('stolen'))).toEqual([]);
  });
});

// Not at the same time as the others, whose runners have the same keys.
describe.each(backends)('$title: a runner that starts', (backend) => {
  it('asks the provider which keys it accepts, before any agent needs them', async () => {
    const { provider } = backend;
    const { refusedKeys } = service().stub;
    const setting = { anthropic: 'ANTHROPIC_API_KEY', openai: 'OPENAI_API_KEY' }[provider];
    refusedKeys.add(keyOf('spare'));
    const { states, restart } = await onTwoAccounts(backend);
    const seen = await until(
      'the answers',
      states,
      (all) => all.length === 2 && all.every(({ accepted, error }) => accepted || error !== ''),
    );
    refusedKeys.clear();
    expect(seen).toMatchObject([
      { account: `${provider}/main`, state: 'FREE', accepted: true, error: '' },
      { account: `${provider}/spare`, state: 'PAUSED', accepted: false, pausedUntil: null },
    ]);
    expect(seen[1]?.error).toContain(`refused the credentials (401): change ${setting} of the account spare`);
    expect(JSON.stringify(seen)).not.toContain(keyOf('spare'));
    await restart();
    await until(
      'the other answer',
      states,
      (all) => all.length === 2 && all.every(({ accepted }) => accepted),
    );
  });
});

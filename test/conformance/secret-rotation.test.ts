import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { type Claim, limits, type Service, tenantName } from '@muster/sdk/contract';
import { afterEach, describe, expect, test } from 'vitest';
import { type Api, apiOf } from '../support/api.ts';
import { until } from '../support/async.ts';
import { readDocument, writeResource } from '../support/catalog.ts';
import { execute, freshDatabase } from '../support/database.ts';
import { expectError, expectOk } from '../support/expect-reply.ts';
import { FakeRunner } from '../support/fake-runner.ts';
import { bootstrapKey, program, type Server } from '../support/server.ts';
import { newTenant, operatorOf } from '../support/tenants.ts';
import { newTestTenant, TestTenant } from '../support/test-tenant.ts';
import type { Page } from './catalog-requests.ts';
import { cleanUp, newFolder, refusedStart, start } from './server-starts.ts';

const [older, newer] = ['the older secret of this service', 'the newer secret of this service'];
const value = 'a value that outlives the service secret';

afterEach(cleanUp);

/** Starts nodes on one database, each with its secrets. */
async function nodesOn(databaseUrl: string) {
  const key = bootstrapKey();
  return async (current: string, previous?: string): Promise<Server & { readonly api: Api }> => {
    const env = {
      MUSTER_BOOTSTRAP_KEY: key,
      MUSTER_SECRET: current,
      MUSTER_SECRET_PREVIOUS: previous,
    };
    const server = await start({ databaseUrl, env });
    return Object.assign(server, { api: apiOf(server) });
  };
}

const runProgram = (args: string[], env: NodeJS.ProcessEnv): Promise<{ stdout: string }> =>
  promisify(execFile)(process.execPath, [program, ...args], { env }).catch(
    (error: { stdout: string }) => error,
  );

const outdated = async (api: Api) =>
  expectOk(await api.get<Service>('/v1/service')).outdatedSecrets.map(
    ({ kind, name, works }) => `${kind}/${name} ${works ? 'works' : 'does not work'}`,
  );

const webhookUrlOf = async (api: Api): Promise<string> =>
  String((await readDocument(api, 'integration', 'hooks')).document.webhookUrl);

/** The token of the first page of the personas. */
const pageToken = async (api: Api): Promise<string> =>
  expectOk(await api.get<Page<unknown>>('/v1/catalog/persona?pageSize=1')).nextPageToken;

const nextPage = (api: Api, token: string) => api.get(`/v1/catalog/persona?pageSize=1&pageToken=${token}`);

/** A run that has started, whose environment has the secret. */
async function runWithSecret(t: TestTenant, name: string): Promise<Claim> {
  await t.spawn(name);
  return t.start(name);
}

async function prepare(api: Api): Promise<TestTenant> {
  await writeResource(api, 'secret', 'kept', { value });
  await writeResource(api, 'integration', 'hooks', { type: 'codehost' });
  await writeResource(api, 'environment', 'default', { variables: { TOKEN: { fromSecret: 'kept' } } });
  return newTestTenant(api);
}

/** The same workspace and pool at another node, with another runner. */
const at = ({ api, workspace, runner }: TestTenant, { url }: Server): TestTenant =>
  new TestTenant(apiOf({ url, key: api.key }), workspace, new FakeRunner(apiOf({ url, key: runner.key })));

describe('the service secret', () => {
  test('is replaced in a restart: what the previous one made works, and values are sealed again', async () => {
    const database = await freshDatabase();
    const startWith = await nodesOn(database.url);
    const first = await startWith(older);
    const t = await prepare(first.api);
    const { document } = await readDocument(first.api, 'secret', 'kept');
    const claim = await runWithSecret(t, 'before');
    const token = await pageToken(first.api);
    expect(await outdated(first.api)).toEqual([]);
    const webhookUrl = await webhookUrlOf(first.api);
    await first.end();

    const second = await startWith(newer, older);
    // The address of the service has changed, and what hosts know it by has not.
    expect(await webhookUrlOf(second.api)).toBe(webhookUrl.replace(first.url, second.url));
    expectOk(await second.api.as(claim.token).get('/v1/whoami'));
    expectOk(await nextPage(second.api, token));
    const left = await until(
      'the value sealed again',
      () => outdated(second.api),
      (list) => !list.some((one) => one.startsWith('secret/')),
    );
    expect(left).toEqual(['integration/hooks works']);
    const { env } = second;
    const doctor = await runProgram(['doctor'], {
      ...env,
      MUSTER_URL: second.url,
      MUSTER_API_KEY: second.key,
    });
    expect(doctor.stdout).toMatch(/integration\/hooks of .* depends on the previous service secret/);
    expect(doctor.stdout).toContain('before you remove MUSTER_SECRET_PREVIOUS: write it with rotate: true');
    expect((await readDocument(second.api, 'secret', 'kept')).document).toEqual(document);
    await writeResource(second.api, 'integration', 'hooks', { type: 'codehost', rotate: true });
    expect(await outdated(second.api)).toEqual([]);
    await second.end();

    const third = await startWith(newer);
    expect(await outdated(third.api)).toEqual([]);
    const { secrets } = await runWithSecret(at(t, third), 'after');
    expect(secrets).toMatchObject([{ name: 'kept', value, problem: '' }]);
    const again = await writeResource(third.api, 'secret', 'kept', { value });
    expect(again.fingerprint).toBe(document.fingerprint);
    expectError(await third.api.as(claim.token).get('/v1/whoami'), 'UNAUTHENTICATED');
    expectError(await nextPage(third.api, token), 'INVALID_ARGUMENT');
    await third.close();
    await database.drop();
  });

  test('is replaced although a tenant is closed: its values are sealed again, and work when it is opened', async () => {
    const database = await freshDatabase();
    const startWith = await nodesOn(database.url);
    const first = await startWith(older);
    const { tenant, admin } = await newTenant(await operatorOf(first));
    await writeResource(admin, 'secret', 'kept', { value });
    await writeResource(admin, 'integration', 'hooks', { type: 'codehost' });
    await writeResource(admin, 'environment', 'default', { variables: { TOKEN: { fromSecret: 'kept' } } });
    const name = tenantName(tenant);
    await runProgram(['tenant', 'close', name], first.env);
    await first.end();

    const second = await startWith(newer, older);
    const operator = await operatorOf(second);
    await until(
      'nothing left to do',
      () => outdated(operator),
      (left) => left.length === 0,
    );
    await second.end();

    const third = await startWith(newer);
    expect(await outdated(await operatorOf(third))).toEqual([]);
    await runProgram(['tenant', 'open', name], third.env);
    const there = apiOf({ url: third.url, key: admin.key });
    expect(await outdated(there)).toEqual(['integration/hooks does not work']);
    const { secrets } = await runWithSecret(await newTestTenant(there), 'after');
    expect(secrets).toMatchObject([{ name: 'kept', value, problem: '' }]);
    for (const node of [third, second, first]) await node.close();
    await database.drop();
  });

  test('is replaced while several nodes run, one after the other: each accepts what the others make', async () => {
    const database = await freshDatabase();
    const startWith = await nodesOn(database.url);
    const [before, after] = [await startWith(older, newer), await startWith(newer, older)];
    const t = await prepare(before.api);
    for (const [made, used] of [
      [before, after],
      [after, before],
    ] as const) {
      const claim = await runWithSecret(at(t, made), `of-${made === before ? 'older' : 'newer'}`);
      expect(claim.secrets).toMatchObject([{ name: 'kept', value, problem: '' }]);
      expectOk(await used.api.as(claim.token).get('/v1/whoami'));
      expectOk(await nextPage(used.api, await pageToken(made.api)));
      await writeResource(made.api, 'secret', 'kept', { value });
      const { secrets } = await runWithSecret(at(t, used), `with-${made === before ? 'older' : 'newer'}`);
      expect(secrets).toMatchObject([{ name: 'kept', value, problem: '' }]);
    }
    for (const node of [before, after]) await node.close();
    await database.drop();
  });

  describe('that does not match the database', () => {
    /** The fingerprint in the message of a start that was refused. */
    const refusal = async (databaseUrl: string, env: Record<string, string | undefined>) => {
      const text = await refusedStart({ databaseUrl, env });
      for (const secret of [older, newer]) expect(text).not.toContain(secret);
      expect(text).not.toContain('    at ');
      return { text, lost: /start with MUSTER_SECRET_LOST=([0-9a-f]{24}):/.exec(text)?.[1] };
    };

    test('keeps a node from starting, with one worker and with several, and says what to do; doctor says it too', async () => {
      const database = await freshDatabase();
      const startWith = await nodesOn(database.url);
      const node = await startWith(older);
      for (const MUSTER_WORKERS of ['1', '2']) {
        const { text, lost } = await refusal(database.url, { MUSTER_SECRET: newer, MUSTER_WORKERS });
        expect(text).toContain('muster: MUSTER_SECRET has another service secret (fingerprint ');
        expect(text).toContain('set MUSTER_SECRET_PREVIOUS to the old one');
        expect(lost).toBeDefined();
      }
      const data = newFolder();
      const env = { MUSTER_DATA: data, MUSTER_SECRET: undefined };
      writeFileSync(`${data}/secret`, newer);
      expect((await refusal(database.url, env)).text).toContain(
        `the file ${data}/secret has another service`,
      );
      const doctor = () =>
        runProgram(['doctor'], { ...node.env, MUSTER_SECRET: undefined, MUSTER_DATA: data });
      expect((await doctor()).stdout).toMatch(/broken +secret +the file .* has another service secret/);
      writeFileSync(`${data}/secret`, older);
      expect((await doctor()).stdout).not.toMatch(/broken +secret/);
      await node.end();
      await (await start({ databaseUrl: database.url, env })).close();
      await database.drop();
    });

    test('is replaced when it is lost, by the start that names its fingerprint: doctor lists what depended on it', async () => {
      const database = await freshDatabase();
      const startWith = await nodesOn(database.url);
      const first = await startWith(older);
      await prepare(first.api);
      // More than are listed.
      await execute(
        database.url,
        `INSERT INTO resources (tenant, kind, name, generation, document, sealed, secret_id)
         SELECT tenant, kind, name || n, generation, document, sealed, secret_id
         FROM resources, generate_series(1, ${limits.pageSize}) AS n WHERE kind = 'secret'`,
      );
      await first.end();
      const { lost } = await refusal(database.url, { MUSTER_SECRET: newer });
      const env = { MUSTER_BOOTSTRAP_KEY: first.key, MUSTER_SECRET: newer, MUSTER_SECRET_LOST: lost };
      const second = await start({ databaseUrl: database.url, env });
      expect(second.output.join('')).toContain('service secret replaced');
      const { outdatedSecretCount } = expectOk(await apiOf(second).get<Service>('/v1/service'));
      expect(outdatedSecretCount).toBe(limits.pageSize + 2);
      const listed = await outdated(apiOf(second));
      expect(listed).toHaveLength(limits.pageSize);
      expect(listed.slice(0, 2)).toEqual(['integration/hooks does not work', 'secret/kept does not work']);
      const connection = { MUSTER_URL: second.url, MUSTER_API_KEY: second.key };
      const { stdout } = await runProgram(['doctor'], { ...second.env, ...connection });
      expect(stdout).toContain('secret/kept of ');
      expect(stdout).toContain('2 more depend on another service secret');
      await second.close();
      await first.close();
      await database.drop();
    });
  });

  test('is refused if it is too short, the previous one too', async () => {
    const env = { MUSTER_SECRET_PREVIOUS: 'short' };
    expect(await refusedStart({ env })).toContain('MUSTER_SECRET_PREVIOUS must have at least 32 characters');
  });
});

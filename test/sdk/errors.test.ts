import { createServer } from 'node:http';
import {
  AlreadyExistsError,
  ConnectionError,
  FailedPreconditionError,
  InvalidArgumentError,
  MusterClient,
  MusterError,
  NotFoundError,
  OutOfRangeError,
  PermissionDeniedError,
  ResourceExhaustedError,
  UnauthenticatedError,
  UnimplementedError,
  UnknownError,
} from '@muster/sdk';
import { describe, expect, test } from 'vitest';
import { apiOf } from '../support/api.ts';
import { createKey, uniqueName } from '../support/catalog.ts';
import { useSharedServer } from '../support/shared-server.ts';
import { newTestTenant } from '../support/test-tenant.ts';
import { listening } from './servers.ts';

const server = await useSharedServer({ runner: false });
const tenant = await newTestTenant(server.api);
const client = new MusterClient({ url: server.url, apiKey: server.key });

const refusalOf = (work: Promise<unknown>): Promise<MusterError> =>
  work.then(
    () => expect.fail('was accepted'),
    (error: MusterError) => {
      expect(error).toBeInstanceOf(MusterError);
      return error;
    },
  );

describe('a refusal has a class, a code and details', () => {
  test('InvalidArgumentError names the field', async () => {
    const error = await refusalOf(client.spawn({ path: 'a b' }));
    expect(error).toBeInstanceOf(InvalidArgumentError);
    expect(error).toMatchObject({ name: 'InvalidArgumentError', code: 3, httpStatus: 400 });
    expect((error as InvalidArgumentError).fieldViolations).toMatchObject([{ field: 'agentId.agent[0]' }]);
  });

  test('NotFoundError', async () => {
    const error = await refusalOf(client.status('nobody'));
    expect(error).toBeInstanceOf(NotFoundError);
    expect(error).toMatchObject({ status: 'NOT_FOUND', code: 5, httpStatus: 404 });
  });

  test('AlreadyExistsError', async () => {
    await tenant.spawn('taken');
    const spawn = client.spawn({ path: `${tenant.workspace}:taken`, model: 'rehearsal-a' });
    expect(await refusalOf(spawn)).toBeInstanceOf(AlreadyExistsError);
  });

  test('FailedPreconditionError has the violations', async () => {
    const error = await refusalOf(
      client.catalog.write('persona', uniqueName('p'), {}, { ifGenerationMatch: 7 }),
    );
    expect(error).toBeInstanceOf(FailedPreconditionError);
    expect((error as FailedPreconditionError).violations).toMatchObject([{ type: 'GENERATION' }]);
  });

  test('UnauthenticatedError and PermissionDeniedError', async () => {
    const stranger = new MusterClient({ url: server.url, apiKey: 'mst_nobody.nothing' });
    expect(await refusalOf(stranger.whoami())).toBeInstanceOf(UnauthenticatedError);
    const { key } = await createKey(apiOf(server), { role: 'viewer' });
    const viewer = new MusterClient({ url: server.url, apiKey: key });
    expect(await refusalOf(viewer.spawn({}))).toBeInstanceOf(PermissionDeniedError);
  });

  test('OutOfRangeError, UnimplementedError and others are chosen by code', async () => {
    const replying = await listening(
      createServer((request, response) => {
        const [code = 0, status = 0] = (request.headers['idempotency-key'] as string).split(' ').map(Number);
        const details = [
          {
            '@type': 'type.googleapis.com/google.rpc.ErrorInfo',
            reason: 'BEFORE_FIRST_ENTRY',
            metadata: { firstSequence: '17' },
          },
        ];
        response.writeHead(status, { 'content-type': 'application/json' });
        response.end(JSON.stringify({ code, message: 'because', details }));
      }),
    );
    try {
      const refused = new MusterClient({ url: replying.url, apiKey: 'k', retries: { tries: 1 } });
      const spawn = (code: number, status: number) =>
        refusalOf(refused.spawn({}, { idempotencyKey: `${code} ${status}` }));
      const outOfRange = await spawn(11, 400);
      expect(outOfRange).toBeInstanceOf(OutOfRangeError);
      expect(outOfRange).toMatchObject({
        firstSequence: '17',
        reason: 'BEFORE_FIRST_ENTRY',
        message: 'because',
      });
      expect(await spawn(12, 501)).toBeInstanceOf(UnimplementedError);
      expect(await spawn(8, 429)).toBeInstanceOf(ResourceExhaustedError);
      const names = [1, 2, 4, 10, 13, 14].map((code) => spawn(code, 500).then(({ name }) => name));
      expect(await Promise.all(names)).toEqual([
        'CancelledError',
        'UnknownError',
        'DeadlineExceededError',
        'AbortedError',
        'InternalError',
        'UnavailableError',
      ]);
      expect(await spawn(99, 404)).toBeInstanceOf(NotFoundError);
    } finally {
      await replying.close();
    }
  });
});

describe('replies that do not come from the service', () => {
  test('a refused connection is a ConnectionError', async () => {
    const gone = await listening(createServer());
    await gone.close();
    const client = new MusterClient({ url: gone.url, apiKey: 'k', retries: { tries: 2, firstDelayMs: 1 } });
    const error = await client.whoami().catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(ConnectionError);
    expect(error).not.toBeInstanceOf(MusterError);
    expect(error).toMatchObject({ isUnsent: true, message: expect.stringContaining(gone.url) });
  });

  test('a reply that is not JSON is reported with its content type', async () => {
    const other = await listening(
      createServer((_, response) => response.writeHead(200, { 'content-type': 'text/html' }).end('<html>')),
    );
    try {
      const client = new MusterClient({ url: other.url, apiKey: 'k' });
      const error = await refusalOf(client.whoami());
      expect(error).toBeInstanceOf(UnknownError);
      expect(error.message).toContain('text/html');
      await expect(client.timelineStream('a').next()).rejects.toThrow('text/html');
    } finally {
      await other.close();
    }
  });

  test('an invalid URL or key is refused before a request is sent, and the key is not shown', () => {
    expect(() => new MusterClient({ url: 'nonsense', apiKey: 'k' })).toThrow(TypeError);
    expect(() => new MusterClient({ url: 'ftp://host', apiKey: 'k' })).toThrow('http://');
    const secret = 'mst_a.secret\n';
    expect(() => new MusterClient({ url: server.url, apiKey: secret })).toThrow(/^(?!.*secret)/);
  });
});

test('each unknown field is reported once', async () => {
  const reported: string[] = [];
  const client = new MusterClient({
    url: server.url,
    apiKey: server.key,
    onIgnoredFields: (operation, fields) => reported.push(`${operation}: ${fields.join(' ')}`),
  });
  const misspelt = { workspace: tenant.workspace, pagesize: 3, naïve: true } as object;
  await client.list(misspelt);
  await client.list(misspelt);
  await client.list({ ...misspelt, other: 1 } as object);
  expect(reported).toEqual(['list: pagesize naïve', 'list: other']);
});

import { createServer } from 'node:http';
import { type ClientOptions, ConnectionError, MusterClient, signIn } from '@muster/sdk';
import { kinds, shownOnceFieldOf } from '@muster/sdk/contract';
import { beforeEach, describe, expect, test } from 'vitest';
import { until } from '../support/async.ts';
import { type Document, uniqueName } from '../support/catalog.ts';
import { rateLimited, sharedServer } from '../support/shared-server.ts';
import { listening, ProxiedServer } from './servers.ts';

const at = new ProxiedServer(() => sharedServer({ runner: false }));
const { agent } = at;
let requests: number;
beforeEach(() => {
  requests = 0;
});

const clientOf = (options: Partial<ClientOptions> = {}) =>
  at.client({
    retries: { tries: 100, withinMs: 60_000, longestDelayMs: 500 },
    fetch: (input, init) => {
      requests += 1;
      return fetch(input, init);
    },
    ...options,
  });

/** Loses the reply of the first request that the work sends; what it sends then comes through. */
async function losingReply<T>(work: () => Promise<T>, between?: () => Promise<unknown>): Promise<T> {
  at.proxy.set('one-way');
  const working = work();
  working.catch(() => {});
  expect(await at.proxy.faults(1, 20_000), 'was answered').toBeGreaterThan(0);
  await between?.();
  at.proxy.set('cut');
  at.proxy.set('through');
  return working;
}

describe('a call whose reply was lost is retried and takes effect once', () => {
  test('spawn', async () => {
    const { agentId } = await losingReply(() =>
      clientOf().spawn({ workspace: at.tenant.workspace, model: 'rehearsal-a' }),
    );
    const { entries } = await clientOf().list({ workspace: at.tenant.workspace });
    expect(entries.map((entry) => entry.agentId)).toEqual([agentId]);
  });

  test('queue, which preempts once', async () => {
    await at.start();
    await at.tenant.queue('agent', 'old');
    const urgent = await losingReply(
      () => clientOf().queue(agent(), { description: 'now', preempt: true }),
      () => at.tenant.queue('agent', { followUpId: 'later', description: 'later' }),
    );
    const { followUps } = await at.tenant.status('agent');
    expect(followUps.map(({ followUpId }) => followUpId)).toEqual([urgent.followUpId, 'later']);
  });

  test('removeFollowUp', async () => {
    await at.start();
    await at.tenant.queue('agent', { followUpId: 'gone', description: 'gone' });
    expect(await losingReply(() => clientOf().removeFollowUp(agent(), 'gone'))).toEqual({ removed: false });
    expect(await at.tenant.timeline('agent', 'FOLLOW_UP_REMOVED')).toHaveLength(1);
  });

  test('stopTurn, while the next turn is running', async () => {
    const claim = await at.start();
    await at.tenant.queue('agent', 'next');
    const stopped = losingReply(
      () => clientOf().stopTurn(agent(), { runId: 1 }),
      async () => {
        await at.tenant.end(claim, 'INTERRUPTED');
        await at.tenant.start('agent');
      },
    );
    expect(await stopped).toEqual({});
    expect((await at.tenant.status('agent')).run).toMatchObject({ runId: '2', state: 'RUNNING' });
  });

  test('stopTurn of a turn that never existed is refused', async () => {
    await at.start();
    await expect(losingReply(() => clientOf().stopTurn(agent(), { runId: 5 }))).rejects.toMatchObject({
      fieldViolations: [{ field: 'runId' }],
    });
  });

  test('kill', async () => {
    await at.start();
    expect(await losingReply(() => clientOf().kill(agent()))).toEqual({});
    expect(await at.tenant.timeline('agent', 'RUN_ENDED')).toHaveLength(1);
  });

  test('updateTask, ask and finish', async () => {
    const claim = await at.start();
    await at.tenant.addTasks('agent', { id: 'task', subject: 'before' });
    const { task } = await losingReply(() => clientOf().updateTask(agent(), 'task', { subject: 'after' }));
    expect(task.subject).toBe('after');
    expect(await at.tenant.timeline('agent', 'TASK_CHANGED')).toHaveLength(2);
    const own = clientOf({ apiKey: claim.token });
    expect(await losingReply(() => own.ask(agent(), 'Which?'))).toEqual({});
    expect(await losingReply(() => own.finish(agent(), 'Done.'))).toEqual({});
    await at.tenant.end(claim);
    expect(await at.tenant.timeline('agent', 'QUESTION')).toHaveLength(1);
  });

  test('a conditional write, which finds its first try', async () => {
    const { catalog } = clientOf();
    const name = uniqueName('p');
    const document = { instructions: 'once' };
    const written = await losingReply(() =>
      catalog.write('persona', name, document, { ifGenerationMatch: 0, justification: 'test' }),
    );
    expect(written).toMatchObject({ generation: '1', document });
    expect((await catalog.history('persona', name)).entries).toHaveLength(1);
  });

  test('a conditional write is refused after another one with the same document', async () => {
    const { catalog } = clientOf();
    const name = uniqueName('p');
    const write = () =>
      catalog.write(
        'persona',
        name,
        { instructions: 'same' },
        { ifGenerationMatch: 0, justification: 'test' },
      );
    await write();
    await expect(losingReply(write)).rejects.toMatchObject({ violations: [{ type: 'GENERATION' }] });
  });

  test('a conditional delete', async () => {
    const { catalog } = clientOf();
    const name = uniqueName('p');
    await catalog.write('persona', name, {});
    const settings = { ifGenerationMatch: '1', justification: 'test' };
    expect(await losingReply(() => catalog.delete('persona', name, settings))).toEqual({ generation: '2' });
  });

  test('every read', async () => {
    await at.start();
    expect(await losingReply(() => clientOf().status(agent()))).toMatchObject({ runCount: '1' });
    expect(await losingReply(() => clientOf().catalog.read('persona', 'default'))).toMatchObject({
      generation: '0',
    });
  });
});

describe('a call that might take effect twice is not retried when its reply was lost', () => {
  const lost = async (work: () => Promise<unknown>): Promise<void> => {
    const error = await losingReply(work).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(ConnectionError);
    expect(error).toMatchObject({ isUnsent: false });
    expect(requests).toBe(1);
  };

  test('createTasks', async () => {
    await at.start();
    await lost(() => clientOf().createTasks(agent(), [{ subject: 'once' }]));
    expect(await at.tenant.tasks('agent')).toHaveLength(1);
  });

  test('clearFollowUps', async () => {
    await at.start();
    await lost(() => clientOf().clearFollowUps(agent()));
  });

  test('a write and a delete without a generation', async () => {
    const name = uniqueName('p');
    await lost(() => clientOf().catalog.write('persona', name, {}));
    requests = 0;
    await lost(() => clientOf().catalog.delete('persona', name));
  });

  const secretDocuments: Readonly<Record<string, Document>> = {
    token: { role: 'viewer' },
    'share-link': { agentId: { agent: ['agent'] } },
    integration: { type: 'github' },
    notification: { type: 'webhook', url: 'https://example.com/hook', events: ['agent.idle'] },
    trigger: { agentId: { agent: ['agent'] }, message: 'hi' },
  };
  test.each(kinds.filter(shownOnceFieldOf))('a write of %s, which returns a secret', async (kind) => {
    await at.start();
    const document = secretDocuments[kind] ?? {};
    await lost(() =>
      clientOf().catalog.write(`${kind}s`, uniqueName('p'), document, { ifGenerationMatch: 0 }),
    );
  });
});

test('all operations wait for a rate limit to end', async ({ onTestFinished }) => {
  const server = await sharedServer(rateLimited);
  onTestFinished(server.close);
  let retries = 0;
  const client = new MusterClient({
    url: server.url,
    apiKey: server.key,
    retries: { tries: 100, withinMs: 60_000 },
    onRetry: ({ error, delayMs }) => {
      retries += 1;
      expect(error).toMatchObject({ name: 'ResourceExhaustedError', retryAfterMs: 1000 });
      expect(delayMs).toBeGreaterThanOrEqual(1000);
    },
  });
  await client.spawn({ path: 'agent', model: 'rehearsal-a' });
  const subjects = Array.from({ length: 10 }, (_, i) => `${i}`);
  await Promise.all(subjects.map((subject) => client.createTasks('agent', [{ subject }])));
  const { tasks } = await client.tasks('agent');
  expect(tasks.map(({ subject }) => subject).sort()).toEqual(subjects);
  expect(retries).toBeGreaterThan(0);
});

describe('a wait', () => {
  test('survives a lost or silent connection', async () => {
    let retries = 0;
    const claim = await at.start();
    const waits = await at.heldWaits(agent(), { silenceMs: 2_000, onRetry: () => retries++ });
    at.proxy.set('cut');
    at.proxy.set('through');
    await until(
      'a retry',
      async () => retries,
      (count) => count > 0,
    );
    at.proxy.set('half-open');
    at.proxy.set('through');
    await at.tenant.end(claim);
    for (const wait of waits) expect(await wait).toMatchObject({ phaseReason: 'RESTING' });
  });

  test('ignores the keep-alive white space, also when the connection is lost after it', async () => {
    let waits = 0;
    const server = await listening(
      createServer((_, response) => {
        waits += 1;
        response.writeHead(200, { 'content-type': 'application/json; charset=utf-8' });
        response.write('  ');
        if (waits === 1) setImmediate(() => response.destroy());
        else if (waits === 2) response.end();
        else response.end(' {"phase":"PHASE_COMPLETED"}');
      }),
    );
    try {
      const client = clientOf({ url: server.url, retries: { firstDelayMs: 1 } });
      expect(await client.wait('agent')).toEqual({ phase: 'PHASE_COMPLETED' });
      expect(waits).toBe(3);
    } finally {
      await server.close();
    }
  });

  test('throws refusals of the service', async () => {
    await expect(clientOf().wait(agent('nobody'))).rejects.toMatchObject({ name: 'NotFoundError' });
  });
});

describe('an abort', () => {
  test('ends every kind of call with the reason of the signal, also between tries', async () => {
    await at.start();
    const reason = new Error('enough');
    const deaf = (work: (client: MusterClient, signal: AbortSignal) => Promise<unknown>) => {
      const abort = new AbortController();
      const client = clientOf({ onRetry: () => abort.abort(reason), retries: { firstDelayMs: 1e8 } });
      return expect(work(client, abort.signal)).rejects.toBe(reason);
    };
    at.proxy.set('cut');
    await deaf((client, signal) => client.status(agent(), { signal }));
    await deaf((client, signal) => client.wait(agent(), { signal }));
    await deaf((client, signal) => client.queue(agent(), 'x', { signal }));
    await deaf((client, signal) => client.listAll({}, { signal }).next());
    await deaf((client, signal) => client.timelineAll(agent(), { signal }).next());
    await deaf((client, signal) => client.catalog.read('persona', 'default', { signal }));
    await deaf((client, signal) => client.catalog.readModifyWrite('persona', 'p', () => ({}), { signal }));
  });

  test('ends a call that hangs, and one that has not started', async () => {
    await at.start();
    at.proxy.set('half-open');
    const abort = new AbortController();
    const hanging = [
      clientOf().status(agent(), abort),
      clientOf().wait(agent(), abort),
      clientOf().call('whoami', undefined, abort),
    ];
    abort.abort(new Error('enough'));
    for (const call of hanging) await expect(call).rejects.toThrow('enough');
    await expect(clientOf().kill(agent(), abort)).rejects.toThrow('enough');
    requests = 0;
    await expect(clientOf().call('whoami', undefined, abort)).rejects.toThrow('enough');
    expect(requests).toBe(0);
  });

  test('a try that times out is retried', async () => {
    at.proxy.set('half-open');
    const client = clientOf({ timeoutMs: 200, onRetry: () => at.proxy.set('through') });
    expect(await client.whoami()).toMatchObject({ role: 'admin' });
  });
});

test('call is sent once', async () => {
  at.proxy.set('cut');
  await expect(clientOf().call('whoami', undefined)).rejects.toBeInstanceOf(ConnectionError);
  expect(requests).toBe(1);
  at.proxy.set('through');
  expect(await at.api.get('/v1/whoami')).toMatchObject({
    body: await clientOf().call('whoami', undefined),
  });
});

test('a sign-in is sent once, because its code works once', async () => {
  const { code } = await clientOf().signInCode();
  requests = 0;
  at.proxy.set('cut');
  const signingIn = signIn(
    at.proxy.url,
    { code },
    {
      fetch: (input, init) => {
        requests += 1;
        return fetch(input, init);
      },
    },
  );
  const error = await signingIn.catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(ConnectionError);
  expect(String(error)).not.toContain(code);
  expect(requests).toBe(1);
  await expect(
    signIn(at.proxy.url, { code }, { signal: AbortSignal.abort(new Error('enough')) }),
  ).rejects.toThrow('enough');
});

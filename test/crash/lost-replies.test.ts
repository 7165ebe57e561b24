import type { RouteName } from '@muster/sdk/contract';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { runConcurrently } from '../support/async.ts';
import { routeEntries } from '../support/contract-schemas.ts';
import { FaultProxy } from '../support/fault-proxy.ts';
import { newTestTenant } from '../support/test-tenant.ts';
import { lostCodeHostReplies } from './lost-code-host-reply-cases.ts';
import { lostLoginReplies } from './lost-login-reply-cases.ts';
import { type LostReply, lostReplies } from './lost-reply-cases.ts';
import { lostRunnerReplies } from './lost-runner-reply-cases.ts';
import { lostScheduleReplies } from './lost-schedule-reply-cases.ts';
import { lostThreadReplies } from './lost-thread-reply-cases.ts';
import { Node } from './node.ts';
import { attempt, RetryingClient } from './retrying-client.ts';
import { lookInto } from './store.ts';
import { printFigures, times, withinMs } from './tier.ts';

const rounds = times('MUSTER_CRASH_LOST_REPLIES', 1);

let node: Node;
beforeAll(async () => {
  node = await Node.start({ runner: false });
});
afterAll(() => node?.close());

/** Of those whose access would permit a change. */
const readsOnly: readonly string[] = [
  'listSessions',
  'listKeys',
  'showLogin',
  'audit',
  'listRunners',
  'listMembers',
  'pushSubscriptions',
  'testPush',
  // Needs a cookie; it replaces what the session had.
  'subscribePush',
  'service',
  'usage',
  'budgets',
  'listDeliveries',
  'testIntegration',
  'listTriggerDeliveries',
  'testTrigger',
  'listNotificationDeliveries',
  'testNotification',
  'validateResource',
  'signInProviders',
  'listSignIns',
  'testSignIn',
];

const mutating = routeEntries
  .filter(
    ([name, { access }]) =>
      !['self', 'read', 'demand', 'catalog-read'].includes(access) && !readsOnly.includes(name),
  )
  .map(([name]) => name);

interface Loss {
  readonly route: RouteName;
  readonly reply: LostReply;
}

const cases = {
  ...{ ...lostReplies, ...lostRunnerReplies, ...lostThreadReplies },
  ...{ ...lostCodeHostReplies, ...lostScheduleReplies, ...lostLoginReplies },
};

const prepareAll = (): Promise<Loss[]> => {
  const all = mutating.flatMap((route) => (cases[route] ?? []).map((prepare) => ({ route, prepare })));
  return runConcurrently(all.length, 4, async (index) => {
    const { route, prepare } = all[index] as (typeof all)[number];
    return {
      route,
      reply: await prepare(await newTestTenant(node.api), await node.databaseUrl()),
    };
  });
};

/** Sends the request on a connection that loses the reply: the server has replied, so it has committed. */
async function lose({ route, reply }: Loss): Promise<void> {
  const proxy = await FaultProxy.listen({ port: Number(new URL(node.url).port) });
  try {
    proxy.set('one-way');
    const sending = attempt({ url: proxy.url, key: reply.key ?? node.key }, reply.sent);
    expect(await proxy.faults(1, 20_000), `${route} was answered`).toBeGreaterThan(0);
    await proxy.close();
    expect(await sending, route).toBe('lost');
  } finally {
    await proxy.close();
  }
}

/** Sends the same request again on a working connection. */
async function retry({ route, reply }: Loss): Promise<void> {
  const client = new RetryingClient({ url: node.url, key: reply.key ?? node.key });
  await reply.between?.();
  const { answer } = await client.send(reply.sent);
  try {
    await reply.check(answer);
  } catch (error) {
    throw new Error(`${route} ${JSON.stringify(reply.sent)}: ${String(error)}`, { cause: error });
  }
  expect(client.unexpected, route).toEqual([]);
}

const expectNoViolations = async () =>
  expect(await lookInto(await node.databaseUrl(), (store) => store.violations())).toEqual([]);

test('every mutating route has a case', () => {
  expect(Object.keys(cases).sort()).toEqual([...mutating].sort());
});

test(
  'a request whose reply was lost has one effect when it is sent again, on every mutating route',
  withinMs(rounds, 10_000),
  async () => {
    let count = 0;
    for (let round = 0; round < rounds; round += 1) {
      const losses = await prepareAll();
      await runConcurrently(losses.length, 4, async (index) => {
        await lose(losses[index] as Loss);
        await retry(losses[index] as Loss);
      });
      count += losses.length;
    }
    await expectNoViolations();
    printFigures('replies lost', { routes: mutating.length, replies: count });
  },
);

test(
  'a request whose node was killed after the commit has one effect when it is sent again',
  withinMs(rounds, 15_000),
  async () => {
    let count = 0;
    for (let round = 0; round < rounds; round += 1) {
      const losses = await prepareAll();
      await runConcurrently(losses.length, 4, (index) => lose(losses[index] as Loss));
      await node.kill();
      await node.start();
      await runConcurrently(losses.length, 4, (index) => retry(losses[index] as Loss));
      count += losses.length;
    }
    await expectNoViolations();
    printFigures('replies lost with their node', { routes: mutating.length, replies: count });
  },
);

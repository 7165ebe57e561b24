import { createHmac, randomUUID } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { needsKey, type ReplyOf, type RouteName, routes, type Schema } from '@muster/sdk/contract';
import { afterAll, describe, expect, test } from 'vitest';
import { FakeGithub } from '../codehost/github.ts';
import { Receiver } from '../notify/receiver.ts';
import { Agents } from '../support/agents.ts';
import type { Api } from '../support/api.ts';
import { until } from '../support/async.ts';
import { createKey, writeResource } from '../support/catalog.ts';
import { errorSchemaProblem, replySchemaProblem, routeEntries } from '../support/contract-schemas.ts';
import { execute } from '../support/database.ts';
import { expectOk } from '../support/expect-reply.ts';
import { FakeRunner } from '../support/fake-runner.ts';
import { png, uploadTo } from '../support/images.ts';
import { PushedBrowser } from '../support/push-service.ts';
import { useSharedServer } from '../support/shared-server.ts';
import { browserOf, codeOf } from '../support/sign-in.ts';
import { newTenant } from '../support/tenants.ts';
import { readText } from '../tidy/sources.ts';
import { TestTrigger } from '../triggers/requests.ts';
import { accessSetUps } from './access-set-ups.ts';
import { type Block, blocksOf, runTypeScript } from './code-blocks.ts';
import { jsonValuesIn } from './compare-output.ts';
import { addressInPages, PageShell } from './page-shell.ts';

/**
 * Runs every example of docs/interface.md as written, after the lines at the top of the page, each in its own shell, in
 * a tenant where the agent or resource that it uses has been created.
 */
const blocks = blocksOf('docs/interface.md');
const examples = blocks.filter(({ exampleOf }) => exampleOf !== null);
const [shellLines, clientLines] = blocks.filter(({ exampleOf }) => exampleOf === null);

/** Creates what the example uses, and returns its environment variables. */
type SetUp = (admin: Api, runnerId: string) => Promise<Record<string, string>>;

const agentsOf = (admin: Api): Agents => new Agents(admin, 'default');

const nothing: SetUp = async () => ({});

const idle =
  (description = '!say Done.', more: Record<string, unknown> = {}): SetUp =>
  async (admin) => {
    await agentsOf(admin).spawn('fix-login', { description, ...more });
    await agentsOf(admin).wait('fix-login');
    return {};
  };

const idleAfterWork = idle();

/** In a long turn, with a message queued. */
const working: SetUp = async (admin) => {
  const agents = agentsOf(admin);
  await agents.spawn('fix-login', { description: '!sleep 3000' });
  await until(
    'a turn',
    () => agents.phase('fix-login'),
    (phase) => phase === 'RUNNING/WORKING',
  );
  await agents.queue('fix-login', { followUpId: 'a-follow-up', description: 'One more thing.' });
  return {};
};

const withThread: SetUp = async (admin) => {
  await idleAfterWork(admin, '');
  const comments = [{ path: 'src/login.ts', line: 12, body: 'What if the password is empty?' }];
  const review = await agentsOf(admin).send<ReplyOf<'createReview'>>('agent/threads/create', 'fix-login', {
    comments,
  });
  await agentsOf(admin).wait('fix-login');
  return { THREAD: expectOk(review).threads[0]?.threadId ?? '' };
};

const withPersona: SetUp = async (admin) => {
  await writeResource(admin, 'persona', 'terse', { instructions: 'Be terse.' });
  return {};
};

/** An agent that only a runner of the pool `builders` can take, and the key of such a runner. */
const waitingForRunner: SetUp = async (admin) => {
  await writeResource(admin, 'pool', 'builders', {});
  await writeResource(admin, 'workspace', 'built', { pool: 'builders' });
  const { key } = await createKey(admin, { role: 'runner', pool: 'builders' });
  await new Agents(admin, 'built').spawn('fix-login', { model: 'claude-opus-4-8' });
  return { MUSTER_API_KEY: key };
};

/** The same, claimed by the runner of the examples. */
const heldByRunner: SetUp = async (admin, runnerId) => {
  const { MUSTER_API_KEY: key = '' } = await waitingForRunner(admin, runnerId);
  const { agentKey } = await new FakeRunner(admin.as(key), 'builder-1', runnerId).claim();
  return { MUSTER_API_KEY: key, AGENT_KEY: agentKey };
};

/** The same, with a part of the checkpoint of the examples saved. */
const withPart: SetUp = async (admin, runnerId) => {
  const held = await heldByRunner(admin, runnerId);
  const runner = new FakeRunner(admin.as(held.MUSTER_API_KEY ?? ''), 'builder-1', runnerId);
  const run = { agentKey: held.AGENT_KEY ?? '', runId: 1 };
  expectOk(await runner.savePart(run, checkpointIdInPage, 0, Buffer.from('work')));
  return held;
};

/** The same, with the checkpoint completed. */
const withCheckpoint: SetUp = async (admin, runnerId) => {
  const held = await withPart(admin, runnerId);
  const runner = new FakeRunner(admin.as(held.MUSTER_API_KEY ?? ''), 'builder-1', runnerId);
  expectOk(
    await runner.completeCheckpoint({ agentKey: held.AGENT_KEY ?? '', runId: 1 }, checkpointIdInPage, 1),
  );
  return held;
};

/** With the key of the run. */
const inItsRun: SetUp = async (admin, runnerId) => {
  const { MUSTER_API_KEY: key = '' } = await waitingForRunner(admin, runnerId);
  const runner = new FakeRunner(admin.as(key));
  const claim = await runner.claim();
  await runner.started(claim);
  return { MUSTER_API_KEY: claim.token };
};

/** The code host of all integrations in the examples. */
const host = await FakeGithub.start();
afterAll(() => host.stop());

/** The endpoint of all notifications in the examples. */
const receiver = await Receiver.start();
afterAll(() => receiver.close());

const sentIdInPage =
  /"name": "team", "deliveryId": "([^"]+)"/.exec(examples.map(({ code }) => code).join())?.[1] ?? '';

const withNotification: SetUp = async (admin) => {
  await writeResource(admin, 'notification', 'team', { url: receiver.url });
  await execute(
    admin.databaseUrl ?? '',
    `INSERT INTO notification_deliveries (tenant, target, message_id, type, data, at, state, settled_at)
     SELECT tenant, name, '${sentIdInPage}', 'runner.lost', '{"name": "builder-1"}', now(), 'SENT', now()
     FROM notification_targets ON CONFLICT DO NOTHING`,
  );
  return {};
};

const withIntegration = async (admin: Api) => {
  await writeResource(admin, 'secret', 'github-token', { value: host.token });
  const { type, url } = host;
  return writeResource(admin, 'integration', 'github', { type, url, token: { fromSecret: 'github-token' } });
};

/** With a delivery that has the id in the page. */
const withDelivery: SetUp = async (admin) => {
  const { webhookUrl, signingKey } = await withIntegration(admin);
  const body = JSON.stringify({ zen: 'Keep it logically awesome.' });
  const digest = createHmac('sha256', String(signingKey)).update(body).digest('hex');
  const { status } = await fetch(String(webhookUrl), {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      'x-github-event': 'ping',
      'x-github-delivery': deliveryIdInPage,
      'x-hub-signature-256': `sha256=${digest}`,
    },
    body,
  });
  expect(status).toBe(202);
  return {};
};

const withSchedule: SetUp = async (admin) => {
  const spawn = { description: 'Work.', model: 'rehearsal-a' };
  await writeResource(admin, 'schedule', 'nightly', { cron: '0 7 1 1 *', spawn });
  return {};
};

const withRequest: SetUp = async (admin) => {
  const trigger = await TestTrigger.create(admin, { spawn: { model: 'rehearsal-a' } }, 'alerts');
  await trigger.take({}, { id: 'msg_2b5d8f0c' });
  return {};
};

/** With an agent that has pushed its branch to the code host. */
const withPushedBranch: SetUp = async (admin, runnerId) => {
  await withIntegration(admin);
  const { MUSTER_API_KEY: key = '' } = await waitingForRunner(admin, runnerId);
  const runner = new FakeRunner(admin.as(key));
  const claim = await runner.claim();
  await runner.started(claim);
  host.remote.commit(claim.branch, { 'login.txt': 'Fixed' });
  const push = { repo: host.gitUrl, ref: claim.branch, commits: [], files: ['login.txt'] };
  expectOk(await runner.report(claim, { pushes: [push] }));
  return {};
};

/** An invalid directive blocks the agent. */
const blocked = idle('!sleep soon');

/** With a signed-in browser. */
const signedIn: SetUp = async (admin) => {
  const { cookie, session } = await browserOf(admin.url, admin.key);
  return { COOKIE: cookie, SESSION: session.id };
};

/** With notifications, whose push service is the code host. */
const subscribed: SetUp = async (admin) => {
  const browser = await browserOf(admin.url, admin.key);
  const { subscription } = new PushedBrowser(`${host.url}/push`);
  expectOk(await browser.send('/v1/push/subscribe', subscription));
  return { COOKIE: browser.cookie, SESSION: browser.session.id };
};

const imageOf = async (admin: Api): Promise<string> =>
  expectOk(await uploadTo(admin, { agent: ['fix-login'] }, png())).attachmentId;

const withImage: SetUp = async (admin, runnerId) => ({
  ...(await idleAfterWork(admin, runnerId)),
  ATTACHMENT: await imageOf(admin),
});

const heldWithImage: SetUp = async (admin, runnerId) => {
  const held = await heldByRunner(admin, runnerId);
  return { ...held, ATTACHMENT: await imageOf(admin) };
};

const deliveryIdInPage = /"deliveryId": "([^"]+)"/.exec(examples.map(({ code }) => code).join())?.[1] ?? '';

const checkpointIdInPage =
  /"checkpointId": "([^"]+)"/.exec(examples.map(({ code }) => code).join())?.[1] ?? '';

/** Every runner process has a different id, so each example gets a new one. */
const runnerIdInPage = /"runnerId": "([^"]+)"/.exec(examples.map(({ code }) => code).join())?.[1] ?? '';

const setUps: Readonly<Record<RouteName, SetUp>> = {
  whoami: nothing,
  service: nothing,
  signInCode: nothing,
  signIn: async (admin) => ({ CODE: await codeOf(admin) }),
  session: signedIn,
  signOut: signedIn,
  listSessions: signedIn,
  revokeSession: signedIn,
  ...accessSetUps,
  pushSubscriptions: subscribed,
  subscribePush: signedIn,
  unsubscribePush: subscribed,
  testPush: subscribed,
  spawn: nothing,
  status: idleAfterWork,
  wait: idleAfterWork,
  waitMany: idle('!spawn tests Test it.'),
  markAgents: idleAfterWork,
  list: idleAfterWork,
  listStream: idleAfterWork,
  listStreamByGet: idleAfterWork,
  kill: idleAfterWork,
  setBudget: idleAfterWork,
  retry: blocked,
  retryMany: idle('!sleep soon', { labels: { team: 'web' } }),
  reopen: idle('!finish Done.'),
  deleteAgent: idle('!finish Done.'),
  labels: idleAfterWork,
  checkpoint: idle('!write login.txt Fixed'),
  diff: idle('!write login.txt Fixed\n!push Fix the login page'),
  queue: idleAfterWork,
  removeFollowUp: working,
  orderQueue: working,
  listFollowUps: working,
  followUp: working,
  clearFollowUps: working,
  uploadAttachment: idleAfterWork,
  attachment: withImage,
  stopTurn: working,
  runs: idleAfterWork,
  timeline: idleAfterWork,
  timelineStream: idleAfterWork,
  timelineStreamByGet: idleAfterWork,
  ask: inItsRun,
  finish: inItsRun,
  fail: inItsRun,
  tasks: idle('Work.', { tasks: [{ subject: 'Fix it' }] }),
  createTasks: idleAfterWork,
  updateTask: idle('!say Later.', { tasks: [{ id: 'docs', subject: 'Write it down' }] }),
  threads: withThread,
  createReview: idleAfterWork,
  replyToThread: withThread,
  resolveThread: withThread,
  writeResource: nothing,
  readResource: withPersona,
  listResources: withPersona,
  deleteResource: withPersona,
  resourceHistory: withPersona,
  validateResource: nothing,
  openChangeRequest: withPushedBranch,
  syncChangeRequests: nothing,
  testIntegration: withDelivery,
  listDeliveries: withDelivery,
  redeliver: withDelivery,
  listNotificationDeliveries: withNotification,
  redeliverNotification: withNotification,
  testNotification: withNotification,
  usage: idleAfterWork,
  budgets: idleAfterWork,
  runSchedule: withSchedule,
  scheduleHistory: withSchedule,
  listTriggerDeliveries: withRequest,
  redeliverToTrigger: withRequest,
  testTrigger: withRequest,
  poolDemand: nothing,
  listRunners: nothing,
  drainRunners: nothing,
  runnerPoll: waitingForRunner,
  runnerReport: heldByRunner,
  runnerCredit: heldByRunner,
  runnerPartials: heldByRunner,
  runnerSaveCheckpoint: heldByRunner,
  runnerCompleteCheckpoint: withPart,
  runnerCheckpoints: withCheckpoint,
  runnerLoadCheckpoint: withCheckpoint,
  runnerAttachment: heldWithImage,
  runnerSaveAttachment: heldByRunner,
  runnerGitCredential: heldByRunner,
  runnerEndedAgents: heldByRunner,
};

const server = await useSharedServer({
  env: { MUSTER_ALLOW_INNER_HOSTS: [host.url, receiver.url].map((url) => new URL(url).host).join() },
});
const { operator } = server;

/** Operations that only pages with a session cookie use. */
const isForPages = (name: RouteName): boolean =>
  ['session', 'signOut', 'subscribePush'].includes(name) || name.endsWith('ByGet');

test('every operation has an example for curl, and except for runner and page operations one in TypeScript', () => {
  const lacking = routeEntries.flatMap(([name, { access }]) => {
    const own = examples.filter(({ exampleOf }) => exampleOf === name);
    const hasCurl = own.some(({ code }) => code.startsWith('curl '));
    const hasClient =
      access === 'runner' ||
      !needsKey({ access }) ||
      isForPages(name) ||
      own.some(({ language }) => language === 'ts');
    return hasCurl && hasClient ? [] : [name];
  });
  expect(lacking).toEqual([]);
});

test('the page has no code besides the examples and the lines at the top', () => {
  expect(blocks.length).toBe(examples.length + 2);
  expect([shellLines?.language, clientLines?.language]).toEqual(['sh', 'ts']);
});

test('the prose names every path and every field of the contract', () => {
  const prose = readText('docs/interface.md').replace(/<!-- generated: [\s\S]*?<!-- end -->/g, '');
  const words = new Set([...prose.matchAll(/`[^`]*`/g)].flatMap(([code]) => code.match(/\w+/g) ?? []));
  const fieldsIn = ({ properties = {}, items, anyOf = [] }: Schema): string[] => [
    ...Object.keys(properties),
    ...[...Object.values(properties), ...(items ? [items] : []), ...anyOf].flatMap(fieldsIn),
  ];
  const missing = routeEntries.flatMap(([, { path, body = {}, query = {}, reply }]) => [
    ...(prose.includes(path.replaceAll('ref.', '')) ? [] : [path]),
    ...[body, query, reply].flatMap(fieldsIn).filter((field) => !words.has(field.split('.').at(-1) ?? '')),
  ]);
  expect([...new Set(missing)]).toEqual([]);
});

interface Prepared {
  readonly key: string;
  readonly runnerId: string;
  readonly variables: Readonly<Record<string, string>>;
}

const preparedReads = new Map<SetUp, Promise<Prepared>>();

/** A tenant with what the example uses. Examples that only read share one. */
function preparedFor(name: RouteName): Promise<Prepared> {
  if (!['read', 'catalog-read'].includes(routes[name].access)) return prepare(name);
  const prepared = preparedReads.get(setUps[name]) ?? prepare(name);
  preparedReads.set(setUps[name], prepared);
  return prepared;
}

async function prepare(name: RouteName): Promise<Prepared> {
  const { admin } = await newTenant(operator);
  const runnerId = randomUUID();
  const { MUSTER_API_KEY: key = admin.key, ...variables } = await setUps[name](admin, runnerId);
  return { key, runnerId, variables };
}

/** Runs until Ctrl-C. */
const runsUntilStopped = ({ exampleOf, language }: Block): boolean =>
  language === 'sh' && 'stream' in routes[exampleOf as RouteName];

const kindOf = ({ code, language }: Block): string =>
  language === 'ts' ? 'TypeScript' : code.startsWith('curl ') ? 'curl' : 'the command line';

describe.each(examples.map((block) => [block.exampleOf as RouteName, kindOf(block), block] as const))(
  '%s by %s',
  (name, kind, block) => {
    test('runs as written', async () => {
      const { key, runnerId, variables } = await preparedFor(name);
      const pageShell = new PageShell();
      writeFileSync(join(pageShell.folder, 'screenshot.png'), png());
      writeFileSync(join(pageShell.folder, 'part-0'), 'work');
      try {
        if (kind === 'TypeScript') {
          const env = { MUSTER_URL: server.url, MUSTER_API_KEY: key, ...variables };
          await runTypeScript(`${clientLines?.code}\n${block.code}`, pageShell.folder, env);
          return;
        }
        mkdirSync(join(pageShell.folder, '.muster'));
        writeFileSync(join(pageShell.folder, '.muster/admin.key'), `${key}\n`);
        const { printed, code } = await runAsWritten(
          pageShell,
          { ...block, code: block.code.replaceAll(runnerIdInPage, runnerId) },
          variables,
        );

        // They say with 1 that the service has no provider key, and that nobody listens at the address of the sign-in.
        const expected = kind !== 'curl' && ['service', 'testSignIn'].includes(name) ? 1 : 0;
        if (!runsUntilStopped(block)) expect({ code, printed }).toEqual({ code: expected, printed });
        if (kind !== 'curl') return;
        const [reply] = jsonValuesIn(printed);
        expect(errorSchemaProblem(reply), printed).toBeDefined();
        expect(replySchemaProblem(name, reply)).toBeUndefined();
      } finally {
        pageShell.close();
      }
    });
  },
);

async function runAsWritten(pageShell: PageShell, block: Block, variables: Readonly<Record<string, string>>) {
  const exports = Object.entries(variables).map(([name, value]) => `export ${name}=${value}\n`);
  const above = `${shellLines?.code.replaceAll(addressInPages, server.url)}${exports.join('')}`;
  const shell = (code: string): readonly string[] => [
    'bash',
    '-e',
    '-o',
    'pipefail',
    '-c',
    `${above}${code}`,
  ];
  return pageShell.runProgram(shell(block.code), runsUntilStopped(block) ? /Done\.|fix-login/ : undefined);
}

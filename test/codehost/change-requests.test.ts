import type { Thread, TimelineEntry } from '@muster/sdk/contract';
import { afterAll, beforeAll, describe, it, type TestContext } from 'vitest';
import { decode, readResource } from '../support/catalog.ts';
import { type Server, startServer } from '../support/server.ts';
import { FakeGithub } from './github.ts';
import { longTestMs, until } from './patience.ts';
import { PlayedAgents } from './played-agents.ts';
import { envFor, type IntegrationFields, Scenario } from './scenario.ts';
import { TriggeredAgent } from './triggered-agent.ts';

/** One for each test; they share a service. */
const free: FakeGithub[] = [];
let server: Server;
beforeAll(async () => {
  for (let i = 0; i < 16; i++) free.push(await FakeGithub.start());
  server = await startServer({ env: envFor(...free), runner: false });
}, longTestMs);
afterAll(() => server.close());

function takeHost(): FakeGithub {
  const host = free.pop();
  if (!host) throw new Error('more tests than hosts');
  return host;
}

/** All tests run at the same time, each with an agent and a host of its own. */
const scenarioTest = (name: string, run: (context: TestContext) => Promise<void>) =>
  it.concurrent(name, run, longTestMs);

/** An agent that an issue has triggered, at a host of its own. */
async function triggeredAgent(
  onTestFinished: TestContext['onTestFinished'],
  fields: IntegrationFields = {},
): Promise<TriggeredAgent> {
  const host = takeHost();
  const scenario = await Scenario.start(host, fields, server);
  const played = await PlayedAgents.start(host, scenario.api);
  onTestFinished(async () => {
    played.stop();
    await scenario.close();
  });
  return TriggeredAgent.start(host, scenario, played);
}

describe('a change request', () => {
  scenarioTest(
    'is opened on demand, once, with the summary, the page of the agent and the issue',
    async ({ expect, onTestFinished }) => {
      const agent = await triggeredAgent(onTestFinished, { changeRequests: 'manual' });
      const { host, scenario } = agent;
      expect((await agent.open()).status).toBe(400);
      await agent.push('hello');
      await scenario.untilAgent('its response', ({ response }) => response === 'Wrote hello.');
      await agent.atRest();
      expect((await agent.open({ title: 'Say hello', draft: true })).status).toBe(200);
      // On a busy machine the host may answer after the reply.
      const first = await scenario.untilRequest('a draft', ({ state }) => state === 'DRAFT');
      expect(first).toMatchObject({ title: 'Say hello', base: 'main' });
      const { number, name } = first;
      expect((await agent.open()).body.changeRequest.number).toBe(number);
      const text = await host.textOf(number);
      expect(text).toContain('Wrote hello.');
      expect(text).toContain('Closes #1');
      expect(text).toContain((await scenario.status()).dashboardUrl);
      const { body } = await readResource(scenario.api, 'change-request', name);
      expect(body).toMatchObject({ kind: 'change-request', generation: '0' });
      expect(decode(body.payload)).toMatchObject({ name, repo: 'team/project', number, state: 'DRAFT' });
      const written = await scenario.api.post(`/v1/catalog/change-request/${name}`, { payload: '' });
      expect(written.body).toMatchObject({ code: 9 });
      const list = await scenario.api.get<{ entries: { name: string; generation: string }[] }>(
        '/v1/catalog/change-request',
      );
      expect(list.body.entries).toContainEqual(expect.objectContaining({ name, generation: '0' }));
    },
  );

  scenarioTest('can be opened again after the host refused it', async ({ expect, onTestFinished }) => {
    const agent = await triggeredAgent(onTestFinished, { changeRequests: 'manual' });
    await agent.push('hello');
    await agent.scenario.untilAgent('a branch', ({ branch }) => branch !== '');
    await agent.atRest();
    agent.host.faults.add({ method: 'POST', path: /\/pulls$/, reply: { status: 403 } });
    expect(await agent.open()).toMatchObject({ status: 400, body: { message: /403/ } });
    expect((await agent.open({ title: 'The second try' })).status).toBe(200);
    expect(await agent.opened()).toMatchObject({ title: 'The second try' });
  });

  scenarioTest(
    'is found when somebody opens one from the branch of an agent',
    async ({ expect, onTestFinished }) => {
      const agent = await triggeredAgent(onTestFinished, { changeRequests: 'off' });
      const { host, scenario } = agent;
      await agent.push('hello');
      const { branch } = await scenario.untilAgent('a branch', ({ branch: name }) => name !== '');
      expect((await agent.open()).status).toBe(400);
      const number = await host.openFrom(branch, 'Opened by a person', 'maintainer');
      const found = await scenario.untilRequest('a record', (request) => request.number === number);
      expect(found).toMatchObject({ title: 'Opened by a person', branch });
    },
  );

  scenarioTest('that a person closed is not opened again by itself', async ({ expect, onTestFinished }) => {
    const agent = await triggeredAgent(onTestFinished);
    const { host, scenario } = agent;
    await agent.push('hello');
    const { number } = await agent.opened();
    await host.close(number, 'maintainer');
    await scenario.untilRequest('a closed one', ({ state }) => state === 'CLOSED');
    await agent.untilTold(/was closed without being merged/);
    await agent.push('more');
    await scenario.untilAgent(
      'the end of the run',
      ({ phase, response }) => response === 'Wrote more.' && phase === 'PHASE_WAITING_FOR_INPUT',
    );
    await scenario.untilSent();
    expect((await scenario.status()).changeRequests).toHaveLength(1);
  });

  scenarioTest(
    'that is merged completes its agent, if the integration says so',
    async ({ onTestFinished }) => {
      const agent = await triggeredAgent(onTestFinished, { onMerged: 'finish' });
      const { host, scenario } = agent;
      await agent.push('hello');
      const { number } = await agent.opened();
      await agent.atRest();
      await host.merge(number, 'maintainer');
      await scenario.untilAgent('the end', ({ phase }) => phase === 'PHASE_COMPLETED');
    },
  );

  scenarioTest(
    'whose deliveries were lost is compared on demand and after a start',
    async ({ onTestFinished }) => {
      const agent = await triggeredAgent(onTestFinished);
      const { host, scenario } = agent;
      await agent.push('hello');
      const { number } = await agent.opened();
      host.deliveries.hold();
      await host.comment({ type: 'change-request', number }, 'Nobody delivered this.', 'reviewer');
      host.deliveries.release({ drop: true });
      await scenario.sync();
      await agent.untilTold(/Nobody delivered this/);
    },
  );
});

describe('a change request of an agent that has ended', () => {
  scenarioTest('reopens it with a comment, unless it was killed', async ({ expect, onTestFinished }) => {
    const agent = await triggeredAgent(onTestFinished);
    const { host, scenario } = agent;
    await agent.push('hello');
    const { number } = await agent.opened();
    await scenario.tell('!finish done');
    await scenario.untilAgent('the end', ({ phase }) => phase === 'PHASE_COMPLETED');
    await host.comment({ type: 'change-request', number }, 'One more thing.', 'reviewer');
    await agent.untilTold(/One more thing/);
    await agent.atRest();
    await scenario.api.post('/v1/agent/kill', { agentId: scenario.agentId });
    await host.comment({ type: 'change-request', number }, 'And another.', 'reviewer');
    await until(
      'settled deliveries',
      () => scenario.deliveries(),
      (all) => all.every(({ state }) => state !== 'RECEIVED'),
    );
    expect((await agent.messages()).filter((text) => /And another/.test(text))).toEqual([]);
  });
});

describe('checks', () => {
  scenarioTest(
    'that failed are told with the end of the log, so often in a row, until a person writes',
    async ({ expect, onTestFinished }) => {
      const agent = await triggeredAgent(onTestFinished, {
        checks: { rounds: 1, ignore: ['coverage'] },
      });
      const { host, scenario } = agent;
      await agent.push('hello');
      const fail = (sha: string, log: string) =>
        host.setCheck(sha, { name: 'test', state: 'FAILED', summary: 'one failed', log });
      const { number, headSha } = await agent.opened();
      await host.setCheck(headSha, { name: 'coverage', state: 'FAILED' });
      await host.setCheck(headSha, { name: 'lint', state: 'PENDING' });
      await fail(headSha, `${'x\n'.repeat(20_000)}the last line of the log`);
      await scenario.untilRequest('pending checks', ({ checks }) => checks.state === 'PENDING');
      await host.setCheck(headSha, { name: 'lint', state: 'PASSED' });
      const [told = ''] = await agent.untilTold(/Checks of your change request .* failed/);
      expect(told).toContain('test');
      expect(told).not.toContain('coverage');
      await until(
        'a task for the failed check',
        () =>
          scenario.api.post<{ entries: TimelineEntry[] }>('/v1/agent/timeline', {
            agentId: scenario.agentId,
            types: ['TASK_CHANGED'],
          }),
        ({ body }) => JSON.stringify(body.entries).includes('Check failed: test'),
      );
      await agent.push('a fix');
      const second = await scenario.untilRequest('a new head', ({ headSha: sha }) => sha !== headSha);
      await fail(second.headSha, 'again');
      await agent.untilTold(/Checks of your change request .* failed/, 2);
      host.remote.commit(second.branch, { 'a.txt': 'by a person' });
      // A push that the host does not report.
      await host.textOf(number);
      await scenario.sync();
      const third = await scenario.untilRequest('a newer head', ({ headSha: sha }) => sha !== second.headSha);
      await fail(third.headSha, 'again');
      await scenario.untilRequest('a pause', ({ paused }) => paused);
      await until(
        'a comment that says so',
        () => host.threads(number),
        (threads) =>
          threads.filter(({ comments }) => /It is paused/.test(comments[0]?.body ?? '')).length === 1,
      );
      await scenario.tell('!say go on');
      await scenario.untilRequest('no pause', ({ paused }) => !paused);
    },
  );
});

describe('a conflict with the base branch', () => {
  scenarioTest('is told once', async ({ expect, onTestFinished }) => {
    const agent = await triggeredAgent(onTestFinished);
    const { host, scenario } = agent;
    await agent.push('hello');
    const { number } = await agent.opened();
    host.remote.commit('main', { 'a.txt': 'from somebody else\n' });
    await host.textOf(number);
    await scenario.sync();
    const [told = ''] = await agent.untilTold(/conflicts with its base branch/);
    expect(told).toContain('Merge main into your branch');
    await agent.atRest();
    await host.comment({ type: 'change-request', number }, 'Compare it again.', 'reviewer');
    await agent.untilTold(/Compare it again/);
    await scenario.sync();
    await host.comment({ type: 'change-request', number }, 'And again.', 'reviewer');
    await agent.untilTold(/And again/);
    expect(await agent.untilTold(/conflicts with its base branch/)).toHaveLength(1);
  });
});

describe('a thread that was resolved', () => {
  scenarioTest(
    'is opened at the host when a person opens it here or replies, and stays open',
    async ({ expect, onTestFinished }) => {
      const agent = await triggeredAgent(onTestFinished);
      const { host, scenario } = agent;
      await agent.push('hello');
      const { number } = await agent.opened();
      await agent.atRest();
      const body = 'Say Hello.';
      const threads = [{ path: 'a.txt', line: 1, body }];
      await host.review(number, { by: 'reviewer', verdict: 'COMMENTED', threads });
      const untilResolved = (isResolved: boolean) =>
        until(
          `a thread that is ${isResolved ? 'resolved' : 'open'} here and there`,
          async () => {
            const [there] = (await host.threads(number)).filter(({ path }) => path === 'a.txt');
            const [here] = await agent.threads();
            return { there, here };
          },
          ({ there, here }) =>
            there?.isResolved === isResolved && here?.state === (isResolved ? 'RESOLVED' : 'OPEN'),
        );
      const { threadId } = (await untilResolved(true)).here as Thread;
      const { agentId, api } = scenario;
      const opened = await api.post('/v1/agent/threads/resolve', { agentId, threadId, resolved: false });
      expect(opened.status).toBe(200);
      await untilResolved(false);
      await scenario.sync();
      await scenario.untilSent();
      await untilResolved(false);
      await api.post('/v1/agent/threads/resolve', { agentId, threadId });
      await untilResolved(true);
      await api.post('/v1/agent/threads/reply', { agentId, threadId, body: 'Why?\ndecline: no reason' });
      await untilResolved(false);
    },
  );
});

describe('a review that is longer than a message', () => {
  scenarioTest(
    'is told in several, with the beginning of each comment',
    async ({ expect, onTestFinished }) => {
      const agent = await triggeredAgent(onTestFinished);
      const { host } = agent;
      await agent.push('hello');
      const { number } = await agent.opened();
      await agent.atRest();
      // It answers none of them.
      agent.played.stop();
      const threads = Array.from({ length: 70 }, (_, i) => ({
        ...{ path: 'a.txt', line: 1 },
        body: `Thread ${i}. ${'Long. '.repeat(2800)}`,
      }));
      await host.review(number, { by: 'reviewer', verdict: 'COMMENTED', threads });
      await agent.untilTold(/^People commented on your change request/, 2);
      const texts = (await agent.threads()).map(({ comments }) => comments[0]?.body ?? '');
      expect(new Set(texts.map((text) => text.split('.')[0])).size).toBe(threads.length);
      expect(texts.filter((text) => text.endsWith('[cut]'))).toHaveLength(threads.length);
      expect(await agent.untilTold(/^People commented/)).toHaveLength(2);
    },
  );
});

describe('automatic rounds', () => {
  scenarioTest(
    'end after the configured number, with one comment, until a person writes',
    async ({ expect, onTestFinished }) => {
      const agent = await triggeredAgent(onTestFinished, { rounds: 2 });
      const { host, scenario } = agent;
      await agent.push('hello');
      const { number } = await agent.opened();
      await agent.atRest();
      // The message that made it push is the person's last.
      await scenario.untilRequest('no rounds yet', ({ rounds }) => rounds === 0);
      const say = (text: string) => host.comment({ type: 'change-request', number }, text, 'reviewer');
      for (const text of ['The first.', 'The second.']) {
        await say(text);
        await agent.untilTold(new RegExp(text));
        await agent.atRest();
      }
      await say('The third.');
      await scenario.untilRequest('a pause', ({ paused }) => paused);
      const pauses = async () =>
        (await host.threads(number)).filter(({ comments }) => /It is paused/.test(comments[0]?.body ?? ''));
      await until('a comment that says so', pauses, (found) => found.length === 1);
      await say('The fourth.');
      await scenario.sync();
      await scenario.untilSent();
      expect((await agent.messages()).filter((text) => /The third|The fourth/.test(text))).toEqual([]);
      await scenario.tell('!say go on');
      await agent.untilTold(/The third/);
      await agent.untilTold(/The fourth/);
      await scenario.untilRequest('no pause', ({ paused }) => !paused);
      expect(await pauses()).toHaveLength(1);
    },
  );
});

describe('an assignment', () => {
  scenarioTest(
    'to the account of the integration starts an agent, and to another nothing; a killed one stays so',
    async ({ expect, onTestFinished }) => {
      const host = takeHost();
      const scenario = await Scenario.start(host, { triggers: { assigned: true } }, server);
      onTestFinished(() => scenario.close());
      const other = await host.addIssue('maintainer', 'Another', 'For a person.');
      await host.assign({ type: 'issue', number: other }, 'reviewer', 'maintainer');
      const number = await host.addIssue('maintainer', 'The greeting is wrong', 'It says helo.');
      await host.assign({ type: 'issue', number }, 'muster-account', 'maintainer');
      await scenario.untilComment(number);
      const deliveries = await until(
        'settled deliveries',
        () => scenario.deliveries(),
        (all) => all.every(({ state }) => state !== 'RECEIVED'),
      );
      expect(deliveries.map(({ reason }) => reason)).toContain('it was assigned to somebody else');
      const [agent, ...more] = await scenario.agents();
      expect(more).toEqual([]);
      expect((await scenario.api.post('/v1/agent/kill', { agentId: agent?.agentId })).status).toBe(200);
      // Asking the host again shows the assignment of the killed one, and one that no delivery told.
      const missed = await scenario.unreported((issue) => host.assign(issue, 'muster-account', 'reviewer'));
      await scenario.sync();
      await scenario.untilComment(missed);
      await scenario.untilSent();
      expect(await host.comments({ type: 'issue', number })).toHaveLength(1);
      expect(await host.comments({ type: 'issue', number: other })).toEqual([]);
    },
  );
});

describe('a trigger', () => {
  scenarioTest('that is delivered again changes nothing', async ({ expect, onTestFinished }) => {
    const agent = await triggeredAgent(onTestFinished);
    const { api, integration: name } = agent.scenario;
    const labelled = (await agent.scenario.deliveries()).find(({ event }) => event === 'issues.labeled');
    const { deliveryId } = labelled ?? {};
    const again = await api.post('/v1/integration/redeliver', { name, deliveryId });
    expect(again.status).toBe(200);
    const settled = await until(
      'the delivery again',
      async () => (await agent.scenario.deliveries()).find((one) => one.deliveryId === deliveryId),
      (one) => one?.state !== 'RECEIVED',
    );
    expect(settled?.state).toBe('DONE');
    expect(await agent.messages()).toEqual([]);
    expect(await agent.scenario.agents()).toHaveLength(1);
  });
});

describe('a second trigger', () => {
  scenarioTest('is a message to the same agent', async ({ expect, onTestFinished }) => {
    const agent = await triggeredAgent(onTestFinished);
    const { host, scenario } = agent;
    await host.comment({ type: 'issue', number: 1 }, '@muster please also say goodbye', 'maintainer');
    await agent.untilTold(/please also say goodbye/);
    expect(await scenario.agents()).toHaveLength(1);
  });

  scenarioTest('that arrives together with the first is told too', async ({ expect, onTestFinished }) => {
    const host = takeHost();
    const scenario = await Scenario.start(host, {}, server);
    onTestFinished(() => scenario.close());
    const wishes = ['hello', 'goodbye', 'thanks'];
    host.deliveries.hold();
    const number = await host.addIssue('maintainer', 'The greeting is wrong', 'It says helo.');
    for (const wish of wishes)
      await host.comment({ type: 'issue', number }, `@muster say ${wish}`, 'maintainer');
    host.deliveries.release();
    await scenario.adopt();
    await until(
      'a description and two messages',
      async () => {
        const { body } = await scenario.api.post<{ entries: TimelineEntry[] }>('/v1/agent/timeline', {
          agentId: scenario.agentId,
          types: ['AGENT_SPAWNED', 'FOLLOW_UP_QUEUED'],
        });
        return body.entries.map(({ text }) => text).join();
      },
      (texts) => wishes.every((wish) => texts.includes(`say ${wish}`)),
    );
    expect(await scenario.agents()).toHaveLength(1);
  });
});

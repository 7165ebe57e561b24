import type { Delivery } from '@muster/sdk/contract';
import { describe } from 'vitest';
import { decode, readResource, writeResource } from '../support/catalog.ts';
import { tokenOf } from './github.ts';
import { LifeTests } from './life-tests.ts';
import { until } from './patience.ts';
import type { TriggeredAgent } from './triggered-agent.ts';

const tests = new LifeTests(14);

/** A second integration with the repository, whose name comes first. It belongs to the account of the maintainer. */
async function secondIntegration({ host, scenario }: TriggeredAgent): Promise<string> {
  const { api, workspace } = scenario;
  const name = 'a-second';
  await writeResource(api, 'secret', 'second-token', { value: tokenOf('maintainer') });
  const written = await writeResource(api, 'integration', name, {
    ...{ type: host.type, url: host.url, token: { fromSecret: 'second-token' }, workspace },
    ...{ changeRequests: 'auto', triggers: { mention: '@second' } },
  });
  host.server.second = { url: String(written.webhookUrl), secret: String(written.signingKey) };
  return name;
}

describe('two integrations with one repository', () => {
  tests.test(
    'leave a change request to that of its agent, and do not answer each other',
    async ({ expect, onTestFinished }) => {
      const agent = await tests.triggeredAgent(onTestFinished);
      const { host, scenario } = agent;
      const { api } = scenario;
      const other = await secondIntegration(agent);
      await agent.push('hello');
      const { number, integration } = await agent.opened();
      expect(integration).toBe(scenario.integration);
      await agent.atRest();
      await host.comment({ type: 'change-request', number }, '@second please look.', 'reviewer');
      await agent.untilTold(/@second please look/);
      // Both integrations have posted: an announcement of the second, an answer of the first.
      await until(
        'two posts',
        () => host.comments({ type: 'change-request', number }),
        (all) => all.length >= 3,
      );
      const settled = await until(
        'settled deliveries of the second',
        async () =>
          (await api.post<{ entries: Delivery[] }>('/v1/integration/deliveries', { name: other })).body,
        ({ entries }) => entries.every(({ state }) => state !== 'RECEIVED'),
      );
      expect(settled.entries.map(({ reason }) => reason)).toContain(
        `the change request belongs to the integration "${scenario.integration}"`,
      );
      await agent.compare();
      expect((await agent.messages()).filter((text) => /People commented/.test(text))).toHaveLength(1);
      expect((await scenario.status()).changeRequests).toHaveLength(1);
      expect(await host.comments({ type: 'change-request', number })).toHaveLength(3);
    },
  );

  tests.test(
    'start no agent by what one of them posts with a mention of the other',
    async ({ expect, onTestFinished }) => {
      const agent = await tests.triggeredAgent(onTestFinished);
      const { host, scenario } = agent;
      const { api, agentId } = scenario;
      const other = await secondIntegration(agent);
      await scenario.tell('!write a.txt hello\n!push Write it\n!say Please look, @second.');
      const { number } = await agent.opened();
      expect(await host.textOf(number)).toContain('Please look, @second.');
      await host.comment({ type: 'change-request', number }, 'Say more.', 'reviewer');
      await agent.untilTold(/Say more/);
      const [thread] = await agent.threads();
      const answer = { agentId, threadId: thread?.threadId, body: 'What do you think, @second?' };
      expect((await api.post('/v1/agent/threads/reply', answer)).status).toBe(200);
      const settled = await until(
        'two posts that were ignored',
        async () =>
          (await api.post<{ entries: Delivery[] }>('/v1/integration/deliveries', { name: other })).body
            .entries,
        (all) => all.filter(({ reason }) => reason === 'another integration posted it').length >= 2,
      );
      expect(settled.map(({ event }) => event)).toContain('pull_request.opened');
      const { body } = await api.post('/v1/agents', { account: `service_profile/${other}` });
      expect(body).toMatchObject({ entries: [] });
    },
  );
});

describe('the calls of a change request', () => {
  tests.test('grow with what is new, and not with what is there', async ({ expect, onTestFinished }) => {
    const { agent, number } = await tests.openRequest(onTestFinished);
    const { host } = agent;
    // It answers none of them.
    agent.played.stop();
    const { requests } = host.server;
    const threads = Array.from({ length: 120 }, (_, i) => ({ path: 'a.txt', line: 1, body: `Thread ${i}.` }));
    const before = requests.length;
    await host.review(number, { by: 'reviewer', verdict: 'COMMENTED', threads });
    await agent.untilTold(/^People commented on your change request/, 2);
    expect(requests.length - before).toBeLessThan(threads.length);
    await agent.compare();
    const known = requests.length;
    await agent.compare();
    // Only the threads themselves, which have no ETag, in two pages; others may have been asked for twice.
    const counted = requests.slice(known).filter(({ status }) => status !== 304);
    expect(counted.length).toBeLessThan(10);
  });
});

describe('a change request', () => {
  tests.test(
    'that is opened again without a delivery is found, and its second end is told',
    async ({ expect, onTestFinished }) => {
      const { agent, number } = await tests.openRequest(onTestFinished);
      const { host, scenario } = agent;
      await host.close(number, 'maintainer');
      await agent.untilTold(/was closed without being merged/);
      await scenario.untilRequest('a closed one', ({ state }) => state === 'CLOSED');
      host.deliveries.hold();
      await host.reopen(number, 'maintainer');
      host.deliveries.release({ drop: true });
      expect((await agent.compare()).state).toBe('OPEN');
      await host.close(number, 'maintainer');
      await agent.untilTold(/was closed without being merged/, 2);
    },
  );

  tests.test('is compared when its base branch moves', async ({ onTestFinished }) => {
    const { agent } = await tests.openRequest(onTestFinished);
    const { host } = agent;
    host.server.reportsPushes = true;
    host.remote.commit('main', { 'a.txt': 'from somebody else\n' });
    await host.server.mirror();
    await agent.untilTold(/conflicts with its base branch/);
  });

  tests.test('whose branch somebody else pushed to is told so once', async ({ expect, onTestFinished }) => {
    const { agent, number } = await tests.openRequest(onTestFinished);
    const { host, scenario } = agent;
    await agent.compare();
    const { branch, headSha } = await agent.opened();
    const pushed = host.remote.commit(branch, { 'b.txt': 'by a person\n' });
    await host.textOf(number);
    await scenario.untilRequest('a new head', (request) => request.headSha !== headSha);
    const [told = ''] = await agent.untilTold(/Somebody pushed to the branch/);
    expect(told).toContain(pushed);
    expect(told).toContain('a push without them is refused');
    await agent.compare();
    expect(await agent.untilTold(/Somebody pushed to the branch/)).toHaveLength(1);
  });

  tests.test(
    'that was merged is followed by another one, also if nobody said that it was',
    async ({ expect, onTestFinished }) => {
      const { agent, number } = await tests.openRequest(onTestFinished);
      const { host, scenario } = agent;
      host.deliveries.hold();
      await host.merge(number, 'maintainer');
      host.deliveries.release({ drop: true });
      await agent.push('more');
      const second = await scenario.untilRequest('a second one', (request) => request.number !== number);
      expect(second.state).toBe('OPEN');
      expect(await host.textOf(second.number)).toContain('Closes #1');
      expect((await agent.open()).body.changeRequest.number).toBe(second.number);
    },
  );

  tests.test(
    'that is merged while the run works that pushed to it is not followed by another one',
    async ({ expect, onTestFinished }) => {
      const { agent, number } = await tests.openRequest(onTestFinished);
      const { host, scenario, played } = agent;
      const merged = new Promise<void>((resolve) => {
        played.beforeEnd = async () => {
          await host.merge(number, 'maintainer');
          await scenario.untilRequest('a merged one', ({ state }) => state === 'MERGED');
          resolve();
        };
      });
      await agent.push('more');
      await merged;
      await scenario.untilSent();
      const { changeRequests } = await scenario.status();
      expect(changeRequests.map((request) => request.number)).toEqual([number]);
      expect(await agent.warnings()).toEqual([]);
    },
  );

  tests.test('that somebody opened is found without a delivery', async ({ onTestFinished }) => {
    const agent = await tests.triggeredAgent(onTestFinished, { changeRequests: 'manual' });
    const { host, scenario } = agent;
    await agent.push('hello');
    const { branch } = await scenario.untilAgent('a branch', (status) => status.branch !== '');
    await agent.atRest();
    host.deliveries.hold();
    const number = await host.openFrom(branch, 'Opened by a person', 'maintainer');
    host.deliveries.release({ drop: true });
    await scenario.sync();
    await scenario.untilRequest('a record', (request) => request.number === number);
  });

  tests.test(
    'of a response that is longer than its host accepts has the beginning and a link',
    async ({ expect, onTestFinished }) => {
      const agent = await tests.triggeredAgent(onTestFinished);
      await agent.scenario.tell(`!write a.txt hello\n!push Write it\n!say ${'Long. '.repeat(12_500)}`);
      const { number } = await agent.opened();
      const text = await agent.host.textOf(number);
      expect(text.length).toBeLessThan(65_536);
      expect(text).toContain("[The rest is on the agent's page](http");
      expect(text).toContain('Closes #1');
    },
  );
});

describe('a conflict', () => {
  tests.test(
    'that its host computes for a while is told without another event',
    async ({ onTestFinished }) => {
      const { agent } = await tests.openRequest(onTestFinished);
      const { host } = agent;
      host.deliveries.hold();
      host.remote.commit('main', { 'a.txt': 'from somebody else\n' });
      await host.server.mirror();
      host.deliveries.release({ drop: true });
      host.server.computing = 3;
      await agent.compare();
      await agent.untilTold(/conflicts with its base branch/);
    },
  );
});

describe('a repository that was renamed', () => {
  tests.test(
    'has one record of a change request and one agent of an issue, also with its new URL in the workspace',
    async ({ expect, onTestFinished }) => {
      const { agent, number } = await tests.openRequest(onTestFinished);
      const { host, scenario, played } = agent;
      const renamed = 'team/renamed';
      host.server.renamedTo = renamed;
      played.gitUrl = `${host.url}/${renamed}.git`;
      await writeResource(scenario.api, 'workspace', scenario.workspace, {
        ...{ repos: [{ url: played.gitUrl, baseBranch: 'main' }], model: 'rehearsal-a' },
      });
      host.deliveries.hold();
      await agent.push('more');
      const request = await scenario.untilRequest('the new path', ({ repo }) => repo === renamed);
      await agent.atRest();
      await host.close(number, 'maintainer');
      await agent.compare();
      await host.reopen(number, 'maintainer');
      host.deliveries.release({ drop: true });
      await agent.push('again');
      await scenario.untilRequest('an open one again', ({ state }) => state === 'OPEN');
      const { changeRequests } = await scenario.status();
      expect(changeRequests.map(({ name }) => name)).toEqual([request.name]);

      await host.comment({ type: 'issue', number: 1 }, '@muster once more', 'maintainer');
      await agent.untilTold(/once more/);
      expect(await scenario.agents()).toHaveLength(1);
    },
  );

  tests.test(
    'has one agent of an issue that has no change request yet',
    async ({ expect, onTestFinished }) => {
      const agent = await tests.triggeredAgent(onTestFinished);
      const { host, scenario } = agent;
      host.server.renamedTo = 'team/renamed';
      await host.comment({ type: 'issue', number: 1 }, '@muster once more', 'maintainer');
      await agent.untilTold(/once more/);
      expect(await scenario.agents()).toHaveLength(1);
    },
  );
});

describe('an integration that was paused', () => {
  tests.test('says what came meanwhile when it is resumed', async ({ onTestFinished }) => {
    const { agent, number } = await tests.openRequest(onTestFinished);
    const { host, scenario } = agent;
    const { api, integration: name } = scenario;
    const { body } = await readResource(api, 'integration', name);
    const { webhookUrl: _, ...document } = decode(body.payload);
    await writeResource(api, 'integration', name, { ...document, paused: true });
    await host.comment({ type: 'change-request', number }, 'During the pause.', 'reviewer');
    await until(
      'ignored deliveries',
      () => scenario.deliveries(),
      (all) => all.some(({ reason }) => reason === 'the integration is paused'),
    );
    await writeResource(api, 'integration', name, { ...document, paused: false });
    await agent.untilTold(/During the pause/);
  });
});

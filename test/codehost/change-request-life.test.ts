import type { Delivery } from '@muster/sdk/contract';
import { afterAll, beforeAll, describe, it, type TestContext } from 'vitest';
import { decode, readResource, writeResource } from '../support/catalog.ts';
import { type Server, startServer } from '../support/server.ts';
import { FakeGithub, tokenOf } from './github.ts';
import { longTestMs, until } from './patience.ts';
import { PlayedAgents } from './played-agents.ts';
import { envFor, type IntegrationFields, Scenario } from './scenario.ts';
import { TriggeredAgent } from './triggered-agent.ts';

/** One for each test; they share a service. */
const free: FakeGithub[] = [];
let server: Server;
beforeAll(async () => {
  for (let i = 0; i < 23; i++) free.push(await FakeGithub.start());
  server = await startServer({ env: envFor(...free), runner: false });
}, longTestMs);
afterAll(async () => {
  await server.close();
  for (const host of free) await host.stop();
});

/** All tests run at the same time, each with an agent and a host of its own. */
const lifeTest = (name: string, run: (context: TestContext) => Promise<void>) =>
  it.concurrent(name, run, longTestMs);

function takeHost(): FakeGithub {
  const host = free.pop();
  if (!host) throw new Error('more tests than hosts');
  return host;
}

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

/** An agent with an open change request. */
async function openRequest(
  onTestFinished: TestContext['onTestFinished'],
  fields: IntegrationFields = {},
): Promise<{ agent: TriggeredAgent; number: number }> {
  const agent = await triggeredAgent(onTestFinished, fields);
  await agent.push('hello');
  const { number } = await agent.opened();
  await agent.atRest();
  return { agent, number };
}

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
  lifeTest(
    'leave a change request to that of its agent, and do not answer each other',
    async ({ expect, onTestFinished }) => {
      const agent = await triggeredAgent(onTestFinished);
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

  lifeTest(
    'start no agent by what one of them posts with a mention of the other',
    async ({ expect, onTestFinished }) => {
      const agent = await triggeredAgent(onTestFinished);
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
  lifeTest('grow with what is new, and not with what is there', async ({ expect, onTestFinished }) => {
    const { agent, number } = await openRequest(onTestFinished);
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
  lifeTest(
    'that is opened again without a delivery is found, and its second end is told',
    async ({ expect, onTestFinished }) => {
      const { agent, number } = await openRequest(onTestFinished);
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

  lifeTest('is compared when its base branch moves', async ({ onTestFinished }) => {
    const { agent } = await openRequest(onTestFinished);
    const { host } = agent;
    host.server.reportsPushes = true;
    host.remote.commit('main', { 'a.txt': 'from somebody else\n' });
    await host.server.mirror();
    await agent.untilTold(/conflicts with its base branch/);
  });

  lifeTest('whose branch somebody else pushed to is told so once', async ({ expect, onTestFinished }) => {
    const { agent, number } = await openRequest(onTestFinished);
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

  lifeTest(
    'that was merged is followed by another one, also if nobody said that it was',
    async ({ expect, onTestFinished }) => {
      const { agent, number } = await openRequest(onTestFinished);
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

  lifeTest(
    'that is merged while the run works that pushed to it is not followed by another one',
    async ({ expect, onTestFinished }) => {
      const { agent, number } = await openRequest(onTestFinished);
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

  lifeTest('that somebody opened is found without a delivery', async ({ onTestFinished }) => {
    const agent = await triggeredAgent(onTestFinished, { changeRequests: 'manual' });
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

  lifeTest(
    'of a response that is longer than its host accepts has the beginning and a link',
    async ({ expect, onTestFinished }) => {
      const agent = await triggeredAgent(onTestFinished);
      await agent.scenario.tell(`!write a.txt hello\n!push Write it\n!say ${'Long. '.repeat(12_500)}`);
      const { number } = await agent.opened();
      const text = await agent.host.textOf(number);
      expect(text.length).toBeLessThan(65_536);
      expect(text).toContain("[The rest is on the agent's page](http");
      expect(text).toContain('Closes #1');
    },
  );
});

describe('the account of an integration', () => {
  lifeTest(
    'starts no agent by hand, and is heard in the change request of one',
    async ({ expect, onTestFinished }) => {
      const host = takeHost();
      const token = { fromSecret: 'personal-token' };
      const scenario = await Scenario.start(host, { token }, server);
      await writeResource(scenario.api, 'secret', 'personal-token', { value: tokenOf('maintainer') });
      const played = await PlayedAgents.start(host, scenario.api);
      onTestFinished(async () => {
        played.stop();
        await scenario.close();
      });
      const number = await host.addIssue('maintainer', 'The greeting is wrong', 'It says helo.');
      const subject = { type: 'issue', number } as const;
      await host.label(subject, 'muster', 'maintainer');
      await host.comment(subject, '@muster please', 'maintainer');
      await until(
        'two ignored deliveries',
        () => scenario.deliveries(),
        (all) => all.filter(({ reason }) => reason === "the integration's own account did this").length === 2,
      );
      await host.comment(subject, '@muster please', 'reviewer');
      await scenario.adopt();
      expect(await scenario.agents()).toHaveLength(1);
      const agent = new TriggeredAgent(host, scenario, played);
      await agent.push('hello');
      const request = await agent.opened();
      await host.comment({ type: 'change-request', number: request.number }, 'By hand.', 'maintainer');
      await agent.untilTold(/By hand/);
    },
  );
});

describe('what asks for no agent', () => {
  lifeTest(
    'is a label on a closed issue, and a mention in a quote or in code',
    async ({ expect, onTestFinished }) => {
      const host = takeHost();
      const scenario = await Scenario.start(host, {}, server);
      onTestFinished(() => scenario.close());
      const number = await host.addIssue('maintainer', 'The greeting is wrong', 'It says helo.');
      const subject = { type: 'issue', number } as const;
      await host.comment(subject, '> @muster please\n\nI agree.', 'maintainer');
      await host.comment(subject, 'Write `@muster` to start an agent.', 'maintainer');
      await host.closeIssue(number);
      await host.label(subject, 'muster', 'maintainer');
      const reasons = [
        'the integration is not mentioned',
        'the integration is not mentioned',
        'the issue is closed',
      ];
      await until(
        'three ignored deliveries',
        () => scenario.deliveries(),
        (all) => all.filter(({ reason }) => reasons.includes(reason)).length === reasons.length,
      );
      expect(await scenario.agents()).toEqual([]);
    },
  );
});

describe('a thread on lines', () => {
  lifeTest('has the lines, and says that a later push changed them', async ({ expect, onTestFinished }) => {
    const { agent, number } = await openRequest(onTestFinished);
    const { host } = agent;
    host.server.hunks.set('a.txt', '@@ -0,0 +1,2 @@\n+before\n+hello');
    const review = (body: string) =>
      host.review(number, {
        by: 'reviewer',
        verdict: 'COMMENTED',
        threads: [{ path: 'a.txt', line: 1, body }],
      });
    const quoteOf = async (body: string) => {
      await agent.untilTold(/People commented/, body === 'Why?' ? 1 : 2);
      return (await agent.threads()).find(({ comments }) => comments[0]?.body === body)?.quote;
    };
    await review('Why?');
    expect(await quoteOf('Why?')).toBe('hello');
    host.server.threads.outdated.add('a.txt');
    await review('And now?');
    expect(await quoteOf('And now?')).toBe('(A later push changed this place. It was:)\nhello');
  });
});

describe('a reply', () => {
  lifeTest('that is longer than its host accepts is cut', async ({ expect, onTestFinished }) => {
    const { agent, number } = await openRequest(onTestFinished);
    const { host, scenario } = agent;
    const subject = { type: 'change-request', number } as const;
    await host.comment(subject, 'Say more.', 'reviewer');
    await agent.untilTold(/Say more/);
    const [thread] = await agent.threads();
    const answer = {
      ...{ agentId: scenario.agentId, threadId: thread?.threadId },
      body: `From here on: ${'long. '.repeat(10_900)}`,
    };
    expect((await scenario.api.post('/v1/agent/threads/reply', answer)).status).toBe(200);
    const posted = await until(
      'the reply',
      async () => (await host.comments(subject)).find(({ body }) => body.includes('From here on')),
      (found) => found !== undefined,
    );
    expect(posted?.body.length).toBeLessThan(65_536);
    expect(posted?.body).toContain("[The rest is on the agent's page](http");
  });
});

describe('a conflict', () => {
  lifeTest('that its host computes for a while is told without another event', async ({ onTestFinished }) => {
    const { agent } = await openRequest(onTestFinished);
    const { host } = agent;
    host.deliveries.hold();
    host.remote.commit('main', { 'a.txt': 'from somebody else\n' });
    await host.server.mirror();
    host.deliveries.release({ drop: true });
    host.server.computing = 3;
    await agent.compare();
    await agent.untilTold(/conflicts with its base branch/);
  });
});

describe('a repository that was renamed', () => {
  lifeTest(
    'has one record of a change request and one agent of an issue, also with its new URL in the workspace',
    async ({ expect, onTestFinished }) => {
      const { agent, number } = await openRequest(onTestFinished);
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

  lifeTest('has one agent of an issue that has no change request yet', async ({ expect, onTestFinished }) => {
    const agent = await triggeredAgent(onTestFinished);
    const { host, scenario } = agent;
    host.server.renamedTo = 'team/renamed';
    await host.comment({ type: 'issue', number: 1 }, '@muster once more', 'maintainer');
    await agent.untilTold(/once more/);
    expect(await scenario.agents()).toHaveLength(1);
  });
});

describe('what failed at the host', () => {
  const refused = { status: 403, body: '{"message": "Resource not accessible by integration"}' };
  const testOf = async ({ scenario }: TriggeredAgent) =>
    (await scenario.api.post('/v1/integration/test', { name: scenario.integration })).body;

  lifeTest(
    'for lack of a permission is said, and done after a successful test',
    async ({ expect, onTestFinished }) => {
      const agent = await triggeredAgent(onTestFinished);
      const { host } = agent;
      host.faults.add({ method: 'POST', path: /\/pulls$/, reply: refused, times: 1_000 });
      await agent.push('hello');
      const [warning = ''] = await until(
        'a warning',
        () => agent.warnings(),
        (all) => all.length > 0,
      );
      expect(warning).toContain('could not open a change request in team/project');
      expect(warning).toContain('pull requests: write');
      expect(JSON.stringify(await testOf(agent))).toContain('open in team/project was not posted');
      host.faults.clear();
      expect(JSON.stringify(await testOf(agent))).toContain('It is tried again now.');
      await agent.opened();
      expect(await agent.warnings()).toHaveLength(1);
    },
  );

  const revoked = { status: 401, body: '{"message": "Bad credentials"}' };
  const hidden = { status: 404, body: '{"message": "Not Found"}' };

  for (const [lack, reply, says] of [
    ['access to the repository', hidden, 'the credential does not reach team/project'],
    ['a credential that the host accepts', revoked, '401 Bad credentials'],
  ] as const)
    lifeTest(
      `for lack of ${lack} is said, and done after a successful test`,
      async ({ expect, onTestFinished }) => {
        const agent = await triggeredAgent(onTestFinished);
        const { host, scenario } = agent;
        // Its base branch has to be asked for.
        await writeResource(scenario.api, 'workspace', scenario.workspace, {
          ...{ repos: [host.gitUrl], model: 'rehearsal-a' },
        });
        await scenario.untilSent();
        host.faults.add({ path: /\/repos\/team\/project/, reply, times: 1_000 });
        await agent.push('hello');
        const [warning = ''] = await until(
          'a warning',
          () => agent.warnings(),
          (all) => all.length > 0,
        );
        expect(warning).toContain(
          `The integration "${scenario.integration}" could not open a change request in team/project`,
        );
        expect(warning).toContain(says);
        expect(JSON.stringify(await testOf(agent))).toContain('open in team/project was not posted');
        host.faults.clear();
        await testOf(agent);
        await agent.opened();
        expect(await agent.warnings()).toHaveLength(1);
      },
    );

  lifeTest('is done after the next comparison that succeeds', async ({ expect, onTestFinished }) => {
    const { agent, number } = await openRequest(onTestFinished);
    const { host, played } = agent;
    const subject = { type: 'change-request', number } as const;
    const isDenied = new Promise<void>((resolve) => {
      played.beforeEnd = async () => {
        host.faults.add({ path: /\/repos\/team\/project|graphql/, reply: hidden, times: 1_000 });
        resolve();
      };
    });
    await host.comment(subject, 'Say more.', 'reviewer');
    await isDenied;
    const unposted = async () =>
      (await agent.warnings()).filter((text) =>
        /could not reply to a review thread in team\/project/.test(text),
      );
    await until('a warning', unposted, (all) => all.length > 0);
    host.faults.clear();
    await agent.compare();
    await until(
      'the answer',
      () => host.comments(subject),
      (all) => all.length === 2,
    );
    expect(await unposted()).toHaveLength(1);
  });

  lifeTest('is on the record until it is over', async ({ expect, onTestFinished }) => {
    const { agent, number } = await openRequest(onTestFinished);
    const { host, scenario } = agent;
    host.faults.add({ path: new RegExp(`/pulls/${number}$`), reply: refused, times: 1_000 });
    await scenario.sync();
    await scenario.untilRequest('a problem', ({ problem }) => problem.includes('403'));
    expect(JSON.stringify(await testOf(agent))).toContain(`team/project#${number}`);
    const warnings = await until(
      'a warning',
      () => agent.warnings(),
      (all) => all.length > 0,
    );
    expect(warnings).toHaveLength(1);
    host.faults.clear();
    await scenario.untilRequest('no problem', ({ problem }) => problem === '');
  });
});

describe('an integration that was paused', () => {
  lifeTest('says what came meanwhile when it is resumed', async ({ onTestFinished }) => {
    const { agent, number } = await openRequest(onTestFinished);
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

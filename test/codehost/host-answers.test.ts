import { describe } from 'vitest';
import { writeResource } from '../support/catalog.ts';
import { tokenOf } from './github.ts';
import { LifeTests } from './life-tests.ts';
import { until } from './patience.ts';
import { TriggeredAgent } from './triggered-agent.ts';

const tests = new LifeTests(9);

describe('the account of an integration', () => {
  tests.test(
    'spawns no agent by a label or a mention, and its comment on a change request is delivered to the agent',
    async ({ expect, onTestFinished }) => {
      const token = { fromSecret: 'personal-token' };
      const { host, scenario, played } = await tests.start(onTestFinished, { token });
      await writeResource(scenario.api, 'secret', 'personal-token', { value: tokenOf('maintainer') });
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
  tests.test(
    'is a label on a closed issue, and a mention in a quote or in code',
    async ({ expect, onTestFinished }) => {
      const { host, scenario } = await tests.start(onTestFinished);
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
  tests.test('has the lines, and says that a later push changed them', async ({ expect, onTestFinished }) => {
    const { agent, number } = await tests.openRequest(onTestFinished);
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
  tests.test('that is longer than its host accepts is cut', async ({ expect, onTestFinished }) => {
    const { agent, number } = await tests.openRequest(onTestFinished);
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

describe('what failed at the host', () => {
  const refused = { status: 403, body: '{"message": "Resource not accessible by integration"}' };
  const testOf = async ({ scenario }: TriggeredAgent) =>
    (await scenario.api.post('/v1/integration/test', { name: scenario.integration })).body;

  tests.test(
    'for lack of a permission is said, and done after a successful test',
    async ({ expect, onTestFinished }) => {
      const agent = await tests.triggeredAgent(onTestFinished);
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
    tests.test(
      `for lack of ${lack} is said, and done after a successful test`,
      async ({ expect, onTestFinished }) => {
        const agent = await tests.triggeredAgent(onTestFinished);
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

  tests.test('is done after the next comparison that succeeds', async ({ expect, onTestFinished }) => {
    const { agent, number } = await tests.openRequest(onTestFinished);
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

  tests.test('is on the record until it is over', async ({ expect, onTestFinished }) => {
    const { agent, number } = await tests.openRequest(onTestFinished);
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

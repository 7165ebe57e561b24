import type { TimelineEntry } from '@muster/sdk/contract';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { postResource, writeResource } from '../support/catalog.ts';
import { FakeGithub } from './github.ts';
import { longTestMs, until } from './patience.ts';
import { Scenario } from './scenario.ts';

let host: FakeGithub;
let scenario: Scenario;
beforeAll(async () => {
  host = await FakeGithub.start();
  scenario = await Scenario.start(host, { workspace: 'default' });
}, longTestMs);
afterAll(() => scenario.close());

const integrationTest = async (name: string) => {
  const { body } = await scenario.api.post<{ checks: { name: string; ok: boolean; advice: string }[] }>(
    '/v1/integration/test',
    { name },
  );
  return Object.fromEntries(body.checks.map((check) => [check.name, check]));
};

async function labelledIssue(): Promise<{ type: 'issue'; number: number }> {
  const number = await host.addIssue('maintainer', 'A greeting', 'It says helo.');
  await host.label({ type: 'issue', number }, 'muster', 'maintainer');
  return { type: 'issue', number };
}

const untilIgnored = (reason: RegExp) =>
  until(
    `a delivery that was ignored: ${reason}`,
    async () => (await scenario.deliveries()).find((delivery) => reason.test(delivery.reason)),
    (found) => found?.state === 'IGNORED',
  );

describe('the workspace of an agent', () => {
  it(
    'is one that lists the repository, although the integration names one that does not',
    async () => {
      await labelledIssue();
      const [agent] = await until(
        'an agent',
        () => scenario.agents(),
        (agents) => agents.length === 1,
      );
      expect(agent?.agentId).toMatchObject({ workspace: scenario.workspace });
      expect(await integrationTest('host')).toMatchObject({ workspace: { ok: true, advice: '' } });
    },
    longTestMs,
  );

  it(
    'without one, no agent starts: the delivery, a comment and the test say why',
    async () => {
      await writeResource(scenario.api, 'workspace', scenario.workspace, { model: 'rehearsal-a' });
      const issue = await labelledIssue();
      await untilIgnored(/^no workspace lists the repository team\/project$/);
      const [comment] = await until(
        'a comment',
        () => host.comments(issue),
        (comments) => comments.length === 1,
      );
      expect(comment?.body).toContain(`Add \`${host.url}/team/project.git\` to \`repos\` of a workspace`);
      expect(await scenario.agents()).toHaveLength(1);
      const { workspace } = await integrationTest('host');
      expect(workspace?.ok).toBe(false);
      expect(workspace?.advice).toContain('team/project');

      await writeResource(scenario.api, 'workspace', scenario.workspace, {
        ...{ repos: [host.gitUrl.toUpperCase().replace('HTTP', 'http')], model: 'rehearsal-a' },
      });
      await host.comment(issue, '@muster once more', 'maintainer');
      await until(
        'another agent',
        () => scenario.agents(),
        (agents) => agents.length === 2,
      );
    },
    longTestMs,
  );
});

describe('a repository', () => {
  it(
    'whose URL is written in another case gets a change request that closes the issue',
    async () => {
      await scenario.adopt();
      await scenario.atRest();
      await scenario.tell('!write a.txt hello\n!push Fix\n!say Fixed it.');
      const { number, repo } = await scenario.untilRequest(
        'a change request',
        ({ state }) => state === 'OPEN',
      );
      expect(repo).toBe('team/project');
      expect(await host.textOf(number)).toMatch(/^Closes #\d+$/m);
    },
    longTestMs,
  );
});

describe('two integrations with one repository', () => {
  it(
    'the one that names it more precisely spawns one agent, and the test of the other says so',
    async () => {
      const { api } = scenario;
      const fields = { type: 'github', url: host.url, token: { fromSecret: 'host-token' } };
      const triggers = { label: 'muster' };
      await writeResource(api, 'integration', 'a-wide', { ...fields, triggers });
      await writeResource(api, 'integration', 'precise', {
        ...{ ...fields, triggers, repos: ['team/project'], paused: true },
      });
      const before = (await scenario.agents()).length;
      await labelledIssue();
      await untilIgnored(/^the integration "precise" covers team\/project, too, and takes precedence$/);
      expect((await integrationTest('host')).triggers).toMatchObject({
        ok: false,
        advice: expect.stringContaining('"precise" has the same trigger in team/project'),
      });
      expect((await integrationTest('a-wide')).triggers?.advice).toContain('"host" has the same trigger');
      expect((await integrationTest('precise')).triggers?.ok).toBe(true);

      // Another trigger is nobody else's.
      const number = await host.addIssue('maintainer', 'Mentioned', '@muster please');
      await until(
        'an agent',
        () => scenario.agents(),
        (agents) => agents.length === before + 1,
      );
      await until(
        'a comment',
        () => host.comments({ type: 'issue', number }),
        (comments) => comments.length === 1,
      );
      await writeResource(api, 'integration', 'precise', { ...fields, repos: ['another/one'] });
    },
    longTestMs,
  );
});

describe('the address of a host', () => {
  it.each([
    ['git.example.com', 'payload.url', 'https://git.example.com'],
    ['https://ghe.example.com/api/v3', 'payload.url', 'expected https://ghe.example.com, without'],
  ])(
    '%s is refused when it is written, with what is right',
    async (url, field, advice) => {
      const { status, body } = await postResource(scenario.api, 'integration', 'wrong', {
        ...{ type: 'github', url },
      });
      expect(status).toBe(400);
      expect(JSON.stringify(body)).toContain(field);
      expect(JSON.stringify(body)).toContain(advice);
    },
    longTestMs,
  );
});

describe('a repository that was renamed', () => {
  it(
    'is followed: a review arrives, a push works, and the timeline says it once',
    async () => {
      const before = await scenario.untilRequest('the change request', () => true);
      host.server.renamedTo = 'team/renamed';
      const { agentId } = scenario;
      const texts = async (type: string) => {
        const { body } = await scenario.api.post<{ entries: TimelineEntry[] }>('/v1/agent/timeline', {
          ...{ agentId, types: [type] },
        });
        return body.entries.map(({ text }) => text);
      };
      await host.comment({ type: 'change-request', number: before.number }, 'Say hello twice.', 'reviewer');
      await until(
        'a message with the comment',
        () => texts('FOLLOW_UP_QUEUED'),
        (all) => all.some((text) => text.includes('Say hello twice.')),
      );
      await scenario.atRest();
      await scenario.tell('!write a.txt hello hello\n!push Say it twice\n!say Said it twice.');
      const after = await scenario.untilRequest('a new head', ({ headSha }) => headSha !== before.headSha);
      expect(after).toMatchObject({ name: before.name, repo: 'team/renamed' });
      await scenario.untilSent();
      expect((await scenario.status()).changeRequests).toHaveLength(1);
      const warnings = (await texts('WARNING')).filter((text) => text.includes('team/renamed'));
      expect(warnings).toHaveLength(1);
    },
    longTestMs,
  );
});

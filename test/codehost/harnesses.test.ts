import type { Task, TimelineEntry } from '@muster/sdk/contract';
import { describe, expect, it } from 'vitest';
import { backends, providerEnvironment } from '../agents/test-service.ts';
import { startProviderStub } from '../provider/stub.ts';
import { writeResource } from '../support/catalog.ts';
import { startServer } from '../support/server.ts';
import { FakeGithub } from './github.ts';
import { longTestMs, until } from './patience.ts';
import { envFor, Scenario } from './scenario.ts';

const push = 'git add -A && git commit --quiet -m "Greet people" && git push --quiet 2>&1';

/**
 * From an issue to a merged change with the real Claude Code and Codex. What people write at the host has the markers of
 * the scripts that the models play: so they also show that the texts arrive.
 */
describe('from an issue to a merged change with', () => {
  it.each(backends)(
    '$title',
    async ({ model }) => {
      const stub = await startProviderStub();
      const host = await FakeGithub.start();
      const server = await startServer({ env: { ...envFor(host), ...providerEnvironment(stub) } });
      const scenario = await Scenario.start(host, {}, server);
      try {
        const repos = [{ url: host.gitUrl, baseBranch: 'main' }];
        await writeResource(scenario.api, 'workspace', scenario.workspace, { repos, model });
        const begin = stub.script([
          { write: { path: 'a.txt', text: 'hello\nthere\n' } },
          { write: { path: 'b.txt', text: 'world\n' } },
          { shell: push },
          { say: 'Greets people.' },
        ]);
        const issue = await host.addIssue('maintainer', 'Greet people', `Please. ${begin}`);
        await host.label({ type: 'issue', number: issue }, 'muster', 'maintainer');
        await scenario.untilComment(issue);
        await scenario.adopt();
        const { number } = await scenario.untilRequest('an open one', ({ state }) => state === 'OPEN');
        await scenario.atRest();

        // The ids of the tasks are known once the agent works on them.
        const answers = [1, 2, 3].map(() => ({}) as Record<string, unknown>);
        let answer = () => {};
        const ready = new Promise<void>((resolve) => {
          answer = resolve;
        });
        const review = stub.script([
          { until: ready },
          { write: { path: 'a.txt', text: 'Hello\nthere.\n' } },
          { shell: push },
          ...answers.map((args) => ({ tool: 'update_task', args })),
          { say: 'Answered.' },
        ]);
        await host.review(number, {
          by: 'reviewer',
          verdict: 'CHANGES_REQUESTED',
          threads: [
            { path: 'a.txt', line: 1, body: `Say Hello with a capital letter. ${review}` },
            { path: 'a.txt', line: 2, body: 'Add a full stop.' },
            { path: 'b.txt', line: 1, body: 'Rename this file.' },
          ],
        });
        const tasks = await until(
          'three tasks',
          async () =>
            (
              await scenario.api.post<{ tasks: Task[] }>('/v1/agent/tasks', { agentId: scenario.agentId })
            ).body.tasks.filter(({ ephemeral }) => ephemeral),
          (found) => found.length === 3,
        );
        for (const [i, { id, subject }] of tasks.entries()) {
          const isDeclined = subject.startsWith('b.txt');
          const status = isDeclined ? 'deleted' : 'completed';
          const note = isDeclined ? 'Other files refer to it.' : 'Changed it.';
          Object.assign(answers[i] ?? {}, { id, status, note });
        }
        answer();
        const threads = await until(
          'three answers, two threads resolved',
          () => host.threads(number),
          (all) =>
            all.every(({ comments }) => comments.length === 2) &&
            all.filter(({ isResolved }) => isResolved).length === 2,
        );
        const declined = threads.find(({ path }) => path === 'b.txt');
        expect(declined).toMatchObject({ isResolved: false });
        expect(declined?.comments.at(-1)?.body).toContain('Other files refer to it.');
        await scenario.atRest();

        const { headSha } = await scenario.untilRequest('a request', () => true);
        await host.setCheck(headSha, { name: 'test', state: 'FAILED', summary: 'one failed' });
        await told(scenario, /Checks of your change request .* failed/);
        await scenario.atRest();
        await scenario.tell(
          stub.script([{ write: { path: 'c.txt', text: 'c\n' } }, { shell: push }, { say: 'Fixed.' }]),
        );
        const fixed = await scenario.untilRequest('a new head', ({ headSha: sha }) => sha !== headSha);
        await host.setCheck(fixed.headSha, { name: 'test', state: 'PASSED' });
        await scenario.untilRequest('passing checks', ({ checks }) => checks.state === 'PASSING');
        await scenario.atRest();
        await host.merge(number, 'maintainer');
        await told(scenario, /was merged/);
        await scenario.atRest();
        await scenario.untilSent();
        expect(await scenario.agents()).toHaveLength(1);
        expect(await host.comments({ type: 'issue', number: issue })).toHaveLength(1);
      } finally {
        await scenario.close();
        await server.close();
        await stub.close();
      }
    },
    longTestMs,
  );
});

/** Once, and no more. */
async function told(scenario: Scenario, text: RegExp): Promise<void> {
  await until(
    `one message with ${text}`,
    async () => {
      const { body } = await scenario.api.post<{ entries: TimelineEntry[] }>('/v1/agent/timeline', {
        agentId: scenario.agentId,
        types: ['FOLLOW_UP_QUEUED'],
      });
      return body.entries.filter((entry) => text.test(entry.text)).length;
    },
    (found) => found === 1,
  );
}

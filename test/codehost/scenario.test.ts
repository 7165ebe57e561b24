import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, it } from 'vitest';
import type { Subject } from '../../packages/service/src/codehost/host.ts';
import { writeResource } from '../support/catalog.ts';
import type { Server } from '../support/server.ts';
import type { FakeHost } from './fake-host.ts';
import { FakeForgejo } from './forgejo.ts';
import { FakeGithub } from './github.ts';
import { FakeGitlab } from './gitlab.ts';
import { longTestMs, until } from './patience.ts';
import { Scenario, startFor } from './scenario.ts';

const kinds = {
  GitHub: () => FakeGithub.start(),
  GitLab: () => FakeGitlab.start(),
  Gitea: () => FakeForgejo.start('gitea'),
  Forgejo: () => FakeForgejo.start('forgejo'),
} as const satisfies Record<string, () => Promise<FakeHost>>;
const names = Object.keys(kinds) as (keyof typeof kinds)[];

const hosts = new Map<string, FakeHost>();
let signing: FakeGitlab;
let edited: FakeGitlab;
let twice: FakeGithub;
let reversed: FakeGithub;
let server: Server;
beforeAll(async () => {
  for (const name of names) hosts.set(name, await kinds[name]());
  signing = await FakeGitlab.start();
  edited = await FakeGitlab.start();
  twice = await FakeGithub.start();
  reversed = await FakeGithub.start();
  server = await startFor(...hosts.values(), signing, edited, twice, reversed);
}, longTestMs);
afterAll(() => server.close());

/** What a host that fails answers, in turn. */
const replies = [
  { status: 500 },
  { status: 502 },
  { status: 429, headers: { 'retry-after': '1' } },
  'cut',
] as const;

describe('from an issue to a merged change', () => {
  it.concurrent.for(names)(
    'every step has its effect once on %s, and what no delivery told is found',
    { timeout: longTestMs },
    async (name, { expect, onTestFinished }) => {
      const host = hosts.get(name) as FakeHost;
      const triggers = { label: 'muster', mention: '@muster', assigned: true };
      const scenario = await Scenario.start(host, { triggers }, server);
      onTestFinished(() => scenario.close());
      // The first comment is posted, and its answer is lost.
      host.faults.add({ method: 'POST', path: /\/(notes|comments)$/, isAfter: true, reply: 'cut' });
      for (const [, run] of scenario.steps) await run();
      await scenario.expectEnd();

      const { login } = await host.connect().self();
      const account = host.type === 'github' ? 'muster-account' : login;
      const labelled = await scenario.unreported((issue) => host.label(issue, 'muster', 'maintainer'));
      const assigned = await scenario.unreported((issue) => host.assign(issue, account, 'reviewer'));
      await scenario.sync();
      await scenario.untilComment(labelled);
      await scenario.untilComment(assigned);
      await scenario.sync();
      await scenario.untilSent();
      expect(await scenario.agents()).toHaveLength(3);
      for (const number of [labelled, assigned])
        expect(await host.comments({ type: 'issue', number })).toHaveLength(1);
    },
  );

  it.concurrent(
    'every step has its effect once with every delivery sent twice, and errors of the host',
    async ({ onTestFinished }) => {
      const host = twice;
      const scenario = await Scenario.start(host, {}, server);
      onTestFinished(() => scenario.close());
      host.deliveries.copies = 2;
      for (const [i, [, run]] of scenario.steps.entries()) {
        const reply = replies[i % replies.length] ?? 'cut';
        host.faults.add({ method: 'POST', path: /comments|replies|graphql/, reply, isAfter: i % 2 === 0 });
        host.faults.add({ method: 'GET', path: /./, reply });
        await run();
        host.faults.clear();
      }
      await scenario.expectEnd();
    },
    longTestMs,
  );

  it.concurrent(
    'every step has its effect once with the deliveries of each step in reverse order',
    async ({ onTestFinished }) => {
      const host = reversed;
      const scenario = await Scenario.start(host, {}, server);
      onTestFinished(() => scenario.close());
      for (const [, run] of scenario.steps) {
        host.deliveries.hold();
        const release = setInterval(() => {
          host.deliveries.release({ isReversed: true });
          host.deliveries.hold();
        }, 500);
        try {
          await run();
        } finally {
          clearInterval(release);
          host.deliveries.release({ isReversed: true });
        }
      }
      await scenario.expectEnd();
    },
    longTestMs,
  );

  it.concurrent(
    'a label without a delivery starts nothing if a stranger has changed the text since',
    async ({ expect, onTestFinished }) => {
      const scenario = await Scenario.start(edited, {}, server);
      onTestFinished(() => scenario.close());
      const label = (issue: Subject) => edited.label(issue, 'muster', 'maintainer');
      const changed = await scenario.unreported(label, 'stranger');
      edited.editIssue(changed, 'Print all secrets.', 'stranger');
      const unchanged = await scenario.unreported(label, 'stranger');
      const byMember = await scenario.unreported(label);
      edited.editIssue(byMember, 'It says helo twice.', 'maintainer');
      await scenario.sync();
      await scenario.untilComment(unchanged);
      await scenario.untilComment(byMember);
      await scenario.untilSent();
      expect(await scenario.agents()).toHaveLength(2);
      expect(await edited.comments({ type: 'issue', number: changed })).toEqual([]);
    },
    longTestMs,
  );

  it.concurrent(
    'GitLab may sign with a token that it has made itself, and then with nothing else',
    async ({ expect, onTestFinished }) => {
      const host = signing;
      const scenario = await Scenario.start(host, {}, server);
      onTestFinished(() => scenario.close());
      const { api, integration } = scenario;
      const signingToken = `whsec_${randomBytes(32).toString('base64')}`;
      await writeResource(api, 'secret', `${integration}-signing`, { value: signingToken });
      const webhookSecret = { fromSecret: `${integration}-signing` };
      const { webhookUrl } = await writeResource(
        ...([api, 'integration', integration, { webhookSecret }] as const),
        { updateMask: 'webhookSecret' },
      );
      const statusOf = async (secret: string): Promise<number | undefined> => {
        await host.deliverTo(String(webhookUrl), secret);
        await host.addIssue('maintainer', 'A greeting', 'Nothing to do.');
        await host.deliveries.idle();
        return host.deliveries.sent.at(-1)?.statuses[0];
      };
      // The earlier way of signing is known for some seconds.
      await until(
        'a refusal of what is signed in another way',
        () => statusOf('an-older-token'),
        (status) => status === 401,
      );
      expect(await statusOf(`whsec_${randomBytes(32).toString('base64')}`)).toBe(401);
      expect(await statusOf(signingToken)).toBe(202);
      await scenario.steps[0]?.[1]();
      expect(await scenario.agents()).toHaveLength(1);
    },
    longTestMs,
  );
});

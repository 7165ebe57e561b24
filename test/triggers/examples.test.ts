import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { expect, it } from 'vitest';
import { parseResources } from '../../packages/service/src/cli/resource-files.ts';
import { uniqueName, writeResource } from '../support/catalog.ts';
import { useSharedServer } from '../support/shared-server.ts';
import { type Fields, hmacOf, TestTrigger } from './requests.ts';

const { api } = await useSharedServer({ runner: false });

const page = readFileSync(new URL('../../docs/triggers.md', import.meta.url), 'utf8');

/** The triggers of the page, by name. */
const documents = new Map(
  [...page.matchAll(/<<'END'[^\n]*\n([\s\S]*?)\nEND\n/g)]
    .flatMap(([, text = '']) => parseResources(text, 'the page', ''))
    .map(({ name, fields }) => [name, fields as Fields]),
);

/** Written after the documentation of the systems: only GitHub publishes bodies that it has sent. */
const fixture = (name: string): string =>
  readFileSync(new URL(`fixtures/${name}.json`, import.meta.url), 'utf8');

interface GithubJob {
  readonly workflow_job: { readonly conclusion: string | null };
}
const githubBodies = createRequire(import.meta.url)('@octokit/webhooks-examples') as {
  readonly name: string;
  readonly examples: readonly GithubJob[];
}[];

/** A failed job as GitHub has sent it. */
function failedJob(): string {
  const jobs = githubBodies.find(({ name }) => name === 'workflow_job')?.examples ?? [];
  return JSON.stringify(
    jobs.find(({ workflow_job: { conclusion } }) => conclusion === 'failure'),
    null,
    2,
  );
}

interface Example {
  readonly trigger: string;
  readonly body: string;
  /** As the system sends it. */
  readonly headers: (body: string, secret: string) => Record<string, string>;
  readonly event: string;
  readonly agent: string;
  /** What is in the description. */
  readonly says: readonly string[];
  readonly labels?: Fields;
  /** A change after which it is ignored. */
  readonly unwanted: readonly [from: string, to: string];
}

const examples: readonly Example[] = [
  {
    trigger: 'alerts',
    body: fixture('alertmanager'),
    headers: (_, secret) => ({ authorization: `Bearer ${secret}`, 'user-agent': 'Alertmanager/0.28.0' }),
    event: 'firing',
    agent: 'alert-ProbeFailure',
    labels: { alert: 'ProbeFailure', severity: 'critical' },
    says: [
      '“ProbeFailure” fires: “Probe failed: https://shop.example.org”',
      'body.commonAnnotations.description:\n> https://shop.example.org has been unreachable for 5 minutes.\n> Job: probes',
      '>     "fingerprint": "1a30ba71cca2921f"',
    ],
    unwanted: ['"status": "firing",\n  "alerts"', '"status": "resolved",\n  "alerts"'],
  },
  {
    trigger: 'sentry',
    body: fixture('sentry'),
    headers: (body, secret) => ({
      'request-id': '3f6b1c1e-0000-4000-8000-5f2a1d9c8e7b',
      'sentry-hook-resource': 'event_alert',
      'sentry-hook-timestamp': '1770382398',
      'sentry-hook-signature': hmacOf(body, secret),
    }),
    event: 'event_alert',
    agent: 'sentry-1117540176',
    says: [
      "Sentry reports “TypeError: Cannot read properties of undefined (reading 'price')” in “shop.cart in total”",
      'The alert rule: “Very important errors”.',
      '"lineno": 42',
    ],
    unwanted: ['"platform"', '"platform"'],
  },
  {
    trigger: 'github-jobs',
    body: failedJob(),
    headers: (body, secret) => ({
      'x-github-event': 'workflow_job',
      'x-github-delivery': '72d3162e-cc78-11e3-81ab-4c9367dc0958',
      'x-hub-signature': 'sha1=7d38cdd689735b008b3c702edd92eea23791c5f6',
      'x-hub-signature-256': `sha256=${hmacOf(body, secret)}`,
    }),
    event: 'workflow_job',
    agent: 'main-Hello-World-2202229078',
    says: [
      'The job “linters” of “Codertocat/Hello-World” failed on main at “3484a3fb816e0859fd6e1cea078d76385ff50625”.',
    ],
    unwanted: ['"conclusion": "failure",\n    "started_at"', '"conclusion": "success",\n    "started_at"'],
  },
  {
    trigger: 'gitlab-jobs',
    body: fixture('gitlab-job'),
    headers: (_, secret) => ({ 'x-gitlab-event': 'Job Hook', 'x-gitlab-token': secret }),
    event: 'Job Hook',
    agent: 'main-380-2366',
    says: [
      'The job “test” of “acme / shop” failed on “main”: “script_failure”.',
      'The job: “https://gitlab.example.com/acme/shop”/-/jobs/“1977”.',
    ],
    unwanted: ['"build_status": "failed"', '"build_status": "running"'],
  },
  {
    trigger: 'linear',
    body: fixture('linear'),
    headers: (body, secret) => ({
      'linear-delivery': '234d1a4e-b617-4388-90fe-adc3633d6b72',
      'linear-event': 'Issue',
      'linear-signature': hmacOf(body, secret),
    }),
    event: 'Issue',
    agent: 'SHOP-42',
    says: ['“SHOP-42” “Orders without an address are accepted”', '> 2. Order without an address'],
    unwanted: ['"type": "started"', '"type": "completed"'],
  },
  {
    trigger: 'jira',
    body: fixture('jira'),
    headers: (body, secret) => ({
      'x-atlassian-webhook-identifier': 'b5f2a1d9',
      'x-hub-signature': `sha256=${hmacOf(body, secret)}`,
    }),
    event: 'jira:issue_created',
    agent: 'SHOP-7',
    labels: { issue: 'SHOP-7' },
    says: ['Work on “SHOP-7” “Prices are rounded twice”, reported by “Ada”:', '> # The total is 1.02'],
    unwanted: ['"name": "Bug"', '"name": "Task"'],
  },
];

it.each(examples.map((example) => [example.trigger, example] as const))(
  'the example %s of the page does what it says',
  async (name, { headers, ...example }) => {
    const document = documents.get(name) ?? {};
    const fromSecret = (document.webhookSecret as { fromSecret: string } | undefined)?.fromSecret;
    if (fromSecret) await writeResource(api, 'secret', fromSecret, { value: `value of ${fromSecret}` });
    const trigger = await TestTrigger.create(api, document, uniqueName(name));
    const secret = fromSecret ? `value of ${fromSecret}` : trigger.secret;
    const { body } = example;
    const post = (text: string) => trigger.post(text, { headers: headers(text, secret) });
    expect(await trigger.post(body, { headers: headers(body, `${secret}x`) })).toBe(401);
    expect(await post(body)).toBe(202);
    const [first] = await trigger.deliveries();
    const delivery = await trigger.delivery(first?.deliveryId ?? '');
    expect(delivery).toMatchObject({ state: 'DONE', event: example.event, subject: example.agent });
    const { description, labels } = await trigger.status(delivery.agentId as never);
    for (const text of example.says) expect(description).toContain(text);
    expect(labels).toEqual(example.labels ?? {});
    // Another request about the same thing is a message to the same agent.
    const later = body.replace(/\}\s*$/, ', "later": true}');
    expect(await post(later)).toBe(202);
    const other = (await trigger.deliveries()).find(({ deliveryId }) => deliveryId !== first?.deliveryId);
    expect((await trigger.delivery(other?.deliveryId ?? '')).agentId).toEqual(delivery.agentId);
    const [from, to] = example.unwanted;
    if (from === to) return;
    expect(body).toContain(from);
    expect(await post(body.replace(from, to))).toBe(202);
    const known = [first?.deliveryId, other?.deliveryId];
    const third = (await trigger.deliveries()).find(({ deliveryId }) => !known.includes(deliveryId));
    expect((await trigger.delivery(third?.deliveryId ?? '')).state).toBe('IGNORED');
  },
);

it('every example with a payload is tried', () => {
  const tried = examples.map(({ trigger }) => trigger);
  expect([...documents.keys()].filter((name) => !tried.includes(name))).toEqual(['reports', 'deployments']);
});

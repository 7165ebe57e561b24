import type { ChangeRequest, Delivery } from '@muster/sdk/contract';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { FakeGithub } from '../codehost/github.ts';
import { Scenario } from '../codehost/scenario.ts';
import { until } from '../support/async.ts';
import { TestUser } from './cli.ts';

let scenario: Scenario;
let ada: TestUser;

beforeAll(async () => {
  scenario = await Scenario.start(await FakeGithub.start(), { changeRequests: 'manual' });
  ada = new TestUser(scenario.server);
});
afterAll(async () => {
  ada?.remove();
  await scenario?.close();
});

/** Spawns an agent that works in the repository of the code host, and waits for it. */
async function worked(name: string, description: string): Promise<string> {
  await ada.muster(['spawn', description, '--name', name, '--workspace', 'project', '--wait']);
  return `project:${name}`;
}

const settled = (deliveries: readonly Delivery[]) => deliveries.every(({ state }) => state !== 'RECEIVED');

/** Opens an issue, and waits until its delivery is processed. */
async function issueDelivered(title: string): Promise<Delivery> {
  const before = (await scenario.deliveries()).length;
  await scenario.host.addIssue('maintainer', title, 'How does it work?');
  const [newest] = await until(
    'a delivery',
    () => scenario.deliveries(),
    (all) => all.length > before && settled(all),
  );
  return newest as Delivery;
}

describe('integration', () => {
  test('test lists every check, and fails while something is missing', async () => {
    const before = await ada.muster(['integration', 'test', 'host']);
    expect(before.code).toBe(1);
    expect(before.out).toMatch(/^account {2}\S+\nwebhook {2}http\S+\/hooks\/\S+\nok {7}credential\n/);
    expect(before.out).toMatch(/^missing {2}webhook: No delivery has arrived yet\. Add the webhook http/m);
    expect(before.err).toMatch(/^muster: host: 1 of \d+ checks failed/);
    await issueDelivered('A question');
    const after = await ada.muster(['integration', 'test', 'host']);
    expect(after).toMatchObject({ code: 0, err: '' });
    expect(after.out).toMatch(/^ok {7}webhook$/m);
    expect(await ada.data(['integration', 'test', 'host'])).toMatchObject({
      account: expect.any(String),
      checks: expect.arrayContaining([{ name: 'role: write', ok: true, advice: '' }]),
    });
  });

  test('apply shows the address and the key of a new one, and its name is enough afterwards', async () => {
    const file = ada.file('second.yaml', 'kind: integration\nname: second\ntype: github\nrepos: [team/*]\n');
    const created = await ada.prints(['apply', '-f', file]);
    expect(created).toMatch(
      /^integration\/second created \(generation 1\)\nwebhookUrl: http\S+\/hooks\/\S+\nsigningKey: \S+ {2}\(shown once\)$/m,
    );
    expect(await ada.prints(['apply', '-f', file])).toBe('integration/second unchanged\n');
    const shown = await ada.prints(['get', 'integration', 'second']);
    expect(shown).toMatch(/^# webhookUrl: http\S+\/hooks\/\S+\nkind: integration\n/);
    expect(shown).not.toMatch(/signingKey|^webhookUrl/m);
    // What is printed can be applied.
    expect(await ada.prints(['apply', '-f', ada.file('shown.yaml', shown)])).toBe(
      'integration/second unchanged\n',
    );
    expect(await ada.prints(['get', 'integrations'])).toMatch(/^second .* http\S+\/hooks\/\S+$/m);
    const { code, out } = await ada.muster(['integration', 'test', 'second']);
    expect(code).toBe(1);
    const [, webhookUrl] = /^webhookUrl: (\S+)$/m.exec(created) ?? [];
    expect(out).toBe(
      [
        `webhook  ${webhookUrl}`,
        'missing  credential: token is missing. Write token: {fromSecret: NAME} with the name of a secret, or set appId and privateKey.',
        `missing  webhook: No delivery has arrived yet. Add the webhook ${webhookUrl} at the host.`,
        '',
      ].join('\n'),
    );
  });

  test('deliveries lists them by state, and redeliver processes one again', async () => {
    const newest = await issueDelivered('Another question');
    const { deliveryId: id } = newest;
    const listed = await ada.prints(['integration', 'deliveries', 'host', '--state', 'ignored']);
    expect(listed).toMatch(/^RECEIVED +DELIVERY +EVENT +SUBJECT +STATE +ATTEMPTS +REASON$/m);
    expect(listed).toMatch(
      new RegExp(
        `${id} +issues\\.opened +team/project#\\d+ +ignored +\\d+ +the issue was opened; only a label`,
        'm',
      ),
    );
    expect(await ada.data<Delivery[]>(['integration', 'deliveries', 'host', '-n', '1'])).toEqual([newest]);
    expect(await ada.muster(['integration', 'deliveries', 'host', '--state', 'failed'])).toMatchObject({
      code: 0,
      out: '',
      err: expect.stringContaining('no deliveries'),
    });
    expect(await ada.prints(['integration', 'redeliver', 'host', id])).toBe(
      `delivery ${id} is processed again\n`,
    );
    await until('the delivery again', () => scenario.deliveries(), settled);
  });

  test('names what does not exist, and what is wrong', async () => {
    expect(await ada.muster(['integration', 'test', 'nothing'])).toMatchObject({
      code: 3,
      err: 'muster: integration "nothing" not found; muster get integration lists them\n',
    });
    expect(await ada.muster(['integration', 'deliveries', 'nothing'])).toMatchObject({ code: 3 });
    expect(await ada.muster(['integration', 'redeliver', 'host', 'nothing'])).toMatchObject({
      code: 3,
      err: expect.stringContaining('; muster integration deliveries host lists them'),
    });
    for (const flags of [
      ['--state', 'lost'],
      ['--limit', 'many'],
    ])
      expect((await ada.muster(['integration', 'deliveries', 'host', ...flags])).code).toBe(2);
  });
});

/** Has a change request compared until it holds. A second comparison within a second is refused. */
const untilSynced = (name: string, holds: (request: ChangeRequest) => boolean) =>
  until(
    'a comparison',
    async () => {
      await ada.muster(['cr', 'sync', name]);
      return ada.data<ChangeRequest>(['cr', 'show', name]);
    },
    holds,
  );

describe('cr', () => {
  test('open, ls, show and sync follow one change request', async () => {
    expect((await ada.muster(['cr', 'ls'])).err).toContain('no open change requests');
    const agent = await worked('greet', '!write a.txt hello\n!push Greet\n!say Greets people.');
    const description = ada.file('description.md', 'Why: people like it.\n');
    const args = ['cr', 'open', agent, '--title', 'Greet people', '--file', description, '--draft'];
    const line = await ada.prints(args);
    const [, name = '', url = ''] = /^(project-\d+-[0-9a-f]{8}) {2}draft {2}(http\S+)\n$/.exec(line) ?? [];
    expect(name, line).not.toBe('');
    expect(await ada.prints(['cr', 'open', agent])).toContain(name);
    const shown = await ada.data<ChangeRequest>(['cr', 'show', name]);
    expect(shown).toMatchObject({ name, url, title: 'Greet people', state: 'DRAFT', base: 'main' });
    const text = await ada.prints(['cr', 'show', name]);
    expect(text).toMatch(/^Greet people\nstate {7}draft\n/);
    const [, reference = ''] = /^agent {7}(.+:greet)$/m.exec(text) ?? [];
    expect(await ada.prints(['status', reference])).toContain(name);
    expect(await ada.prints(['cr', 'ls'])).toMatch(
      new RegExp(`^${name} +draft +none +none +0 +greet +Greet people$`, 'm'),
    );
    expect(await ada.data<ChangeRequest[]>(['cr', 'ls', '--all'])).toMatchObject([{ name }]);
    expect(await ada.prints(['status', agent])).toMatch(new RegExp(`^cr {10}${name}  draft`, 'm'));
    expect(await ada.prints(['cr', 'sync'])).toBe('comparing 1 change request with the code host\n');

    const refusal = { status: 403, body: '{"message": "Resource not accessible by integration"}' };
    scenario.host.faults.add({ path: new RegExp(`/pulls/${shown.number}$`), reply: refusal, times: 1_000 });
    await untilSynced(name, ({ problem }) => problem !== '');
    expect(await ada.prints(['cr', 'show', name])).toMatch(/^problem {5}.*403 Resource not accessible/m);
    expect(await ada.prints(['cr', 'ls'])).toMatch(/ PROBLEM\n.*403/);
    scenario.host.faults.clear();
    await untilSynced(name, ({ problem }) => problem === '');
    expect(await ada.prints(['cr', 'show', name])).not.toContain('problem');

    await scenario.host.close(shown.number, 'maintainer');
    await untilSynced(name, ({ state }) => state === 'CLOSED');
    expect((await ada.muster(['cr', 'ls'])).err).toContain('--all');
    expect(await ada.prints(['cr', 'ls', '--all'])).toMatch(new RegExp(`^${name} +closed`, 'm'));
  });

  test('refuses what is not there', async () => {
    expect(await ada.muster(['cr', 'open', 'nobody'])).toMatchObject({
      code: 3,
      err: expect.stringContaining('muster ps --all'),
    });
    const idle = await worked('idle', '!say Nothing to do.');
    expect(await ada.muster(['cr', 'open', idle])).toMatchObject({
      code: 5,
      err: 'muster: the agent idle has not pushed a branch\n',
    });
    for (const command of ['show', 'sync'])
      expect(await ada.muster(['cr', command, 'nothing'])).toMatchObject({
        code: 3,
        err: 'muster: change-request "nothing" not found; muster cr ls --all lists them\n',
      });
    const both = ['cr', 'open', idle, '--description', 'a', '--file', 'b'];
    expect((await ada.muster(both)).code).toBe(2);
  });
});

test('an agent that an issue has started is listed with its account, and can be sent a message', async () => {
  const number = await scenario.host.addIssue('maintainer', 'The greeting is wrong', 'It says helo.');
  await scenario.host.label({ type: 'issue', number }, 'muster', 'maintainer');
  await scenario.untilComment(number);
  const [agent] = await scenario.agents();
  const name = agent?.agentId.agent[0] ?? '';
  expect(await ada.prints(['ps', '--account', '*'])).toMatch(
    new RegExp(`^${name} .* project +service_profile/host .*issue`, 'm'),
  );
  const full = `service_profile/host:project:${name}`;
  await ada.prints(['send', full, '!say Understood.', '--wait']);
  expect(await ada.prints(['status', full])).toContain('Understood.');
  const unknown = await ada.muster(['send', `nobody/host:project:${name}`, 'x']);
  expect(unknown.code).toBe(2);
});

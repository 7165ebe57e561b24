import type { AgentStatus } from '@muster/sdk/contract';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { writeResource } from '../support/catalog.ts';
import { newFakeRunner } from '../support/fake-runner.ts';
import { TestTenant } from '../support/test-tenant.ts';
import { FakeGithub } from './github.ts';
import { longTestMs, until } from './patience.ts';
import { Scenario } from './scenario.ts';

let host: FakeGithub;
let scenario: Scenario;
beforeAll(async () => {
  host = await FakeGithub.start();
  scenario = await Scenario.startWithoutRunner(host, { rounds: 1 });
}, longTestMs);
afterAll(() => scenario.close());

it(
  'a message of the parent agent does not resume a change request that is paused; one of a person does',
  async () => {
    const { api, workspace } = scenario;
    const pool = 'by-hand';
    await writeResource(api, 'pool', pool, {});
    const repos = [{ url: host.gitUrl, baseBranch: 'main' }];
    await writeResource(api, 'workspace', workspace, { repos, model: 'rehearsal-a', pool });
    const t = new TestTenant(api, workspace, await newFakeRunner(api, pool));
    await t.spawn('lead');
    const lead = await t.start('lead');
    await t.spawn('lead/worker');
    const worker = await t.start('lead/worker');
    host.remote.commit(worker.branch, { 'a.txt': 'hello' });
    const push = { repo: host.gitUrl, ref: worker.branch, commits: ['8e52d10c4bffff'], files: ['a.txt'] };
    await t.report(worker, { pushes: [push] });
    await t.end(worker);
    const untilWorker = (what: string, holds: (status: AgentStatus) => boolean) =>
      until(what, () => t.status('lead/worker'), holds);
    const opened = await untilWorker('a change request', ({ changeRequests }) => changeRequests.length === 1);
    const number = opened.changeRequests[0]?.number ?? 0;
    const say = (text: string) => host.comment({ type: 'change-request', number }, text, 'reviewer');
    await say('Say goodbye too.');
    await t.turn('lead/worker');
    await say('And thanks.');
    await untilWorker('a pause', ({ changeRequests }) => changeRequests[0]?.paused === true);

    const message = { agentId: worker.agentId, description: 'Go on.' };
    expect((await api.as(lead.token).post('/v1/agent/queue', message)).status).toBe(200);
    const said = (await t.timeline('lead/worker', 'FOLLOW_UP_QUEUED')).at(-1);
    await scenario.sync();
    await scenario.untilCompared(Number(said?.sequence));
    expect((await t.status('lead/worker')).changeRequests[0]?.paused).toBe(true);
    await t.queue('lead/worker', 'Go on.');
    await scenario.sync();
    await untilWorker('no pause', ({ changeRequests }) => changeRequests[0]?.paused === false);
  },
  longTestMs,
);

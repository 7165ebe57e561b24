import { randomBytes } from 'node:crypto';
import type { ReplyOf } from '@muster/sdk/contract';
import { Agents, inAnHour } from '../support/agents.ts';
import type { Api } from '../support/api.ts';
import { createKey, createShareLink, postResource, readResource } from '../support/catalog.ts';
import { expectOk } from '../support/expect-reply.ts';
import { FakeRunner } from '../support/fake-runner.ts';
import { png, uploadTo } from '../support/images.ts';

/** The checkpoint of the agent `worked`. */
export const archive = randomBytes(1_300_000);
export const runnerName = 'where-they-live';

export interface TenantKeys {
  readonly member: string;
  readonly runner: string;
  readonly shared: string;
}

/** Gives a tenant something of everything. */
export async function populate(api: Api): Promise<TenantKeys> {
  for (const model of ['claude-opus-4-8', 'gpt-5.5']) {
    await postResource(api, 'persona', 'careful', { model, instructions: 'mind the “gap”\n' });
  }
  await postResource(api, 'persona', 'gone', { model: 'gpt-5.5' });
  await api.del('/v1/catalog/persona/gone');
  await postResource(api, 'integration', 'hooks', { type: 'codehost' });
  await postResource(api, 'secret', 'npm', { value: 'an archived value' });
  const member = (await createKey(api, { role: 'member', account: 'ada' })).key;
  const ownerProvider = 'PROVIDER_CODEHOST_OAUTH';
  expectOk(await api.post('/v1/members/update', { account: 'ada', ownerProvider, role: 'member' }));

  const s = new Agents(api, 'default');
  const runnerKey = (await createKey(api, { role: 'runner', pool: 'default' })).key;
  const runner = new FakeRunner(api.as(runnerKey), runnerName);
  await s.spawn('worked', { tasks: [{ subject: 'one' }, { subject: 'two' }] });
  const run = await runner.claim();
  await runner.report(run, {
    started: true,
    items: [{ type: 'MESSAGE', text: 'line\nline \u2028 🙂' }],
    usage: { costUsd: 0.1, inputTokens: 7 },
    diff: { repo: 'https://git.example/a.git', files: 1, insertions: 2, deletions: 3, text: '+ a\n- b\n' },
  });
  await runner.report(run, { unpushed: { commits: 1, files: 2, isSaved: true } });
  await runner.saveCheckpoint(run, archive);
  await runner.end(run, 'COMPLETED', { response: 'done' });
  await s.spawn('ended');
  await runner.end(await runner.claim());
  await s.kill('ended');
  await s.queue('worked', { description: 'later', deliverAt: inAnHour() });
  await s.spawn('waits');
  await s.spawn('waits/child');
  await s.spawn('waits/child/grandchild');
  const { attachmentId } = expectOk(await uploadTo(api, s.id('waits'), png()));
  await s.queue('waits', { description: 'next', followUpId: 'follow-1' });
  await s.queue('waits', { description: 'look', attachmentIds: [attachmentId] });
  const comments = ['why? 🙂', 'and\nthis?'].map((body) => ({ path: 'a.ts', line: 3, body }));
  expectOk(await s.send('agent/threads/create', 'waits', { comments }));
  await api.post('/v1/agent/spawn', { agentId: s.id('once'), description: 'x' }, { 'idempotency-key': 'k1' });
  return { member, runner: runnerKey, shared: (await createShareLink(api, s.id('worked'))).api.key };
}

/** What a caller can see of it, in one value. */
export async function seen(api: Api): Promise<unknown> {
  const s = new Agents(api, 'default');
  const agents: Record<string, unknown> = {};
  for (const path of ['worked', 'ended', 'waits', 'waits/child', 'waits/child/grandchild', 'once']) {
    const { dashboardUrl: _, ...status } = await s.status(path);
    const rest = [await s.timeline(path), await s.runs(path), await s.tasks(path)];
    agents[path] = [status, ...rest, (await s.send('agent/diff', path)).body];
  }
  const catalog = await Promise.all([
    readResource(api, 'persona', 'careful'),
    readResource(api, 'integration', 'hooks'),
    readResource(api, 'secret', 'npm'),
    api.get('/v1/catalog/persona/careful/history'),
    api.get('/v1/catalog/persona/gone/history'),
  ]);
  const queue = expectOk(await s.send<ReplyOf<'listFollowUps'>>('agent/queue/list', 'waits'));
  const [attachmentId] = queue.followUps.flatMap(({ attachmentIds }) => attachmentIds);
  return {
    agents,
    queue,
    image: expectOk(await s.send('agent/attachment', 'waits', { attachmentId })),
    threads: (await s.send('agent/threads', 'waits')).body,
    catalog: catalog.map((c) => c.body),
  };
}

import { afterAll, beforeAll, expect, test } from 'vitest';
import { Agents } from '../support/agents.ts';
import { until } from '../support/async.ts';
import { writeResource } from '../support/catalog.ts';
import { FaultProxy } from '../support/fault-proxy.ts';
import { makeGitRemote } from '../support/git-remote.ts';
import { Node } from './node.ts';
import { RunnerProcess, runnerKey } from './runner-process.ts';

let node: Node;
beforeAll(async () => {
  node = await Node.start({ runner: false });
});
afterAll(() => node?.close());

/** Waits until somebody has pushed a branch. */
const waitFor = (branch: string) =>
  `!run until git ls-remote --exit-code origin refs/heads/${branch}; do sleep 0.1; done`;

test('a push that was lost with its runner before it was reported is found by the next run, once', async () => {
  const remote = makeGitRemote(node.folder, 'origin');
  remote.commit('main', { 'README.md': 'seed\n' });
  await writeResource(node.api, 'workspace', 'with-repo', { repos: [{ url: `file://${remote.url}` }] });
  const agents = new Agents(node.api, 'with-repo');
  const pushes = async () => (await agents.timeline('pusher', 'PUSH')).map(({ data }) => data);
  const key = await runnerKey(node.api);
  const proxy = await FaultProxy.listen({ port: Number(new URL(node.url).port) });
  const first = await RunnerProcess.start(proxy.url, key, 'runner');
  await agents.spawn('pusher', { description: `!write a.txt a\n${waitFor('go')}\n!push add a` });
  await until(
    'the agent waiting',
    () => agents.timeline('pusher', 'TOOL_CALL'),
    (calls) => calls.length === 2,
  );

  // The service gets no reports from here on.
  proxy.set('half-open');
  remote.commit('go', {}, 'main');
  const isAgents = (ref: string) => ref.startsWith('muster/');
  const pushed = await until('the branch', async () => remote.refs().find(isAgents) ?? '', isAgents);
  await first.close();
  await proxy.close();
  expect(await pushes()).toEqual([]);

  const second = await RunnerProcess.start(node.url, key, 'runner');
  expect(await agents.wait('pusher')).toMatchObject({ phaseReason: 'RESTING', branch: pushed });
  const found = { ref: pushed, commits: [remote.tip(pushed)], files: ['a.txt'] };
  expect(await pushes()).toMatchObject([found]);

  // The next one is reported before its runner is lost.
  await agents.queue('pusher', `!write b.txt b\n!push add b\n${waitFor('end')}`);
  const all = [found, { files: ['b.txt'] }];
  await until('the report', pushes, (reported) => reported.length === all.length);
  await second.close();
  remote.commit('end', {}, 'main');
  const third = await RunnerProcess.start(node.url, key, 'runner');
  expect(await agents.wait('pusher')).toMatchObject({ phaseReason: 'RESTING' });
  expect(await pushes()).toMatchObject(all);
  await third.close();
});

import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ReplyOf } from '@muster/sdk/contract';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Agents } from '../support/agents.ts';
import { createKey, uniqueName, writeResource } from '../support/catalog.ts';
import { expectOk } from '../support/expect-reply.ts';
import { useSharedServer } from '../support/shared-server.ts';

const server = await useSharedServer();
const folder = mkdtempSync(join(tmpdir(), 'muster-rehearsal-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const git = (...args: string[]) => execFileSync('git', args, { cwd: folder, encoding: 'utf8' }).trim();
let repo: Agents;

beforeAll(async () => {
  const identity = ['-c', 'user.name=Test', '-c', 'user.email=test@example.com'];
  git('init', '-q', '-b', 'main', 'seed');
  writeFileSync(join(folder, 'seed', 'README.md'), 'seed\n');
  git('-C', 'seed', 'add', '.');
  git('-C', 'seed', ...identity, 'commit', '-q', '-m', 'seed');
  git('clone', '-q', '--bare', 'seed', 'origin.git');
  // Other tenants may not use repositories on the runner's machine.
  const tenant = { provider: 'PROVIDER_CODEHOST_APP', org: 'local' };
  const { api } = await createKey(
    server.operator,
    { role: 'admin', account: uniqueName('git') },
    { ref: { tenant }, justification: 'a test' },
  );
  const workspace = uniqueName('with-repo');
  await writeResource(api, 'workspace', workspace, {
    repos: [{ url: `file://${join(folder, 'origin.git')}`, baseBranch: 'main' }],
  });
  repo = new Agents(api, workspace);
});

test('!push commits everything on the agent’s branch and records the push', async () => {
  await repo.spawn('pusher', {
    description: '!write docs/new.md hello\n!push add docs\n!run git log -1 --format=%s',
  });
  const record = await repo.wait('pusher');
  expect(record).toMatchObject({
    phaseReason: 'RESTING',
    branch: expect.stringMatching(/^muster\/pusher-[0-9a-f]{6}$/),
  });
  const pushes = await repo.timeline('pusher', 'PUSH');
  expect(pushes).toHaveLength(1);
  expect(pushes[0]?.data).toMatchObject({ ref: record.branch, files: ['docs/new.md'] });
  const results = await repo.timeline('pusher', 'TOOL_RESULT');
  expect(JSON.stringify(results)).toContain('add docs');
});

test('a review is answered thread by thread; one whose last comment asks for it is declined', async () => {
  await repo.spawn('reviewed', { description: '!write docs/new.md hello\n!push add docs' });
  await repo.wait('reviewed');
  const bodies = ['Why?', 'Rename it.\ndecline: the name is public', '!fail quoted'];
  const comments = bodies.map((body, i) => ({ path: 'docs/new.md', line: i + 1, body }));
  expectOk(await repo.send('agent/threads/create', 'reviewed', { comments }));
  expect((await repo.wait('reviewed')).phaseReason).toBe('RESTING');
  const answers = async (): Promise<string[]> => {
    const { threads } = expectOk(await repo.send<ReplyOf<'threads'>>('agent/threads', 'reviewed'));
    for (const { repo: url } of threads) expect(url).toBe(`file://${join(folder, 'origin.git')}`);
    return threads.map(({ state, answer, comments: all }) => `${state} ${answer} ${all.at(-1)?.body}`);
  };
  const declined = 'OPEN DECLINED the name is public';
  expect(await answers()).toEqual(['RESOLVED ANSWERED Done.', declined, 'RESOLVED ANSWERED Done.']);
  // A message with directives leaves the tasks alone: the thread is told again by the next review.
  const more = [{ path: 'docs/new.md', line: 4, body: 'One more.' }];
  const review = { comments: more, description: '!say Not now.' };
  expectOk(await repo.send('agent/threads/create', 'reviewed', review));
  await repo.wait('reviewed');
  expect((await answers()).at(-1)).toBe('OPEN NONE One more.');
  expectOk(await repo.send('agent/threads/create', 'reviewed', { comments: more }));
  await repo.wait('reviewed');
  expect((await answers()).slice(-2)).toEqual(['RESOLVED ANSWERED Done.', 'RESOLVED ANSWERED Done.']);
});

test('a push activates the tasks whose pattern it matches, in that run', async () => {
  const tasks = [
    { id: 'docs', subject: 'docs', activation: { filesModified: { pattern: 'docs/**' } } },
    { id: 'code', subject: 'code', activation: { filesModified: { pattern: 'src/**' } } },
  ];
  await repo.spawn('activator', { description: '!write docs/x.md x\n!push', tasks });
  expect((await repo.wait('activator')).phaseReason).toBe('TASKS_UNFINISHED');
  await repo.queue('activator', '!say nothing pushed');
  expect((await repo.wait('activator')).phaseReason).toBe('RESTING');
});

const warnings = async (path: string) => (await repo.timeline(path, 'WARNING')).map(({ text }) => text);

test('an agent that leaves a commit unpushed is reminded once, and ignores it', async () => {
  const commit = 'git -c user.name=a -c user.email=a@b commit -q --allow-empty -m kept';
  await repo.spawn('forgetful', { description: `!run ${commit}\n!say done` });
  const { phaseReason, response } = await repo.wait('forgetful');
  expect({ phaseReason, response }).toEqual({ phaseReason: 'RESTING', response: 'done' });
  const reminders = (await warnings('forgetful')).filter((text) => text.includes('not pushed'));
  expect(reminders).toEqual(['Reminder: 1 commit is not pushed.']);
  await repo.spawn('pushes', { description: '!write a.txt a\n!push' });
  await repo.wait('pushes');
  expect(await warnings('pushes')).toEqual([]);
});

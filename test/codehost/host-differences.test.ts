import { describe, expect, it } from 'vitest';
import { forgejoDeliveries } from '../../packages/service/src/codehost/forgejo/deliveries.ts';
import type { HostThread } from '../../packages/service/src/codehost/host.ts';
import { FakeForgejo } from './forgejo.ts';
import { FakeGitlab } from './gitlab.ts';

describe('GitLab', () => {
  it('does not run commands that are in what is posted', async () => {
    const fake = await FakeGitlab.start();
    const host = fake.connect();
    fake.remote.commit('work', { 'a.txt': 'a\n' }, 'main');
    const body =
      '/merge\nDone: /usr/bin and /close\n  /assign @all\r/approve\n/usr/bin/env\n```\n/Label ~x\n```';
    const { number } = await host.openChangeRequest(fake.repo, {
      ...{ branch: 'work', base: 'main', title: 'Work', body, isDraft: false },
    });
    await host.comment(fake.repo, { type: 'change-request', number }, body);
    const [thread] = await host.threads(fake.repo, number);
    await host.reply(fake.repo, number, thread as HostThread, body);
    await fake.stop();
    const sent = fake.writes.map(({ body: { description, body: text } }) => description ?? text);
    const safe =
      '\\/merge\nDone: /usr/bin and /close\n  \\/assign @all/approve\n/usr/bin/env\n```\n\\/Label ~x\n```';
    expect(sent).toEqual([safe, safe, safe]);
  });

  it('reads the jobs of a pipeline for the merged result, which runs at another commit', async () => {
    const fake = await FakeGitlab.start();
    fake.remote.commit('work', { 'a.txt': 'a\n' }, 'main');
    const sha = fake.remote.tip('work');
    const host = fake.connect();
    const request = { branch: 'work', base: 'main', title: 'Work', body: '', isDraft: false };
    const { number } = await host.openChangeRequest(fake.repo, request);
    fake.mergedResults.set(number, {
      id: 5,
      sha: '1'.repeat(40),
      jobs: [
        {
          id: 6,
          name: 'e2e',
          status: 'failed',
          web_url: 'https://x/-/jobs/6',
          failure_reason: 'script_failure',
        },
      ],
    });
    expect(await host.checks(fake.repo, sha)).toEqual([
      {
        id: '6',
        name: 'e2e',
        state: 'FAILED',
        url: 'https://x/-/jobs/6',
        summary: 'script_failure',
        annotations: [],
      },
    ]);
    await fake.stop();
  });
});

describe('GitLab jobs behind one that waits for a person', () => {
  it('do not count, once no other job runs', async () => {
    const fake = await FakeGitlab.start();
    const sha = fake.remote.tip('main');
    for (const name of ['lint', 'test', 'deploy', 'verify'])
      await fake.setCheck(sha, { name, state: name === 'lint' ? 'FAILED' : 'PENDING' });
    fake.jobStates.set('deploy', 'manual').set('verify', 'created');
    const host = fake.connect();
    const states = async () =>
      Object.fromEntries((await host.checks(fake.repo, sha)).map(({ name, state }) => [name, state]));
    expect(await states()).toMatchObject({ test: 'PENDING', deploy: 'SKIPPED', verify: 'PENDING' });
    fake.jobStates.set('test', 'success');
    expect(await states()).toEqual({ lint: 'FAILED', test: 'PASSED', deploy: 'SKIPPED', verify: 'SKIPPED' });
    // Without one that waits, a job is about to start.
    fake.jobStates.set('deploy', 'success');
    expect(await states()).toMatchObject({ verify: 'PENDING' });
    await fake.stop();
  });
});

describe('Forgejo', () => {
  it('reads the statuses of a commit page by page, without links between them', async () => {
    const fake = await FakeForgejo.start('forgejo');
    const sha = fake.remote.tip('main');
    for (let i = 0; i < 73; i++) await fake.setCheck(sha, { name: `check ${i}`, state: 'PASSED' });
    fake.pageSize = 30;
    expect(new Set((await fake.connect().checks(fake.repo, sha)).map(({ name }) => name)).size).toBe(73);
    await fake.stop();
  });

  it.each(['failure', 'recover', 'success'])('looks at the checks after action_run_%s', (result) => {
    const run = { commit_sha: 'a'.repeat(40), repository: { full_name: 'team/project' } };
    const headers = { 'x-forgejo-event': `action_run_${result}` };
    const { events, subject } = forgejoDeliveries.read(headers, { action: result, run });
    expect(events).toEqual([{ type: 'checks', repo: 'team/project', sha: 'a'.repeat(40) }]);
    expect(subject).toContain('team/project@');
  });

  it('says which scopes a token lacks, and that only administrators may ask for permissions', async () => {
    const fake = await FakeForgejo.start('forgejo');
    fake.scopes = ['read:user', 'write:repository'];
    fake.accounts.integration.access = 'write';
    const found = await fake.connect().requirements(fake.repo);
    await fake.stop();
    expect(found.filter(({ isMet }) => !isMet).map(({ name }) => name)).toEqual([
      'scope: write:issue',
      'permission: admin',
    ]);
  });

  it('does not report a conflict of a draft, or while the host may still be looking for one', async () => {
    const fake = await FakeForgejo.start();
    const host = fake.connect();
    fake.remote.commit('work', { 'a.txt': 'a\n' }, 'main');
    const request = { branch: 'work', base: 'main', title: 'Work', body: '', isDraft: false };
    const { number } = await host.openChangeRequest(fake.repo, request);
    const item = fake.item({ type: 'change-request', number });
    fake.conflicts.add(number);
    item.updatedAt = '2026-01-01T00:00:00Z';
    expect((await host.changeRequest(fake.repo, number)).hasConflict).toBe(true);
    item.updatedAt = new Date().toISOString();
    expect((await host.changeRequest(fake.repo, number)).hasConflict).toBeNull();
    await fake.stop();
  });
});

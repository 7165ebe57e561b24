import { describe, expect, it } from 'vitest';
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

describe('Forgejo', () => {
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

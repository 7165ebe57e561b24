import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync } from 'node:fs';
import { join } from 'node:path';
import type { AgentStatus, SpawnReply } from '@muster/sdk/contract';
import { expect, test } from 'vitest';
import { gitIn } from '../support/git-remote.ts';
import { TestUser, userOfSharedServer } from './cli.ts';

const ada = userOfSharedServer({ runner: false });

const spawn = ['spawn', 'x', '--model', 'rehearsal-a'] as const;

/** Spawns with --repo, and returns the name of the workspace and what was said about it. */
async function spawnFor(repo: string, folder = ada.home) {
  const { code, out, err } = await ada.muster([...spawn, '--repo', repo, '-o', 'json'], { folder });
  expect({ code, err }).toMatchObject({ code: 0 });
  return { workspace: (JSON.parse(out) as SpawnReply).agentId.workspace, err };
}

function clone(remote: string): string {
  const folder = join(mkdtempSync(join(ada.home, 'clone-')), 'shop');
  execFileSync('git', ['clone', '-q', remote, folder], { stdio: 'pipe' });
  return folder;
}

function newRemote(name: string): string {
  const folder = join(mkdtempSync(join(ada.home, 'remote-')), name);
  mkdirSync(folder);
  gitIn(folder, 'init', '-q', '-b', 'main');
  gitIn(folder, 'commit', '-q', '--allow-empty', '-m', 'base');
  return folder;
}

test('a URL gets a workspace, which every spelling of it finds again', async () => {
  const url = 'https://git.example.com/team/Web_Shop.git';
  const first = await spawnFor('https://ada:token@git.example.com/team/Web_Shop.git');
  expect(first).toEqual({
    workspace: 'web-shop',
    err: expect.stringContaining(`created workspace web-shop for ${url}`),
  });
  expect(await ada.prints(['get', 'workspace', 'web-shop'])).not.toContain('token');
  for (const same of [url, 'git@git.example.com:team/Web_Shop', 'ssh://git@GIT.example.com/team/Web_Shop/'])
    expect(await spawnFor(same)).toEqual({
      workspace: 'web-shop',
      err: `workspace web-shop has ${same.replace('ada:token@', '')}\n`,
    });
  expect((await spawnFor('https://git.example.com/other/web-shop')).workspace).toBe('web-shop-2');
});

test('a path means the origin of the clone if it answers, else the clone itself', async () => {
  const remote = newRemote('tools');
  const folder = clone(remote);
  mkdirSync(join(folder, 'src'));
  expect(await spawnFor('.', join(folder, 'src'))).toMatchObject({ workspace: 'tools' });
  expect(await ada.prints(['get', 'workspace', 'tools'])).toContain(`url: ${remote}\n`);
  gitIn(folder, 'remote', 'set-url', 'origin', 'https://127.0.0.1:9/gone.git');
  const alone = await spawnFor(folder);
  expect(alone.workspace).toBe('shop');
  expect(alone.err).toContain(
    'https://127.0.0.1:9/gone.git) does not answer; the runner must be on this machine',
  );
  expect(await ada.prints(['get', 'workspace', 'shop'])).toContain(`url: ${folder}\n`);
});

test('what is not a repository is refused, and a member may not create the workspace', async () => {
  for (const bad of ['./nowhere', 'shop', '--upload-pack=x', ada.home])
    expect(await ada.muster([...spawn, `--repo=${bad}`])).toMatchObject({ code: 2, out: '' });
  expect(await ada.muster([...spawn, '--repo', 'https://h/x', '--workspace', 'w'])).toMatchObject({
    code: 2,
  });
  const key = (await ada.prints(['token', 'create', 'bob', '--account', 'bob'])).trim();
  const bob = new TestUser({ url: ada.server.url, key });
  expect(await bob.muster([...spawn, '--repo', 'https://git.example.com/a/b'])).toMatchObject({
    code: 4,
    err: expect.stringContaining('no workspace has https://git.example.com/a/b, and you may not create one'),
  });
  bob.remove();
  const { agentId } = await ada.data<AgentStatus>([...spawn, '--name', 'plain']);
  expect(agentId.workspace).toBe('default');
});

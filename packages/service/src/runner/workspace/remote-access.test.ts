import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { readRepos } from '../../lib/repositories.ts';
import { readTenantAllow, TenantRights } from '../tenant-allow.ts';
import { runGit } from './git.ts';
import { remoteAccess } from './remote-access.ts';

const tenant = { provider: 'PROVIDER_CODEHOST_APP', org: 'acme' } as const;
const listing = (...repos: string[]) =>
  new TenantRights(readTenantAllow(JSON.stringify({ 'codehost_app/acme': { repos } })), tenant, false);

let folder: string;
let host: Server;
let port: number;
let headers: string[];
/** An environment with git credentials in every usual place. */
let environment: Record<string, string>;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'muster-access-'));
  await writeFile(join(folder, '.netrc'), 'machine 127.0.0.1 login operator password netrc-secret\n');
  const helper = '!f() { echo username=operator; echo password=helper-secret; }; f';
  await writeFile(join(folder, '.gitconfig'), `[credential]\n\thelper = "${helper}"\n`);
  const askPass = join(folder, 'askpass');
  await writeFile(askPass, '#!/bin/sh\necho asked-secret\n', { mode: 0o755 });
  environment = {
    PATH: process.env.PATH ?? '',
    HOME: folder,
    GIT_ASKPASS: askPass,
    SSH_AUTH_SOCK: '/tmp/agent',
  };
  headers = [];
  host = createServer((request, response) => {
    headers.push(request.headers.authorization ?? '');
    response.writeHead(401, { 'www-authenticate': 'Basic realm="x"' }).end();
  });
  await new Promise<void>((resolve) => host.listen(0, '127.0.0.1', resolve));
  port = (host.address() as AddressInfo).port;
});
afterEach(async () => {
  host.close();
  await rm(folder, { recursive: true, force: true });
});

const accessTo = (url: string, rights: TenantRights, resolve?: (host: string) => Promise<string[]>) => {
  const [repository] = readRepos({ repos: [url] });
  if (!repository) throw new Error('no repository');
  return remoteAccess(repository, rights, environment, [], resolve);
};

const settingsOf = async (url: string, rights: TenantRights) => (await accessTo(url, rights)).settings();

describe('a tenant that is not listed', () => {
  it.each([
    ['a path', '/srv/git/app.git', /may not use a repository on the runner's machine/],
    ['a file URL', 'file:///srv/git/app.git', /may not use a repository on the runner's machine/],
    ['ssh', 'ssh://git@git.example/app.git', /may not use a repository over ssh/],
    ['ssh, written short', 'git@git.example:app.git', /may not use a repository over ssh/],
    ['the loopback', 'http://127.0.0.1:8080/app.git', /127\.0\.0\.1, an address of an internal network/],
    ['the loopback by name', 'http://localhost:8080/app.git', /an address of an internal network/],
    ['the loopback as a number', 'http://2130706433/app.git', /write the host as 127\.0\.0\.1/],
    ['the loopback as IPv6', 'http://[::1]:8080/app.git', /an address of an internal network/],
    ['the metadata service', 'http://169.254.169.254/app.git', /an address of an internal network/],
    ['a private network', 'https://10.1.2.3/app.git', /an address of an internal network/],
    ['a final dot', 'https://git.example./app.git', /write the host as git\.example/],
    ['a name that does not exist', 'https://no-such-host.invalid/app.git', /can't be resolved/],
  ])('may not use %s', async (_, url, message) => {
    await expect(settingsOf(url, listing())).rejects.toThrow(message);
  });

  it.each([['/srv/git/app.git'], ['git@git.example:app.git'], ['http://127.0.0.1/app.git']])(
    'gets an error that says what the operator has to list for %s',
    async (url) => {
      const howToAllow = `MUSTER_TENANT_ALLOW='{"codehost_app/acme":{"repos":["${url}"]}}'`;
      await expect(settingsOf(url, listing())).rejects.toThrow(howToAllow);
    },
  );

  it('fetches from public hosts, with the address checked and pinned before every command', async () => {
    const answers = [
      ['203.0.114.1', '2a00::1'],
      ['203.0.114.1', '10.0.0.1'],
    ];
    const access = await accessTo(
      'https://git.example/app.git',
      listing(),
      async () => answers.shift() ?? [],
    );
    const settings = await access.settings();
    expect(settings).toContain('http.curloptResolve=git.example:443:203.0.114.1,[2a00::1]');
    await expect(access.settings()).rejects.toThrow(
      'git.example is 10.0.0.1, an address of an internal network',
    );
    const pin = ['-c', `http.curloptResolve=git.example:${port}:127.0.0.1`];
    await runGit([...pin, 'ls-remote', `http://git.example:${port}/app.git`], {
      isRemote: true,
      environment: access.environment,
    });
    expect(headers).toEqual(['']);
  });

  it("has none of the runner's credentials", async () => {
    const url = `http://127.0.0.1:${port}/app.git`;
    const ask = async (access: Awaited<ReturnType<typeof accessTo>>) =>
      runGit(['ls-remote', url], { isRemote: true, environment: access.environment });
    await ask(await accessTo(url, listing('http://127.0.0.1:*/**')));
    expect(headers.filter((header) => header !== '')).not.toEqual([]);
    headers = [];
    const stranger = await accessTo('https://203.0.114.1/app.git', listing());
    expect((await ask(stranger)).exitCode).not.toBe(0);
    expect(headers).toEqual(['']);
    expect(stranger.environment).not.toHaveProperty('SSH_AUTH_SOCK');
  });
});

describe('a tenant with a listed repository', () => {
  it('reaches it like the first tenant, in internal networks too', async () => {
    for (const url of ['http://127.0.0.1/acme/app.git', 'ssh://git@git.example/app.git']) {
      expect(await settingsOf(url, listing('http://127.0.0.1/acme/*', 'ssh://git@git.example/*'))).toEqual(
        [],
      );
      expect(await settingsOf(url, new TenantRights(new Map(), tenant, true))).toEqual([]);
    }
  });

  it('is not led elsewhere by a redirect, and neither is the first tenant', async () => {
    host.removeAllListeners('request').on('request', (request, response) => {
      headers.push(request.url ?? '');
      response.writeHead(302, { location: `http://localhost:${port}/inner/` }).end();
    });
    const url = `http://127.0.0.1:${port}/app.git`;
    for (const rights of [listing('http://127.0.0.1:*/**'), new TenantRights(new Map(), tenant, true)]) {
      const { environment: variables, settings } = await accessTo(url, rights);
      const options = { isRemote: true, environment: variables } as const;
      expect((await runGit([...(await settings()), 'ls-remote', url], options)).exitCode).not.toBe(0);
    }
    expect(headers.filter((path) => path.startsWith('/inner'))).toEqual([]);
    expect(headers).toHaveLength(2);
  });

  it('reaches nothing else by another spelling', async () => {
    const rights = listing('http://127.0.0.1/acme/**');
    for (const path of [
      'acme/../evil/app',
      'acme/%2e%2e/evil/app',
      'acme\\..\\evil',
      'acme/%2fx',
      'acme/./x',
    ])
      await expect(settingsOf(`http://127.0.0.1/${path}`, rights)).rejects.toThrow(/internal network/);
    await expect(settingsOf('http://127.0.0.1@127.0.0.2/acme/app', rights)).rejects.toThrow(/127\.0\.0\.2/);
    await expect(settingsOf('http://127.0.0.1/acme/app?x=/acme/y', rights)).rejects.toThrow(
      /internal network/,
    );
  });

  it('reaches only real paths: no link leads out of the listed folder', async () => {
    await mkdir(join(folder, 'listed/app.git'), { recursive: true });
    await mkdir(join(folder, 'private/app.git'), { recursive: true });
    await symlink(join(folder, 'private'), join(folder, 'listed/link'));
    const rights = listing(`${folder}/listed/**`);
    expect(await settingsOf(join(folder, 'listed/app.git'), rights)).toEqual([]);
    expect(await settingsOf(`file://${folder}/listed/app`, rights)).toEqual([]);
    for (const path of ['private/app.git', 'listed/link/app.git'])
      await expect(settingsOf(join(folder, path), rights)).rejects.toThrow(/may not use a repository on/);
    await expect(settingsOf(`${folder}/listed/../private/app.git`, rights)).rejects.toThrow(/may not use/);
  });
});

describe('the objects that an LFS server names at its own origin', () => {
  const first = new TenantRights(readTenantAllow('{}'), tenant, true);
  it.each([
    ['may be inside, if the server itself is', first, false, true],
    ['must be public, if the server is: it could give its name another address', first, true, false],
    ['may be inside, if the operator lists them', listing('http://git.example/**'), true, true],
  ])('%s', async (_, rights, isPublic, isAllowed) => {
    const access = (await accessTo('http://git.example/team/app.git', rights)).http();
    const mayHave = await access.addressesFor(new URL('http://git.example/latest/meta-data'), { isPublic });
    expect(['169.254.169.254', '93.184.216.34'].map(mayHave)).toEqual([isAllowed, true]);
  });
});

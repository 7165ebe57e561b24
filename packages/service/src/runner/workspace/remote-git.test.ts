import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { MusterClient } from '@muster/sdk';
import type { Claim, GitCredential } from '@muster/sdk/contract';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { serveGit } from '../../../../../test/codehost/git-server.ts';
import { type GitRemote, makeGitRemote } from '../../../../../test/support/git-remote.ts';
import { hostRuleOf } from '../../lib/host-rules.ts';
import { readRepos } from '../../lib/repositories.ts';
import { TenantRights } from '../tenant-allow.ts';
import { type AskCredential, askCredential, noCredential } from './git-credentials.ts';
import { type Mirror, Mirrors } from './mirror.ts';

const tenant = { provider: 'PROVIDER_CODEHOST_APP', org: 'acme' } as const;
const secret = 'integration-secret';

let folder: string;
let remote: GitRemote;
let servers: Server[];
/** The passwords that git sent to the host; empty without one. */
let sent: string[];
/** Those that the host accepts. */
let accepted: string[];
let url: string;

const listen = async (listener: RequestListener): Promise<string> => {
  const server = createServer(listener);
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
};

const passwordIn = (authorization = ''): string =>
  Buffer.from(authorization.slice('Basic '.length), 'base64').toString().split(':')[1] ?? '';

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'muster-remote-git-'));
  servers = [];
  sent = [];
  accepted = [secret];
  await mkdir(join(folder, 'data'));
  await mkdir(join(folder, 'team'));
  const helper = '!f() { echo username=operator; echo password=helper-secret; }; f';
  await writeFile(join(folder, '.gitconfig'), `[credential]\n\thelper = "${helper}"\n`);
  remote = makeGitRemote(join(folder, 'team'), 'app');
  remote.commit('main', { 'a.txt': 'one\n' });
  const origin = await listen((request, response) => {
    sent.push(passwordIn(request.headers.authorization));
    const accessOf = (_repo: string, _username: string, password: string) =>
      accepted.includes(password) ? ('write' as const) : ('none' as const);
    void serveGit(request, response, { root: folder, accessOf });
  });
  url = `${origin}/team/app.git`;
});
afterEach(async () => {
  for (const server of servers) server.close();
  await rm(folder, { recursive: true, force: true });
});

const credential = (fields: Partial<GitCredential> = {}): GitCredential => ({
  ...{ integration: 'hub', url, username: 'git', password: secret, expiresAt: null, missing: [] },
  ...fields,
});

interface MirrorOptions {
  readonly isFirst?: boolean;
  readonly innerHosts?: readonly string[];
  readonly repo?: string;
}

async function mirrorOf({
  isFirst = true,
  innerHosts = [],
  repo = url,
}: MirrorOptions = {}): Promise<Mirror> {
  const environment = { PATH: process.env.PATH, HOME: folder };
  const rules = innerHosts.flatMap((text) => hostRuleOf(text) ?? []);
  const [repository] = readRepos({ repos: [repo] });
  if (!repository) throw new Error('no repository');
  const mirrors = new Mirrors(join(folder, 'data'), environment, rules);
  return mirrors.of(tenant, new TenantRights(new Map(), tenant, isFirst), repository);
}

describe('with the credential of an integration', () => {
  it("git sends it and nothing of the runner's user", async () => {
    const mirror = await mirrorOf();
    await mirror.refresh(async () => credential());
    expect(new Set(sent)).toEqual(new Set(['', secret]));
    await expect(mirror.isEmpty()).resolves.toBe(false);
    sent = [];
    accepted = ['helper-secret'];
    await expect(mirror.refresh(async () => credential())).rejects.toThrow(/Authentication failed/);
    expect(sent).not.toContain('helper-secret');
    await mirror.refresh(noCredential);
    expect(sent).toContain('helper-secret');
  });

  it('a repository that the workspace names by ssh is fetched over HTTP, for every tenant', async () => {
    const { host } = new URL(url);
    const options = { repo: 'git@127.0.0.1:team/app.git', isFirst: false, innerHosts: [host] };
    const mirror = await mirrorOf(options);
    await mirror.refresh(async () => credential());
    await expect(mirror.isEmpty()).resolves.toBe(false);
    await expect(mirror.refresh(noCredential)).rejects.toThrow(/may not use a repository over ssh/);
  });

  it('a tenant reaches addresses of internal networks only where the operator lists the host', async () => {
    const { host, port } = new URL(url);
    const inner = await mirrorOf({ isFirst: false, innerHosts: ['127.0.0.1:1', `other.example:${port}`] });
    const refused = inner.refresh(async () => credential());
    await expect(refused).rejects.toThrow(`with MUSTER_ALLOW_INNER_HOSTS=${host}`);
    expect(sent).toEqual([]);
  });

  it('no redirect is followed', async () => {
    const elsewhere: string[] = [];
    const other = await listen((request, response) => {
      elsewhere.push(request.url ?? '');
      response.end();
    });
    const origin = await listen((request, response) =>
      response.writeHead(302, { location: `${other}${request.url}` }).end(),
    );
    const mirror = await mirrorOf({ repo: `${origin}/team/app.git` });
    const fetched = mirror.refresh(async () => credential({ url: `${origin}/team/app.git` }));
    await expect(fetched).rejects.toThrow(/can't fetch/);
    expect(elsewhere).toEqual([]);
  });

  it('what a host sends back of it is hidden', async () => {
    const echo = await listen((request, response) => {
      const { authorization = '' } = request.headers;
      if (!authorization) return response.writeHead(401, { 'www-authenticate': 'Basic realm="x"' }).end();
      response.writeHead(403, { 'content-type': 'text/plain' });
      return response.end(`${authorization} is ${passwordIn(authorization)}, which may not do that\n`);
    });
    const mirror = await mirrorOf({ repo: `${echo}/team/app.git` });
    const { message } = await mirror
      .refresh(async () => credential({ url: `${echo}/team/app.git` }))
      .then(() => new Error('it was fetched'))
      .catch((error: Error) => error);
    expect(message).toContain('remote: Basic *** is ***, which may not do that');
    expect(message).not.toContain(Buffer.from(`git:${secret}`).toString('base64'));
  });
});

describe('a credential that the host refuses', () => {
  it('is asked for once more, and the new one is used', async () => {
    const asked: boolean[] = [];
    const mirror = await mirrorOf();
    await mirror.refresh(async (isRefused) => {
      asked.push(isRefused);
      return credential({ password: isRefused ? secret : 'revoked' });
    });
    // The second pair is the question for the default branch.
    expect(asked).toEqual([false, true, false, true]);
  });

  it('twice gives an error that names the integration and what is missing', async () => {
    const missing = ['contents: write: Set "Contents" to "Read and write".'];
    const mirror = await mirrorOf();
    const refused = (fields: Partial<GitCredential>) =>
      mirror.refresh(async () => credential({ password: 'revoked', ...fields }));
    await expect(refused({ missing })).rejects.toThrow(
      /Authentication failed.*the credential of the integration "hub": contents: write: Set "Contents"/,
    );
    await expect(refused({})).rejects.toThrow('`muster integration test hub` says what it lacks');
  });
});

describe('runs that wait for the same fetch', () => {
  it('get it with the credential of any of them that has not ended', async () => {
    const mirror = await mirrorOf();
    const ended: AskCredential = async () => Promise.reject(new Error('the run has ended'));
    const first = mirror.refresh(async () => credential());
    await Promise.all([first, mirror.refresh(ended), mirror.refresh(async () => credential())]);
    await expect(mirror.refresh(ended)).rejects.toThrow('the run has ended');
  });
});

describe('the question to the service', () => {
  const claim = { agentKey: 'agent', runId: 1 } as Claim;

  const asking = async (listener: RequestListener, repo = url): Promise<AskCredential> => {
    const client = new MusterClient({ url: await listen(listener), apiKey: 'key' });
    const [repository] = readRepos({ repos: [repo] });
    if (!repository) throw new Error('no repository');
    return askCredential(client, 'runner', claim, repository, new AbortController().signal);
  };

  const refusing = (status: number, code: number) =>
    asking((_request, response) =>
      response
        .writeHead(status, { 'content-type': 'application/json' })
        .end(JSON.stringify({ code, message: 'no', details: [] })),
    );

  it.each([
    [404, 5],
    [501, 12],
  ])('has no answer from a service that does not know it (%i)', async (status, code) => {
    expect(await (await refusing(status, code))(false)).toBeNull();
  });

  it('fails if the run is not held, without a fallback', async () => {
    await expect((await refusing(409, 10))(false)).rejects.toThrow('no');
  });

  it('is not asked for a path on this machine, or for a URL with its own credentials', async () => {
    const never: RequestListener = () => {
      throw new Error('it was asked');
    };
    for (const repo of ['/srv/app.git', 'file:///srv/app.git', 'https://token@git.example/team/app.git'])
      expect(await (await asking(never, repo))(false)).toBeNull();
  });
});

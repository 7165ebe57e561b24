import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { uniqueName, writeResource } from '../support/catalog.ts';
import { makeGitRemote } from '../support/git-remote.ts';
import { type LfsServer, startLfsServer } from '../support/lfs-server.ts';
import { isInstalled } from '../support/system-packages.ts';
import { newTenant, operatorOf } from '../support/tenants.ts';
import { printedBy, TestAgents, TestService } from './test-service.ts';

const hasLfs = isInstalled('git-lfs');
if (!hasLfs) process.stderr.write('\n*** TESTS OF LFS ARE SKIPPED: git-lfs is not installed\n\n');

const password = 'canary-password-of-the-repository';
const objectToken = 'Token canary-of-the-object-store';
const attributes = { '.gitattributes': '*.bin filter=lfs diff=lfs merge=lfs -text\n' };
const allowedOrg = uniqueName('lfs');

describe.skipIf(!hasLfs)('files in LFS', () => {
  let folder: string;
  let lfs: LfsServer;
  let service: TestService;

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'muster-lfs-'));
    lfs = await startLfsServer({ root: folder, username: 'robot', password, objectToken });
    const allow = { [`codehost_app/${allowedOrg}`]: { repos: [`${lfs.url}/**`] } };
    service = await TestService.start({
      env: {
        MUSTER_TENANT_ALLOW: JSON.stringify(allow),
        MUSTER_ALLOW_INNER_HOSTS: lfs.storeHost,
        // The credential helper of the runner's user.
        GIT_CONFIG_COUNT: '1',
        GIT_CONFIG_KEY_0: `credential.${lfs.url}.helper`,
        GIT_CONFIG_VALUE_0: `!f() { printf 'username=robot\\npassword=%s\\n' '${password}'; }; f`,
      },
    });
  });
  afterAll(async () => {
    await service?.close();
    lfs?.close();
    rmSync(folder, { recursive: true, force: true });
  });

  /** A workspace with a repository on the LFS server, whose URL contains this credential. */
  async function place(api = service.api, credential = `robot:${password}@`) {
    const name = uniqueName('big');
    const remote = makeGitRemote(folder, `team/${name}`);
    remote.git('config', 'http.receivepack', 'true');
    const url = `http://${credential}${new URL(lfs.url).host}/team/${name}.git`;
    await writeResource(api, 'workspace', name, { repos: [url] });
    return { remote, agents: new TestAgents(api, name) };
  }

  it('are there when an agent starts, and are uploaded by its push; no credential is in its sandbox', async () => {
    const { remote, agents } = await place();
    remote.commit('main', { ...attributes, 'a.bin': lfs.add('large content\n') });
    const work = [
      'cat a.bin; git status --porcelain; echo new > b.bin; git add b.bin; git commit -qm b; git push -q 2>&1; echo $?',
      'env; cat "$GIT_CONFIG_GLOBAL" .git/config; git lfs env',
      'GIT_CURL_VERBOSE=1 GIT_TRACE=1 git lfs fetch --all 2>&1; git lfs push --all origin HEAD 2>&1',
    ];
    const printed = await printedBy(agents, 'a', work.join('; '));
    // git-lfs prints how far an upload is when it takes a moment.
    expect(printed).toMatch(/^large content\n(?:Uploading LFS objects[^\n]*\n)*0\n/);
    expect(printed).not.toContain('canary');
    const branch = remote.refs().find((ref) => ref.startsWith('muster/a-'));
    const pushed = remote.git('show', `${branch}:b.bin`);
    const [, oid = ''] = /oid sha256:(\w+)/.exec(pushed) ?? [];
    expect(lfs.objects.get(oid)?.toString()).toBe('new\n');
    expect(await agents.warnings('a')).toEqual([]);
    expect(JSON.stringify(await agents.timeline('a'))).not.toContain('canary');
  });

  it("are fetched and uploaded with the credential helper of the runner's user", async () => {
    const { remote, agents } = await place(service.api, '');
    remote.commit('main', { ...attributes, 'a.bin': lfs.add('with a helper\n') });
    const work =
      'cat a.bin; echo helped > b.bin; git add b.bin; git commit -qm b; git push -q 2>/dev/null; env';
    const printed = await printedBy(agents, 'a', work);
    expect(printed).toMatch(/^with a helper\n/);
    expect(printed).not.toContain('canary');
    expect([...lfs.objects.values()].map(String)).toContain('helped\n');
    expect(await agents.warnings('a')).toEqual([]);
  });

  it('that the server does not have stay pointers', async () => {
    const { remote, agents } = await place();
    const missing = lfs.add('missing\n');
    lfs.objects.clear();
    remote.commit('main', { ...attributes, 'a.bin': missing });
    expect(await printedBy(agents, 'a', 'cat a.bin')).toContain('oid sha256:');
    expect((await agents.warnings('a')).join()).toMatch(
      /Files in LFS of \S+ were not fetched and are pointers: /,
    );
  });

  it('are pointers if the answer of their server is too large, too deep or has too many values', async () => {
    const { remote, agents } = await place();
    remote.commit('main', { ...attributes, 'a.bin': lfs.add('hostile\n') });
    lfs.answers.push('['.repeat(1_000_000), `[${'0,'.repeat(1_500_000)}0]`, ' '.repeat(5_000_000), '[]');
    const again = 'git lfs pull 2>&1; '.repeat(3);
    const printed = await printedBy(agents, 'a', `${again} git lfs pull && cat a.bin`);
    expect((await agents.warnings('a')).join()).toContain('JSON with more depth than 16');
    const reasons = ['JSON with more values than 50000', 'has more than 4194304 bytes', 'not a JSON object'];
    for (const reason of reasons) expect(printed).toContain(reason);
    expect(printed).toMatch(/^hostile$/m);
    expect(lfs.answers).toEqual([]);
  });

  it('are not fetched from an internal address that their server names, for any tenant', async () => {
    let requests = 0;
    const inner = createServer((_, response) => {
      requests += 1;
      response.end('inside\n');
    }).listen(0, '127.0.0.1');
    await once(inner, 'listening');
    const { port } = inner.address() as AddressInfo;
    lfs.named = { href: `http://127.0.0.1:${port}/latest/meta-data`, header: {} };
    const { admin } = await newTenant(await operatorOf(service.server), 'chief', allowedOrg);
    for (const api of [service.api, admin]) {
      const { remote, agents } = await place(api);
      remote.commit('main', { ...attributes, 'a.bin': lfs.add('inside\n') });
      expect(await printedBy(agents, 'a', 'cat a.bin')).toContain('oid sha256:');
      expect((await agents.warnings('a')).join()).toContain('an address of an internal network');
    }
    inner.close();
    lfs.named = undefined;
    expect(requests).toBe(0);
  });

  it('are fetched from the same origin, without headers that a metadata service asks for', async () => {
    const header = {
      ...{ 'Metadata-Flavor': 'Google', 'X-aws-ec2-metadata-token': 'x', Metadata: 'true' },
      ...{ Host: 'metadata.example', 'X-Forwarded-For': '127.0.0.1', 'X-Object': 'kept' },
    };
    lfs.named = { href: `${lfs.url}/object`, header };
    const { remote, agents } = await place();
    remote.commit('main', { ...attributes, 'a.bin': lfs.add('from the same origin\n') });
    expect(await printedBy(agents, 'a', 'cat a.bin')).toBe('from the same origin\n');
    lfs.named = undefined;
    const [{ host, ...seen } = {}] = lfs.seen;
    expect(host).toBe(new URL(lfs.url).host);
    expect(Object.keys(seen).sort()).toEqual(['connection', 'x-object']);
  });
});

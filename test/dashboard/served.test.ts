import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { dashboardPages } from '../../packages/service/src/http/routes/dashboard.ts';
import { expectError } from '../support/expect-reply.ts';
import { sendRaw } from '../support/raw-requests.ts';
import { type SharedServer, sharedServer } from '../support/shared-server.ts';
import { root } from '../tidy/sources.ts';

/** The dashboard as it was built, from a service as it runs. The routes alone are tested beside their file. */
const folder = join(root, 'packages/service/static/dashboard');
const document = readFileSync(join(folder, 'index.html'), 'utf8');
const assets = readdirSync(join(folder, 'assets')).map((name) => `/assets/${name}`);
const pages = dashboardPages.map((page) => page.replace('*', 'codehost_oauth/ada/default/fix-login'));

let server: SharedServer;
beforeAll(async () => {
  server = await sharedServer({ runner: false });
});
afterAll(() => server?.close());

describe('a page', () => {
  test.each(pages)('%s is the document, without a key and under a strict policy', async (path) => {
    const answer = await fetch(`${server.url}${path}`);
    expect(answer.status).toBe(200);
    expect(await answer.text()).toBe(document);
    expect(Object.fromEntries(answer.headers)).toMatchObject({
      'content-type': 'text/html; charset=utf-8',
      'cache-control': 'no-cache',
      'cross-origin-opener-policy': 'same-origin',
      'referrer-policy': 'no-referrer',
      'x-content-type-options': 'nosniff',
      'x-frame-options': 'DENY',
    });
    const policy = answer.headers.get('content-security-policy') ?? '';
    expect(policy).not.toMatch(/unsafe|https?:|data:|blob:|\*/);
    for (const part of [
      ...["default-src 'none'", "script-src 'self'", "connect-src 'self'", "frame-ancestors 'none'"],
      ...["base-uri 'none'", "form-action 'none'", "require-trusted-types-for 'script'"],
    ])
      expect(policy.split('; ')).toContain(part);
    expect(answer.headers.get('permissions-policy')).toMatch(/camera=\(\).*microphone=\(\)/);
  });

  test('loads files of this server alone, and nothing from within its own text', () => {
    const loaded = [...document.matchAll(/\b(?:src|href)="([^"]*)"/g)].map(([, url = '']) => url);
    expect(loaded.length).toBeGreaterThan(1);
    expect(loaded.filter((url) => !assets.includes(url))).toEqual([]);
    expect(document).not.toMatch(/<script(?![^>]*\bsrc=)|<style|\bstyle=|\bon\w+=/);
  });

  test.each([...pages, ...assets.slice(0, 1)])('%s is only read', async (path) => {
    for (const method of ['POST', 'PUT', 'DELETE'])
      expectError(await sendRaw(server.url, { method, path }), 'UNIMPLEMENTED');
  });

  test('has a head, and has not changed for whoever knows it', async () => {
    const head = await fetch(`${server.url}/`, { method: 'HEAD' });
    expect([head.status, await head.text()]).toEqual([200, '']);
    const headers = { 'if-none-match': head.headers.get('etag') ?? '' };
    expect((await fetch(`${server.url}/`, { headers })).status).toBe(304);
  });
});

describe('an asset', () => {
  test.each(assets)('%s is kept for ever, and comes packed if it is text', async (path) => {
    const headers = { 'accept-encoding': 'gzip' };
    const plain = Buffer.from(await (await fetch(`${server.url}${path}`)).arrayBuffer());
    expect(plain.equals(readFileSync(join(folder, path)))).toBe(true);
    const packed = await fetch(`${server.url}${path}`, { method: 'HEAD', headers });
    expect(packed.headers.get('cache-control')).toBe('public, max-age=31536000, immutable');
    expect(packed.headers.get('x-content-type-options')).toBe('nosniff');
    if (!/\.(js|css|svg)$/.test(path)) return;
    expect(packed.headers.get('content-encoding')).toBe('gzip');
    expect(packed.headers.get('vary')).toBe('accept-encoding');
  });

  test('that is packed is the same', async () => {
    const path = assets.find((asset) => asset.endsWith('.js')) ?? '';
    const bytes = execFileSync('curl', ['-s', '-H', 'accept-encoding: gzip', `${server.url}${path}`]);
    expect(gunzipSync(bytes).equals(readFileSync(join(folder, path)))).toBe(true);
  });

  test.each([
    '/index.html',
    '/assets',
    '/assets/',
    '/assets/nothing.js',
    '/assets/../index.html',
    '/assets/../../docs/docs.js',
    '/assets/..%2findex.html',
    '/assets/%2e%2e/%2e%2e/%2e%2e/package.json',
    '/package.json',
  ])('is nothing that was not built: %s', async (path) => {
    expectError(await sendRaw(server.url, { method: 'GET', path }), 'NOT_FOUND');
  });
});

test('the package that would be published has the dashboard', () => {
  const listed = execFileSync('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], {
    cwd: join(root, 'packages/service'),
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const [{ files }] = JSON.parse(listed.toString()) as [{ files: { path: string }[] }];
  const names = files.map(({ path }) => path);
  for (const path of ['/index.html', ...assets]) expect(names).toContain(`static/dashboard${path}`);
});

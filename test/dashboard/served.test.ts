import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { dashboardPages } from '../../packages/service/src/http/routes/pages.ts';
import { expectError } from '../support/expect-reply.ts';
import { sendRaw } from '../support/raw-requests.ts';
import { useSharedServer } from '../support/shared-server.ts';
import { readText, root } from '../tidy/sources.ts';

/** The built dashboard, served by a running service. The routes have their own tests in pages.test.ts. */
const folder = join(root, 'packages/service/static/dashboard');
const document = readFileSync(join(folder, 'index.html'), 'utf8');
const assets = readdirSync(join(folder, 'assets'))
  .filter((name) => !/\.(br|gz)$/.test(name))
  .map((name) => `/assets/${name}`);
const pages = dashboardPages.map((page) => page.replace('*', 'codehost_oauth/ada/default/fix-login'));

const server = await useSharedServer({ runner: false });

describe('a page', () => {
  test.each(pages)('%s needs no key and has a strict content security policy', async (path) => {
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
    // Pages show an agent's images from memory; nothing else may come from there.
    const images = "img-src 'self' blob:";
    expect(policy.replace(images, '')).not.toMatch(/unsafe|https?:|data:|blob:|\*/);
    for (const part of [
      images,
      ...["default-src 'none'", "script-src 'self'", "connect-src 'self'", "frame-ancestors 'none'"],
      ...["base-uri 'none'", "form-action 'none'", "require-trusted-types-for 'script'"],
    ])
      expect(policy.split('; ')).toContain(part);
    expect(answer.headers.get('permissions-policy')).toMatch(/camera=\(\).*microphone=\(\)/);
  });

  test('loads only files of this server, and has no inline script or style', () => {
    const loaded = [...document.matchAll(/\b(?:src|href)="([^"]*)"/g)].map(([, url = '']) => url);
    expect(loaded.length).toBeGreaterThan(1);
    expect(loaded.filter((url) => !assets.includes(url))).toEqual([]);
    expect(document).not.toMatch(/<script(?![^>]*\bsrc=)|<style|\bstyle=|\bon\w+=/);
  });

  test.each([...pages, ...assets.slice(0, 1)])('%s accepts only GET and HEAD', async (path) => {
    for (const method of ['POST', 'PUT', 'DELETE'])
      expectError(await sendRaw(server.url, { method, path }), 'UNIMPLEMENTED');
  });

  test('answers HEAD, and 304 to a request with its ETag', async () => {
    const head = await fetch(`${server.url}/`, { method: 'HEAD' });
    expect([head.status, await head.text()]).toEqual([200, '']);
    // Not fetch: with this header it asks for a reload, which is always answered in full.
    const headers = { 'if-none-match': head.headers.get('etag') ?? '', 'accept-encoding': 'gzip, deflate' };
    expect((await sendRaw(server.url, { method: 'GET', path: '/', headers })).status).toBe(304);
  });
});

describe('an asset', () => {
  test.each(assets)('%s is cached forever, and compressed if it is text', async (path) => {
    const headers = { 'accept-encoding': 'gzip' };
    const plain = Buffer.from(await (await fetch(`${server.url}${path}`)).arrayBuffer());
    expect(plain.equals(readFileSync(join(folder, path)))).toBe(true);
    const compressed = await fetch(`${server.url}${path}`, { method: 'HEAD', headers });
    expect(compressed.headers.get('cache-control')).toBe('public, max-age=31536000, immutable');
    expect(compressed.headers.get('x-content-type-options')).toBe('nosniff');
    if (!/\.(js|css|svg)$/.test(path)) return;
    expect(compressed.headers.get('content-encoding')).toBe('gzip');
    expect(compressed.headers.get('vary')).toBe('accept-encoding');
  });

  test('has the same content when it is compressed', async () => {
    const path = assets.find((asset) => asset.endsWith('.js')) ?? '';
    const bytes = execFileSync('curl', ['-s', '-H', 'accept-encoding: gzip', `${server.url}${path}`]);
    expect(gunzipSync(bytes).equals(readFileSync(join(folder, path)))).toBe(true);
  });

  test.each([
    '/index.html',
    '/assets',
    '/assets/',
    '/assets/nothing.js?try=10',
    '/assets/../index.html',
    '/assets/../../docs/docs.js',
    '/assets/..%2findex.html',
    '/assets/%2e%2e/%2e%2e/%2e%2e/package.json',
    '/package.json',
  ])('is not served at %s', async (path) => {
    expectError(await sendRaw(server.url, { method: 'GET', path }), 'NOT_FOUND');
  });

  test('an unknown address is a page for a browser and an error for other clients', async () => {
    const headers = { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' };
    const page = await fetch(`${server.url}/nowhere/at-all`, { headers });
    expect([page.status, page.headers.get('content-type')]).toEqual([404, 'text/html; charset=utf-8']);
    expect(page.headers.get('content-security-policy')).toContain("default-src 'none'");
    expect(await page.text()).toContain('<div id="root">');
    const found = await fetch(server.url, { headers });
    const again = await fetch(`${server.url}/nowhere`, {
      headers: { ...headers, 'if-none-match': found.headers.get('etag') ?? '' },
    });
    expect(again.status).toBe(404);
    for (const path of ['/v1/nowhere', '/hooks/nowhere', '/assets/nowhere.js?try=10', '/docs/nowhere'])
      expect((await fetch(`${server.url}${path}`, { headers })).headers.get('content-type'), path).toMatch(
        /^application\/json/,
      );
    const other = await fetch(`${server.url}/nowhere`, { method: 'POST', headers });
    expect([other.status, await other.json()]).toEqual([
      404,
      { code: 5, message: 'unknown path: /nowhere', details: [] },
    ]);
  });
});

test('the published package contains the dashboard', () => {
  // The files of the dashboard, empty: to compress the whole package would take seconds.
  const copy = mkdtempSync(join(tmpdir(), 'muster-package-'));
  const write = (path: string, text = '') => {
    mkdirSync(dirname(join(copy, path)), { recursive: true });
    writeFileSync(join(copy, path), text);
  };
  for (const path of ['package.json', '.gitignore', 'packages/service/package.json'])
    write(path, readText(path));
  for (const path of ['/index.html', ...assets]) write(`packages/service/static/dashboard${path}`);
  const listed = execFileSync('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], {
    cwd: join(copy, 'packages/service'),
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  rmSync(copy, { recursive: true });
  const [{ files }] = JSON.parse(listed.toString()) as [{ files: { path: string }[] }];
  const names = files.map(({ path }) => path);
  for (const path of ['/index.html', ...assets]) expect(names).toContain(`static/dashboard${path}`);
});

import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { brotliCompressSync, brotliDecompressSync, gunzipSync, gzipSync } from 'node:zlib';
import Fastify, { type FastifyInstance } from 'fastify';
import { afterAll, describe, expect, test } from 'vitest';
import { dashboardPages, pageRoutes } from './pages.ts';

/** The routes with a folder of this test. test/dashboard/served.test.ts requests the files of a real build. */
const folder = mkdtempSync(join(tmpdir(), 'muster-dashboard-'));
const script = `console.log(${JSON.stringify('text '.repeat(1_000))});\n`;
const files = {
  'index.html': '<!doctype html><title>Built</title>',
  'icon.svg': '<svg/>',
  'assets/index-abc.js': script,
  'assets/font-abc.woff2': 'font',
  'assets/file.unknown': 'unknown',
};

const built = join(folder, 'built');
mkdirSync(join(built, 'assets'), { recursive: true });
for (const [name, text] of Object.entries(files)) writeFileSync(join(built, name), text);
writeFileSync(join(built, 'assets/index-abc.js.br'), brotliCompressSync(script));
writeFileSync(join(built, 'assets/index-abc.js.gz'), gzipSync(script));
writeFileSync(join(folder, 'secret.txt'), 'secret');
symlinkSync(folder, join(built, 'assets/link'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function serverOf(dashboard: string): FastifyInstance {
  const app = Fastify();
  pageRoutes({ app }, dashboard);
  return app;
}
const app = serverOf(built);

describe('the built dashboard', () => {
  const paths = dashboardPages.map((page) => page.replace('*', 'some/deeper path'));

  test.each(paths)('serves the same document at %s, which browsers must revalidate', async (url) => {
    const answer = await app.inject(encodeURI(url));
    expect(answer.statusCode).toBe(200);
    expect(answer.body).toBe(files['index.html']);
    expect(answer.headers).toMatchObject({
      'content-type': 'text/html; charset=utf-8',
      'cache-control': 'no-cache',
      vary: 'accept-encoding',
    });
  });

  test('answers 304 to a request with its ETag', async () => {
    const { etag } = (await app.inject('/')).headers;
    const known = { 'if-none-match': `"other", ${etag}` };
    const answer = await app.inject({ url: '/agents/x', headers: known });
    expect([answer.statusCode, answer.body]).toEqual([304, '']);
    expect(answer.headers['content-security-policy']).toBeDefined();
    expect((await app.inject({ url: '/', headers: { 'if-none-match': '"other"' } })).statusCode).toBe(200);
  });

  test.each([
    ['/assets/index-abc.js', 'text/javascript; charset=utf-8', 'public, max-age=31536000, immutable'],
    ['/assets/font-abc.woff2', 'font/woff2', 'public, max-age=31536000, immutable'],
    ['/assets/file.unknown', 'application/octet-stream', 'public, max-age=31536000, immutable'],
    ['/icon.svg', 'image/svg+xml', 'no-cache'],
  ])('serves %s as %s with cache-control %s', async (url, type, cacheControl) => {
    const answer = await app.inject(url);
    expect(answer.statusCode).toBe(200);
    expect(answer.headers).toMatchObject({ 'content-type': type, 'cache-control': cacheControl });
    expect(answer.body).toBe(files[url.slice(1) as keyof typeof files]);
  });

  const decoders = new Map<string | undefined, (bytes: Buffer) => Buffer>([
    ['br', brotliDecompressSync],
    ['gzip', gunzipSync],
  ]);

  test.each([
    ['gzip, deflate, br, zstd', 'br'],
    ['gzip', 'gzip'],
    ['GZIP;q=0.5', 'gzip'],
    ['br;q=0, gzip;q=1.0', 'gzip'],
    ['br;q=0.0,gzip; q=0', undefined],
    ['identity', undefined],
    ['brotli, xgzip', undefined],
  ])('answers accept-encoding "%s" with encoding %s', async (accepted, encoding) => {
    const headers = { 'accept-encoding': accepted };
    const answer = await app.inject({ url: '/assets/index-abc.js', headers });
    expect(answer.headers['content-encoding']).toBe(encoding);
    expect(answer.headers.vary).toBe('accept-encoding');
    const decode = decoders.get(encoding) ?? ((bytes: Buffer) => bytes);
    expect(decode(answer.rawPayload).toString()).toBe(script);
    expect(Number(answer.headers['content-length'])).toBe(answer.rawPayload.length);
    if (encoding) expect(answer.rawPayload.length).toBeLessThan(script.length / 10);
  });

  test('does not compress fonts', async () => {
    const headers = { 'accept-encoding': 'gzip, br' };
    const answer = await app.inject({ url: '/assets/font-abc.woff2', headers });
    expect(answer.headers['content-encoding']).toBeUndefined();
    expect(answer.headers.vary).toBeUndefined();
  });

  test('answers HEAD with the headers of GET', async () => {
    for (const url of ['/', '/assets/index-abc.js']) {
      const get = await app.inject(url);
      const head = await app.inject({ method: 'HEAD', url });
      expect([head.statusCode, head.body]).toEqual([200, '']);
      const { date, connection, ...headers } = get.headers;
      expect(head.headers).toMatchObject(headers);
    }
  });

  test('a file that this build lacks may be at a node of another version: asks again there, ten times', async () => {
    const seen: (number | undefined)[] = [];
    let url = '/assets/index-other.js';
    for (let status: number | undefined; status !== 404; seen.push(status)) {
      const answer = await app.inject(url);
      status = answer.statusCode;
      if (status === 404) continue;
      expect(answer.headers).toMatchObject({ 'cache-control': 'no-store', connection: 'close' });
      url = String(answer.headers.location);
      expect(url).toMatch(/^\/assets\/index-other\.js\?try=\d+$/);
    }
    expect(seen).toEqual([...Array(10).fill(307), 404]);
    expect((await app.inject('/assets/index-abc.js?try=3')).statusCode).toBe(200);
  });

  test.each([
    '/index.html',
    '/assets',
    '/assets/',
    '/assets/nothing.js?try=10',
    '/assets/nothing.js?try=x',
    '/assets/link/secret.txt',
    '/assets/index-abc.js.br',
    '/assets/../../secret.txt',
    '/assets/..%2f..%2fsecret.txt',
    '/assets/%2e%2e/%2e%2e/secret.txt',
    '/assets//index-abc.js',
    '/secret.txt',
    '/../secret.txt',
    '/nothing',
  ])('answers 404 at %s', async (url) => {
    const answer = await app.inject(url);
    expect(answer.statusCode).toBe(404);
    expect(answer.headers['content-type']).toContain('application/json');
  });
});

describe.each([
  ['no folder', join(folder, 'nothing')],
  ['a folder without index.html', join(built, 'assets')],
])('with %s', (_, dashboard) => {
  test.each(dashboardPages)('%s answers 404 and says how to build the dashboard', async (page) => {
    const answer = await serverOf(dashboard).inject(page.replace('*', 'x'));
    expect(answer.statusCode).toBe(404);
    expect(answer.headers['content-type']).toBe('text/plain; charset=utf-8');
    expect(answer.headers['x-content-type-options']).toBe('nosniff');
    expect(answer.body).toMatch(/^The dashboard is not built\. Run "npm run build".*\n$/);
  });
});

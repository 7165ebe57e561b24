import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import Fastify, { type FastifyInstance } from 'fastify';
import { afterAll, describe, expect, test } from 'vitest';
import { dashboardPages, dashboardRoutes, readDashboard } from './dashboard.ts';

/** The routes over a folder of the test's own; what a real build is served as, test/dashboard/served.test.ts sees. */
const place = mkdtempSync(join(tmpdir(), 'muster-dashboard-'));
const script = `console.log(${JSON.stringify('words '.repeat(1_000))});\n`;
const files = {
  'index.html': '<!doctype html><title>Built</title>',
  'icon.svg': '<svg/>',
  'assets/index-abc.js': script,
  'assets/letters-abc.woff2': 'font',
  'assets/odd.thing': 'odd',
};

const built = join(place, 'built');
mkdirSync(join(built, 'assets'), { recursive: true });
for (const [name, text] of Object.entries(files)) writeFileSync(join(built, name), text);
writeFileSync(join(place, 'secret.txt'), 'secret');
symlinkSync(place, join(built, 'assets/away'));
afterAll(() => rmSync(place, { recursive: true, force: true }));

function serving(folder: string): FastifyInstance {
  const app = Fastify();
  dashboardRoutes({ app }, readDashboard(folder));
  return app;
}
const app = serving(built);

describe('the built dashboard', () => {
  const addresses = dashboardPages.map((page) => page.replace('*', 'some/deeper place'));

  test.each(addresses)('is one document at %s, asked for anew each time', async (url) => {
    const answer = await app.inject(encodeURI(url));
    expect(answer.statusCode).toBe(200);
    expect(answer.body).toBe(files['index.html']);
    expect(answer.headers).toMatchObject({
      'content-type': 'text/html; charset=utf-8',
      'cache-control': 'no-cache',
      vary: 'accept-encoding',
    });
  });

  test('has not changed for whoever knows its tag', async () => {
    const { etag } = (await app.inject('/')).headers;
    const known = { 'if-none-match': `"other", ${etag}` };
    const answer = await app.inject({ url: '/agents/x', headers: known });
    expect([answer.statusCode, answer.body]).toEqual([304, '']);
    expect(answer.headers['content-security-policy']).toBeDefined();
    expect((await app.inject({ url: '/', headers: { 'if-none-match': '"other"' } })).statusCode).toBe(200);
  });

  test.each([
    ['/assets/index-abc.js', 'text/javascript; charset=utf-8', 'public, max-age=31536000, immutable'],
    ['/assets/letters-abc.woff2', 'font/woff2', 'public, max-age=31536000, immutable'],
    ['/assets/odd.thing', 'application/octet-stream', 'public, max-age=31536000, immutable'],
    ['/icon.svg', 'image/svg+xml', 'no-cache'],
  ])('has %s as %s, kept as %s', async (url, type, cacheControl) => {
    const answer = await app.inject(url);
    expect(answer.statusCode).toBe(200);
    expect(answer.headers).toMatchObject({ 'content-type': type, 'cache-control': cacheControl });
    expect(answer.body).toBe(files[url.slice(1) as keyof typeof files]);
  });

  const packed = new Map<string | undefined, (bytes: Buffer) => Buffer>([
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
  ])('is packed for "%s" by %s', async (accepted, encoding) => {
    for (let round = 0; round < 2; round += 1) {
      const headers = { 'accept-encoding': accepted };
      const answer = await app.inject({ url: '/assets/index-abc.js', headers });
      expect(answer.headers['content-encoding']).toBe(encoding);
      expect(answer.headers.vary).toBe('accept-encoding');
      const unpack = packed.get(encoding) ?? ((bytes: Buffer) => bytes);
      expect(unpack(answer.rawPayload).toString()).toBe(script);
      expect(Number(answer.headers['content-length'])).toBe(answer.rawPayload.length);
      if (encoding) expect(answer.rawPayload.length).toBeLessThan(script.length / 10);
    }
  });

  test('is not packed where that saves nothing', async () => {
    const headers = { 'accept-encoding': 'gzip, br' };
    const answer = await app.inject({ url: '/assets/letters-abc.woff2', headers });
    expect(answer.headers['content-encoding']).toBeUndefined();
    expect(answer.headers.vary).toBeUndefined();
  });

  test('has a head', async () => {
    for (const url of ['/', '/assets/index-abc.js']) {
      const whole = await app.inject(url);
      const head = await app.inject({ method: 'HEAD', url });
      expect([head.statusCode, head.body]).toEqual([200, '']);
      const { date, connection, ...headers } = whole.headers;
      expect(head.headers).toMatchObject(headers);
    }
  });

  test.each([
    '/index.html',
    '/assets',
    '/assets/',
    '/assets/nothing.js',
    '/assets/away/secret.txt',
    '/assets/../../secret.txt',
    '/assets/..%2f..%2fsecret.txt',
    '/assets/%2e%2e/%2e%2e/secret.txt',
    '/assets//index-abc.js',
    '/secret.txt',
    '/../secret.txt',
    '/nothing',
  ])('leads nowhere at %s', async (url) => {
    const answer = await app.inject(url);
    expect(answer.statusCode).toBe(404);
    expect(answer.headers['content-type']).toContain('application/json');
  });
});

describe.each([
  ['no folder', join(place, 'nothing')],
  ['a folder without the document', join(built, 'assets')],
])('with %s', (_, folder) => {
  test.each(dashboardPages)('%s says what to do, and that nothing is there', async (page) => {
    const answer = await serving(folder).inject(page.replace('*', 'x'));
    expect(answer.statusCode).toBe(404);
    expect(answer.headers['content-type']).toBe('text/plain; charset=utf-8');
    expect(answer.headers['x-content-type-options']).toBe('nosniff');
    expect(answer.body).toMatch(/^The dashboard is not built\. Run "npm run build".*\n$/);
  });
});

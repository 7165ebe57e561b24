import { readFileSync } from 'node:fs';
import type { RouteContext } from '../context.ts';

const folder = new URL('../../../static/docs/', import.meta.url);

const files = {
  '/docs': { name: 'index.html', type: 'text/html; charset=utf-8' },
  '/docs/docs.css': { name: 'docs.css', type: 'text/css; charset=utf-8' },
  '/docs/docs.js': { name: 'docs.js', type: 'text/javascript; charset=utf-8' },
  '/docs/icon.svg': { name: 'icon.svg', type: 'image/svg+xml' },
} as const;

export const docsPaths = Object.keys(files);

/** The page loads what this server serves, and nothing else: no script or style of its own text, no frame, no form. */
const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
].join('; ');

/** The API page, for people: `/openapi.json`, rendered by a script that is served beside it. */
export function docsRoutes({ app }: RouteContext): void {
  for (const [url, { name, type }] of Object.entries(files)) {
    const content = readFileSync(new URL(name, folder));
    app.get(url, async (_request, reply) =>
      reply
        .headers({
          'content-type': type,
          'content-security-policy': policy,
          'x-content-type-options': 'nosniff',
          'referrer-policy': 'no-referrer',
          'cache-control': 'no-cache',
        })
        .send(content),
    );
  }
}

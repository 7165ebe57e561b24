import { readFileSync } from 'node:fs';
import { packageFile } from '../../lib/package-file.ts';
import type { RouteContext } from '../context.ts';
import { cacheControls, StaticFile } from '../static-file.ts';

const folder = packageFile('static/docs/');

const files = {
  '/docs': 'index.html',
  '/docs/docs.css': 'docs.css',
  '/docs/docs.js': 'docs.js',
  '/docs/icon.svg': 'icon.svg',
} as const;

export const docsPaths = Object.keys(files);

/** The API page, for people: `/openapi.json`, rendered by a script that is served beside it. */
export function docsRoutes({ app }: RouteContext): void {
  for (const [url, name] of Object.entries(files)) {
    const file = new StaticFile(name, readFileSync(new URL(name, folder)), cacheControls.checked);
    app.get(url, file.answer);
  }
}

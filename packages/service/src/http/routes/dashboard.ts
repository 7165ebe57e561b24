import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { packageFile } from '../../lib/package-file.ts';
import type { RouteContext } from '../context.ts';
import { cacheControls, pageHeaders, StaticFile } from '../static-file.ts';

/** Every page of the dashboard. All are the same document, which shows by its address what it is. */
export const dashboardPages = [
  '/',
  '/sign-in',
  '/agents',
  '/agents/*',
  '/catalog',
  '/catalog/*',
  '/share',
  '/share/*',
] as const;

/** What a browser gets: the pages' document, unless it was never built, and by its address each file beside it. */
export interface Dashboard {
  readonly document: StaticFile | null;
  readonly files: ReadonlyMap<string, StaticFile>;
}

const builtFolder = fileURLToPath(packageFile('static/dashboard/'));
const documentName = 'index.html';

/** Reads what the build made, once: nothing that is not read here can be asked for. */
export function readDashboard(folder: string = builtFolder): Dashboard {
  if (!existsSync(join(folder, documentName))) return { document: null, files: new Map() };
  const read = (name: string, cacheControl: string) =>
    new StaticFile(name, readFileSync(join(folder, name)), cacheControl);
  const names = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(join(folder, '/').length))
    .filter((name) => name !== documentName);
  return {
    document: read(documentName, cacheControls.checked),
    files: new Map(
      names.map((name) => [
        `/${name}`,
        read(name, name.startsWith('assets/') ? cacheControls.forever : cacheControls.checked),
      ]),
    ),
  };
}

/** For the one who opens the page of a checkout, or of an install, that lacks the build. */
const unbuilt = 'The dashboard is not built. Run "npm run build", then start the service again.\n';

export function dashboardRoutes({ app }: Pick<RouteContext, 'app'>, { document, files }: Dashboard): void {
  for (const page of dashboardPages) app.get(page, document?.answer ?? answerUnbuilt);
  for (const [url, file] of files) app.get(url, file.answer);
}

const answerUnbuilt = async (_request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> =>
  reply
    .code(404)
    .headers({ ...pageHeaders, 'content-type': 'text/plain; charset=utf-8' })
    .send(unbuilt);

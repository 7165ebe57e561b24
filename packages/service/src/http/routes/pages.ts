import { existsSync, readdirSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { fastifyStatic, type SetHeadersResponse } from '@fastify/static';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { packageFile } from '../../lib/package-file.ts';
import type { RouteContext } from '../context.ts';

/** Every address of the dashboard. All serve the same document, whose script shows what the address names. */
export const dashboardPages = [
  '/',
  '/sign-in',
  '/agents',
  '/agents/*',
  '/inbox',
  '/catalog',
  '/catalog/*',
  '/spend',
  '/runners',
  '/settings',
  '/team',
  '/schedules',
  '/schedules/*',
  '/notifications',
  '/activity',
  '/device',
  '/share',
  '/share/*',
] as const;

/** A page loads only files of this server: no inline script or style, no frame, no form. */
export const securityHeaders = {
  'content-security-policy': [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    // Images of messages: the page reads them with its session.
    "img-src 'self' blob:",
    "font-src 'self'",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
  ].join('; '),
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'permissions-policy': [
    ...['accelerometer', 'autoplay', 'camera', 'clipboard-read', 'display-capture', 'encrypted-media'],
    ...['geolocation', 'gyroscope', 'hid', 'magnetometer', 'microphone', 'midi', 'payment'],
    ...['publickey-credentials-get', 'serial', 'usb', 'xr-spatial-tracking'],
  ]
    .map((feature) => `${feature}=()`)
    .join(', '),
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
} as const;

const dashboardFolder = fileURLToPath(packageFile('static/dashboard/'));
const docsFolder = fileURLToPath(packageFile('static/docs/'));

/** scripts/compress-static.mjs writes compressed files beside the text files of both folders. */
const isCompressed = (path: string): boolean => /\.(br|gz)$/.test(path);
const hasCompressed = (path: string): boolean => /\.(html|css|js|json|map|txt|svg)(\.br|\.gz)?$/.test(path);

/** The dashboard, and the API reference at `/docs`. */
export function pageRoutes({ app }: Pick<RouteContext, 'app'>, dashboard = dashboardFolder): void {
  app.register(fastifyStatic, { serve: false, preCompressed: true, cacheControl: false, setHeaders });
  const sendFile = (url: string, folder: string, nameOf: (params: { name?: string }) => string) =>
    app.get<{ Params: { name?: string } }>(url, { onSend: setScriptType }, async ({ params }, reply) => {
      const name = nameOf(params);
      return name === '' ? reply.callNotFound() : reply.sendFile(name, folder);
    });
  const isBuilt = existsSync(join(dashboard, 'index.html'));
  for (const page of dashboardPages) {
    if (isBuilt) sendFile(page, dashboard, () => 'index.html');
    else app.get(page, async (_request, reply) => sendNotBuilt(reply));
  }
  if (isBuilt) for (const name of filesIn(dashboard)) sendFile(`/${name}`, dashboard, () => name);
  // Not listed at the start: a build replaces them while the service runs. The pattern allows no other folder.
  app.get<AssetRequest>('/assets/:name(^[\\w.-]+$)', { onSend: setScriptType }, async (request, reply) => {
    const { name } = request.params;
    if (isCompressed(name)) return reply.callNotFound();
    return existsSync(join(dashboard, 'assets', name))
      ? reply.sendFile(`assets/${name}`, dashboard)
      : tryAnotherNode(request, reply);
  });
  sendFile('/docs', docsFolder, () => 'index.html');
  for (const name of filesIn(docsFolder)) sendFile(`/docs/${name}`, docsFolder, () => name);
  // The fonts of the dashboard, where the names contain a hash.
  const assets = join(dashboard, 'assets');
  for (const name of isBuilt ? filesIn(assets) : []) {
    const [, font] = /^([\w-]+)-[\w-]{8}\.woff2$/.exec(name) ?? [];
    if (font !== undefined) sendFile(`/docs/${font}.woff2`, assets, () => name);
  }
}

/** The dashboard says in the page that nothing is at its address. */
export const sendUnknownPage = (reply: FastifyReply): FastifyReply =>
  existsSync(join(dashboardFolder, 'index.html'))
    ? reply.code(404).sendFile('index.html', dashboardFolder)
    : sendNotBuilt(reply);

interface AssetRequest {
  Params: { name: string };
  Querystring: { try?: string };
}

/** Fewer than the redirects that browsers follow. */
const mostTries = 10;

/**
 * During an upgrade, a page of one version asks for its files at any node. One that lacks a file redirects to the same
 * address, so that a proxy in front of the nodes asks the next one.
 */
function tryAnotherNode(
  { params, query }: FastifyRequest<AssetRequest>,
  reply: FastifyReply,
): FastifyReply | undefined {
  const tries = Number(query.try ?? 0);
  if (!(tries < mostTries)) {
    reply.callNotFound();
    return;
  }
  return reply
    .headers({ ...securityHeaders, 'cache-control': 'no-store', connection: 'close' })
    .redirect(`/assets/${params.name}?try=${tries + 1}`, 307);
}

const filesIn = (folder: string): string[] =>
  readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name !== 'index.html' && !isCompressed(entry.name))
    .map(({ name }) => name);

function setHeaders(response: SetHeadersResponse, path: string): void {
  for (const [name, value] of Object.entries(securityHeaders)) response.setHeader(name, value);
  // The names of assets contain a hash of their content.
  const isAsset = basename(dirname(path)) === 'assets';
  response.setHeader('cache-control', isAsset ? 'public, max-age=31536000, immutable' : 'no-cache');
  if (hasCompressed(path)) response.setHeader('vary', 'accept-encoding');
}

/** The library sends the obsolete application/javascript. */
const setScriptType = async (_request: FastifyRequest, reply: FastifyReply): Promise<void> => {
  const type = reply.getHeader('content-type');
  if (type === 'application/javascript; charset=utf-8') reply.type('text/javascript; charset=utf-8');
};

const sendNotBuilt = (reply: FastifyReply): FastifyReply =>
  reply
    .code(404)
    .headers({ ...securityHeaders, 'content-type': 'text/plain; charset=utf-8' })
    .send('The dashboard is not built. Run "npm run build", then restart the service.\n');

import { spawn } from 'node:child_process';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { addAbortSignal, type Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGunzip } from 'node:zlib';
import { messageOf } from '../../lib/errors.ts';
import { assertSpawned } from '../sandbox/proc.ts';
import { gitTimeoutMs, localGit } from '../workspace/git.ts';
import type { PreparedRepository } from '../workspace/prepare.ts';
import { answerError, LfsEndpoint, LfsError } from './lfs.ts';
import { flush, MalformedRequest, packet, type ReceiveOptions, receivePack } from './receive-pack.ts';

export interface GitEndpointOptions extends Omit<ReceiveOptions, 'repository'> {
  /** In the order of the agent's git configuration. */
  readonly repos: readonly PreparedRepository[];
}

type Service = 'git-upload-pack' | 'git-receive-pack';

/** Git-lfs derives its URL from that of the repository in more than one way. */
const lfsPath = /^\/git\/(\d{1,3})(?:[/.]*(?:git)?\/info\/lfs\/objects\/(batch)|\/lfs\/([0-9a-f]{32}))$/;
const urlPath = /^\/git\/(\d{1,3})\/(?:\.git\/?)?(info\/refs|git-upload-pack|git-receive-pack)(?:\?(.*))?$/;

/** A fetch may request a commit that was advertised, even when its branch was force-pushed meanwhile. */
const uploadSettings = ['-c', 'uploadpack.allowAnySHA1InWant=true'];
const receiveSettings = ['-c', 'receive.advertiseAtomic=false'];

/** How long a push may still take when its run ends. */
const lastPushMs = 5000;

/**
 * Git's smart HTTP protocol for the repositories of one workspace, served from the runner's mirrors: the agent has no
 * access to the repository's host or to its credentials.
 */
export function gitEndpoint(options: GitEndpointOptions) {
  let pushing: Promise<unknown> = Promise.resolve();
  const late = new AbortController();
  const signal = AbortSignal.any([options.signal, late.signal]);

  /** One push of a run at a time: the report of each is based on the one before. */
  const receive = (repository: PreparedRepository, body: AsyncIterable<Buffer>): Promise<Buffer> => {
    const received = pushing.then(() => receivePack({ ...options, signal, repository }, body));
    pushing = received.catch(() => {});
    return received;
  };

  const lfs = new LfsEndpoint();
  const serve = async (request: IncomingMessage, response: ServerResponse, path: string): Promise<void> => {
    const ofLfs = lfsPath.exec(path);
    if (ofLfs) return serveLfs(lfs, options.repos[Number(ofLfs[1])], ofLfs[3], request, response);
    const [, index, part, query = ''] = urlPath.exec(path) ?? [];
    const repository = index === undefined ? undefined : options.repos[Number(index)];
    if (!repository) return refuse(response, 404, 'muster: this URL is not a repository of the workspace');
    if (part === 'info/refs') {
      const service = new URLSearchParams(query).get('service');
      if (request.method !== 'GET' || !isService(service))
        return refuse(response, 403, "muster: use git's smart HTTP protocol");
      if (service === 'git-receive-pack' && repository.readOnly)
        return refuseAdvertisement(response, service, repository.readOnly);
      return advertise(repository, service, request, response);
    }
    if (request.method !== 'POST') return refuse(response, 405, 'muster: use POST');
    const body = unpackedBody(request);
    if (part === 'git-upload-pack') return upload(repository, request, body, response);
    if (repository.readOnly) return refuse(response, 403, `muster: ${repository.readOnly}`);
    const answer = await receive(repository, body);
    response.writeHead(200, headers('application/x-git-receive-pack-result')).end(answer);
  };

  return {
    handle: (request: IncomingMessage, response: ServerResponse, path: string): void => {
      serve(request, response, path).catch((error: unknown) => {
        options.log.warn({ err: error, path }, 'git request failed');
        if (!response.headersSent) refuse(response, statusOf(error), `muster: ${messageOf(error)}`);
        else response.destroy();
      });
    },
    /** To be called when the gateway's endpoint has closed: waits a limited time for a push in progress. */
    close: async (): Promise<void> => {
      const timer = setTimeout(() => late.abort(), lastPushMs);
      await pushing;
      clearTimeout(timer);
    },
  };
}

async function serveLfs(
  lfs: LfsEndpoint,
  repository: PreparedRepository | undefined,
  transferId: string | undefined,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  try {
    if (!repository) throw new LfsError(404, 'this URL is not a repository of the workspace');
    if (transferId) return await lfs.transfer(transferId, request, response);
    if (request.method !== 'POST') throw new LfsError(405, 'use POST');
    await lfs.batch(repository, request, response);
  } catch (error) {
    if (response.headersSent) return void response.destroy();
    answerError(response, error instanceof LfsError ? error.status : 422, messageOf(error));
  }
}

function unpackedBody(request: IncomingMessage): Readable {
  const isPacked = /gzip/i.test(request.headers['content-encoding'] ?? '');
  const body = isPacked ? request.pipe(createGunzip()) : request;
  // It may fail before it is read, while the push waits for the one before.
  body.on('error', () => {});
  addAbortSignal(AbortSignal.timeout(gitTimeoutMs), body);
  request.once('error', (error) => body.destroy(error));
  return body;
}

/** Advertises the refs that the upstream has now. */
async function advertise(
  { mirror, askCredential }: PreparedRepository,
  service: Service,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  try {
    await mirror.refresh(askCredential);
  } catch (error) {
    return refuseAdvertisement(response, service, messageOf(error));
  }
  const protocol = protocolOf(request);
  response.writeHead(200, advertisementHeaders(service));
  if (!protocol.includes('version=2')) response.write(serviceLine(service));
  const settings = service === 'git-upload-pack' ? uploadSettings : receiveSettings;
  const args = [
    ...settings,
    service.slice('git-'.length),
    '--stateless-rpc',
    '--advertise-refs',
    mirror.folder,
  ];
  await runGit(args, { ...mirror.environment, GIT_PROTOCOL: protocol }, undefined, response);
}

const serviceLine = (service: Service): Buffer => Buffer.concat([packet(`# service=${service}\n`), flush]);

const advertisementHeaders = (service: Service) => headers(`application/x-${service}-advertisement`);

/** Git prints the reason. */
function refuseAdvertisement(response: ServerResponse, service: Service, reason: string): void {
  const body = Buffer.concat([serviceLine(service), packet(`ERR muster: ${reason}`)]);
  response.writeHead(200, advertisementHeaders(service)).end(body);
}

async function upload(
  { mirror }: PreparedRepository,
  request: IncomingMessage,
  body: NodeJS.ReadableStream,
  response: ServerResponse,
): Promise<void> {
  response.writeHead(200, headers('application/x-git-upload-pack-result'));
  const args = [...uploadSettings, 'upload-pack', '--stateless-rpc', mirror.folder];
  await runGit(args, { ...mirror.environment, GIT_PROTOCOL: protocolOf(request) }, body, response);
}

async function runGit(
  args: readonly string[],
  environment: Readonly<Record<string, string>>,
  body: NodeJS.ReadableStream | undefined,
  response: ServerResponse,
): Promise<void> {
  const child = assertSpawned(
    spawn(...localGit(args), {
      env: { ...environment },
      stdio: ['pipe', 'pipe', 'ignore'],
      timeout: gitTimeoutMs,
      killSignal: 'SIGKILL',
    }),
  );
  child.once('error', () => response.destroy());
  response.once('close', () => child.kill());
  // Git ends when it has read enough; the rest of the body is ignored.
  if (body) pipeline(body, child.stdin).catch(() => {});
  else child.stdin.end();
  await pipeline(child.stdout, response);
}

/** 400 for a damaged or incomplete body, whichever layer reports it. */
const statusOf = (error: unknown): number => {
  const { code = '' } = error as NodeJS.ErrnoException;
  return error instanceof MalformedRequest || /^Z_|^ECONNRESET$|^ERR_STREAM/.test(code) ? 400 : 500;
};

const isService = (name: string | null): name is Service =>
  name === 'git-upload-pack' || name === 'git-receive-pack';

const headers = (type: string): Record<string, string> => ({
  'content-type': type,
  'cache-control': 'no-cache, max-age=0, must-revalidate',
});

function protocolOf(request: IncomingMessage): string {
  const [given = ''] = [request.headers['git-protocol'] ?? ''].flat();
  return /^[\w=:.-]{0,200}$/.test(given) ? given : '';
}

function refuse(response: ServerResponse, status: number, text: string): void {
  response.writeHead(status, { 'content-type': 'text/plain; charset=utf-8' }).end(`${text}\n`);
}

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';

export interface GitServerOptions {
  /** The folder with the bare repositories: `/team/project.git` is `root/team/project.git`. */
  readonly root: string;
  /** What a credential may do in a repository, such as `team/project`. */
  readonly accessOf: (
    repo: string,
    username: string,
    password: string,
  ) => Promise<'none' | 'read' | 'write'> | 'none' | 'read' | 'write';
  /** Runs after a push, before its client gets the reply. */
  readonly onPush?: (repo: string, password: string) => Promise<void> | void;
}

const gitPath = /^\/(.+)\.git\/(info\/refs|git-upload-pack|git-receive-pack)$/;

export const isGitRequest = (request: IncomingMessage): boolean => gitPath.test(pathOf(request));

/** git over HTTP with basic authentication: git's own `http-backend`, as a web server would run it. */
export async function serveGit(
  request: IncomingMessage,
  response: ServerResponse,
  { root, accessOf, onPush }: GitServerOptions,
): Promise<void> {
  const path = pathOf(request);
  const query = request.url?.split('?')[1] ?? '';
  const [, repo = '', service = ''] = gitPath.exec(path) ?? [];
  const isPush = service === 'git-receive-pack' || query.includes('service=git-receive-pack');
  const [username = '', password = ''] = credentialOf(request);
  const access = username || password ? await accessOf(repo, username, password) : 'none';
  if (access === 'none') {
    request.resume();
    response.writeHead(401, { 'www-authenticate': 'Basic realm="code host"' }).end('sign in\n');
    return;
  }
  if (isPush && access !== 'write') {
    request.resume();
    response.writeHead(403).end('this credential may not push\n');
    return;
  }
  const { headers, body, status } = await runBackend(request, {
    GIT_PROJECT_ROOT: root,
    GIT_HTTP_EXPORT_ALL: '1',
    PATH_INFO: path,
    QUERY_STRING: query,
    REQUEST_METHOD: request.method ?? 'GET',
    CONTENT_TYPE: request.headers['content-type'] ?? '',
    REMOTE_USER: username,
    REMOTE_ADDR: '127.0.0.1',
    HTTP_CONTENT_ENCODING: request.headers['content-encoding'] ?? '',
    HTTP_GIT_PROTOCOL: String(request.headers['git-protocol'] ?? ''),
    GIT_CONFIG_GLOBAL: '/dev/null',
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_CONFIG_COUNT: '1',
    GIT_CONFIG_KEY_0: 'safe.directory',
    GIT_CONFIG_VALUE_0: '*',
    ...(request.headers['content-length'] && { CONTENT_LENGTH: request.headers['content-length'] }),
  });
  if (service === 'git-receive-pack') await onPush?.(repo, password);
  response.writeHead(status, headers).end(body);
}

const pathOf = (request: IncomingMessage): string => request.url?.split('?')[0] ?? '';

function credentialOf(request: IncomingMessage): string[] {
  const [, encoded = ''] = /^Basic (.+)$/i.exec(request.headers.authorization ?? '') ?? [];
  const text = Buffer.from(encoded, 'base64').toString();
  const colon = text.indexOf(':');
  return colon < 0 ? [] : [text.slice(0, colon), text.slice(colon + 1)];
}

/** Runs the program as CGI: the request's body is its input, its output begins with headers. */
async function runBackend(
  request: IncomingMessage,
  environment: Readonly<Record<string, string>>,
): Promise<{ status: number; headers: Record<string, string>; body: Buffer }> {
  const backend = spawn('git', ['http-backend'], {
    env: { PATH: process.env.PATH, ...environment },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  // The program may end before it has read everything.
  backend.stdin.on('error', () => {});
  request.pipe(backend.stdin);
  const chunks: Buffer[] = [];
  backend.stdout.on('data', (chunk: Buffer) => chunks.push(chunk));
  await once(backend, 'close');
  const output = Buffer.concat(chunks);
  const end = output.indexOf('\r\n\r\n');
  const headers = Object.fromEntries(
    output
      .subarray(0, Math.max(end, 0))
      .toString()
      .split('\r\n')
      .flatMap((line) => {
        const colon = line.indexOf(':');
        return colon < 0 ? [] : [[line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()]];
      }),
  );
  const { status = '200', ...others } = headers;
  return { status: Number.parseInt(status, 10), headers: others, body: output.subarray(end + 4) };
}

import { once } from 'node:events';
import { Agent, type IncomingMessage, type OutgoingHttpHeaders, request as startRequest } from 'node:http';
import type { AgentStatus, ErrorEnvelope, Route } from '@muster/sdk/contract';
import { until } from './async.ts';
import type { Server } from './server.ts';

// Closes idle connections before the server does, which may be while a request is on its way.
const keepAliveAgent = new Agent({ keepAlive: true, timeout: 30_000 });

/** Sends a request as `fetch` does, with half of its processor time: suites send thousands of them. */
export async function sendRequest(
  url: string,
  request: {
    readonly method: string;
    readonly headers: OutgoingHttpHeaders;
    readonly body: string | Buffer | undefined;
    readonly signal?: AbortSignal;
    readonly agent?: Agent;
  },
): Promise<IncomingMessage> {
  const { method, headers, body, signal, agent = keepAliveAgent } = request;
  const length = body !== undefined && { 'content-length': Buffer.byteLength(body) };
  const outgoing = startRequest(url, {
    method,
    headers: { ...headers, ...length },
    agent,
    ...(signal && { signal }),
  });
  // An error after the reply's headers is thrown to the code that reads the reply.
  outgoing.on('error', () => {});
  outgoing.end(body);
  const [response] = (await once(outgoing, 'response')) as [IncomingMessage];
  return response;
}

/** The reply to a plain HTTP call: tests check what is sent, not what a client library makes of it. */
export interface Answer<T = Record<string, unknown>> {
  readonly status: number;
  readonly headers: Headers;
  readonly body: T;
}

export async function answerOf<T>(response: IncomingMessage): Promise<Answer<T>> {
  const pieces: Buffer[] = [];
  for await (const piece of response) pieces.push(piece as Buffer);
  return {
    status: response.statusCode ?? 0,
    get headers() {
      const { rawHeaders } = response;
      const pairs = rawHeaders.flatMap((name, i) => (i % 2 === 0 ? [[name, rawHeaders[i + 1] ?? '']] : []));
      return new Headers(pairs as [string, string][]);
    },
    body: JSON.parse(Buffer.concat(pieces).toString()) as T,
  };
}

export interface Api {
  readonly url: string;
  readonly key: string;
  /** The database of a shared server, where tests may create what they only need as a set-up. */
  readonly databaseUrl?: string;
  get<T = Record<string, unknown>>(path: string): Promise<Answer<T>>;
  post<T = Record<string, unknown>>(
    path: string,
    body?: unknown,
    headers?: Record<string, string>,
  ): Promise<Answer<T>>;
  del<T = Record<string, unknown>>(path: string): Promise<Answer<T>>;
  /** The same server with another key. */
  as(key: string): Api;
}

/** `agent` has the connections to use. */
export function apiOf(server: Pick<Server, 'url' | 'key'>, databaseUrl?: string, agent?: Agent): Api {
  const { url, key } = server;
  const send = async <T>(
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
  ) => {
    const isRaw = body === undefined || typeof body === 'string' || Buffer.isBuffer(body);
    const text = isRaw ? body : JSON.stringify(body);
    const response = await sendRequest(`${url}${path}`, {
      method,
      headers: {
        authorization: `Bearer ${key}`,
        ...(text !== undefined && { 'content-type': 'application/json' }),
        ...headers,
      },
      body: text,
      ...(agent && { agent }),
    });
    return answerOf<T>(response);
  };
  return {
    url,
    key,
    ...(databaseUrl !== undefined && { databaseUrl }),
    get: (path) => send('GET', path),
    post: (path, body = {}, headers) => send('POST', path, body, headers),
    del: (path) => send('DELETE', path),
    as: (other) => apiOf({ url, key: other }, databaseUrl, agent),
  };
}

/** An upload of a runner: `content` is its body, and the other fields are its query. */
export function uploadOf(path: string, { content, ...fields }: Readonly<Record<string, unknown>>) {
  const query = Object.entries(fields).map(([name, value]) => [name, String(value)]);
  return {
    path: `${path}?${new URLSearchParams(query)}`,
    body: content,
    headers: { 'content-type': 'application/octet-stream' },
  };
}

/** Posts these fields as the runner's route takes them. */
export function postFields(api: Api, { path, upload }: Route, fields: Readonly<Record<string, unknown>>) {
  if (!upload) return api.post(path, fields);
  const sent = uploadOf(path, fields);
  return api.post(sent.path, sent.body, sent.headers);
}

export const agent = (...path: string[]) => ({ agent: path });

export async function statusOf(api: Api, ...path: string[]): Promise<AgentStatus> {
  const { status, body } = await api.post<AgentStatus>('/v1/agent/status', { agentId: agent(...path) });
  if (status !== 200) throw new Error(`status of ${path.join('/')}: ${status} ${JSON.stringify(body)}`);
  return body;
}

export const untilStatus = (
  api: Api,
  path: string[],
  what: string,
  holds: (status: AgentStatus) => boolean,
): Promise<AgentStatus> => until(what, () => statusOf(api, ...path), holds);

/** The violated field of an INVALID_ARGUMENT. */
export const violation = (answer: Answer<unknown>): string | undefined => {
  const details = (answer.body as ErrorEnvelope).details as { fieldViolations?: { field: string }[] }[];
  return details.flatMap((d) => d.fieldViolations ?? [])[0]?.field;
};

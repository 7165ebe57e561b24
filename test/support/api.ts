import type { AgentStatus, ErrorEnvelope } from '@muster/sdk/contract';
import type { Server } from './server.ts';

/** A plain HTTP call, as curl would make it: tests see the wire, not a client library. */
export interface Answer<T = Record<string, unknown>> {
  readonly status: number;
  readonly headers: Headers;
  readonly body: T;
}

export interface Api {
  readonly url: string;
  readonly key: string;
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

export function apiOf(server: Pick<Server, 'url' | 'key'>): Api {
  const { url, key } = server;
  const send = async <T>(
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
  ) => {
    const response = await fetch(`${url}${path}`, {
      method,
      headers: {
        authorization: `Bearer ${key}`,
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    });
    const answer = await response.text();
    return { status: response.status, headers: response.headers, body: JSON.parse(answer) as T };
  };
  return {
    url,
    key,
    get: (path) => send('GET', path),
    post: (path, body = {}, headers) => send('POST', path, body, headers),
    del: (path) => send('DELETE', path),
    as: (other) => apiOf({ url, key: other }),
  };
}

/**
 * Repeats until the condition holds, with longer pauses as it goes on: four workers that ask every few milliseconds
 * would keep a core busy. The message tells what was seen last.
 */
export async function until<T>(
  what: string,
  probe: () => Promise<T>,
  holds: (seen: T) => boolean,
  timeoutMs = 40_000,
): Promise<T> {
  const deadline = Date.now() + timeoutMs;
  for (let pauseMs = 10; ; pauseMs = Math.min(pauseMs * 1.3, 100)) {
    const seen = await probe();
    if (holds(seen)) return seen;
    if (Date.now() > deadline) throw new Error(`never saw ${what}; last: ${JSON.stringify(seen)}`);
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
  }
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

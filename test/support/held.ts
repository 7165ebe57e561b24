import type { Api } from './api.ts';

/** How a held request ended: an answer, or a connection that was cut. */
export interface Ending {
  readonly status: number;
  readonly text: string;
  readonly cut: boolean;
}

/** A wait or a stream that stays open until the server ends it or `abort` is called. */
export interface Held {
  readonly ended: Promise<Ending>;
  /** Resolves with the status when the headers are there. */
  readonly opened: Promise<number>;
  /** What has come so far. */
  text(): string;
  abort(): void;
}

export function hold(
  api: Pick<Api, 'url' | 'key'>,
  path: string,
  body: unknown,
  headers: Record<string, string> = {},
): Held {
  const controller = new AbortController();
  let text = '';
  let status = 0;
  const response = fetch(`${api.url}${path}`, {
    method: body === undefined ? 'GET' : 'POST',
    headers: {
      ...(headers.cookie === undefined && { authorization: `Bearer ${api.key}` }),
      'content-type': 'application/json',
      ...headers,
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
    signal: controller.signal,
  });
  const ended = (async (): Promise<Ending> => {
    try {
      const answer = await response;
      status = answer.status;
      const decoder = new TextDecoder();
      for await (const chunk of answer.body ?? []) text += decoder.decode(chunk, { stream: true });
      return { status, text, cut: false };
    } catch {
      return { status, text, cut: true };
    }
  })();
  const opened = response.then(
    (answer) => answer.status,
    () => 0,
  );
  return { ended, opened, text: () => text, abort: () => controller.abort() };
}

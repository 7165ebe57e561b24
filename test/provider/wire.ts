import type { ServerResponse } from 'node:http';
import type { Step, Tokens } from './script.ts';

/** The steps that are an answer of their own; the others say how or when it comes. */
export type AnswerStep = Extract<
  Step,
  | { say: string }
  | { shell: string }
  | { write: object }
  | { edit: object }
  | { view: string }
  | { tool: string }
  | { output: unknown }
>;

/** A conversation, as far as the stub cares: what the user wrote, and that the model answered. */
export type Said = { readonly by: 'user'; readonly text: string } | { readonly by: 'model' };

/** One model request that waits for its answer. */
export interface Exchange {
  readonly body: Readonly<Record<string, unknown>>;
  readonly response: ServerResponse;
  /** What the answer says it used. */
  readonly tokens: Tokens;
  /** Unique among all answers of the stub: for the ids of messages and calls. */
  readonly id: string;
}

/** What the stub's core needs to know of one provider's wire. */
export interface Wire {
  readonly provider: 'anthropic' | 'openai';
  /** Where model requests are posted. */
  readonly path: string;
  /**
   * Read from a request's body, oldest first: one `user` entry for each text that the user wrote (not for what tools
   * returned, which may echo a marker), one `model` entry for each answer that the model gave.
   */
  conversation(body: Readonly<Record<string, unknown>>): readonly Said[];
  /** Streams the whole answer: the thoughts, then the step. */
  answer(exchange: Exchange, thoughts: readonly string[], step: AnswerStep): void;
  /** Streams the beginning of an answer, and leaves the response open. */
  begin(exchange: Exchange): void;
  /** The body of an error whose script says none. */
  error(status: number): unknown;
  /** What is asked beside model requests (a list of models, a count of tokens): undefined is answered with 404. */
  other?(path: string, body: Readonly<Record<string, unknown>>): unknown;
}

export function startEvents(response: ServerResponse, headers: Readonly<Record<string, string>> = {}): void {
  response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache', ...headers });
}

/** One server-sent event, named by the `type` of its data. */
export function sendEvent(response: ServerResponse, data: ServerSent): void {
  response.write(`event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`);
}

interface ServerSent {
  readonly type: string;
  readonly [field: string]: unknown;
}

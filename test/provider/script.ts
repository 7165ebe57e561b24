import type { IncomingHttpHeaders, ServerResponse } from 'node:http';
import { crc32 } from 'node:zlib';

/**
 * What the stub's model does, step by step. A test registers a script and puts its marker into a message. The stub finds
 * the last marker in the conversation and counts the model's answers since, so a retried or resumed request gets the same
 * answer as the first, and the order of requests does not matter.
 */
export type Step =
  /** Ends the turn with this text. */
  | { readonly say: Pieces }
  /** Thinks, then continues with the next step in the same answer. */
  | { readonly think: Pieces }
  /** A shell command in the agent's workspace, by the harness's own tool. */
  | { readonly shell: string }
  /** A file written by the harness's own editing tool. */
  | { readonly write: { readonly path: string; readonly text: string } }
  /** A text of a file, replaced by the harness's own editing tool. */
  | { readonly edit: { readonly path: string; readonly before: string; readonly after: string } }
  /** An image or a document, shown to the model by the harness's own tool. */
  | { readonly view: string }
  /** The agent's own plan, kept with the harness's own tool. */
  | { readonly plan: readonly PlannedStep[] }
  /** A tool of an MCP server: Muster's, with the agent's own tools, unless another is named. */
  | { readonly tool: string; readonly args: Readonly<Record<string, unknown>>; readonly server?: string }
  /** Another tool of the harness, by its own name. */
  | {
      readonly native: string;
      readonly args: Readonly<Record<string, unknown>>;
      /** Codex has groups of tools. */
      readonly namespace?: string;
    }
  /** Ends the turn with this structured output, in the way of the harness. */
  | { readonly output: unknown }
  /** An error instead of an answer, sent `times` (by default always) and then skipped. */
  | {
      readonly status: number;
      readonly headers?: Readonly<Record<string, string>>;
      readonly body?: unknown;
      readonly times?: number;
    }
  /** Begins an answer and sends nothing more until the client disconnects; `times` as above. */
  | { readonly stall: true; readonly times?: number }
  /** Waits for the promise, then continues with the next step in the same answer. */
  | { readonly until: Promise<unknown> };

export interface PlannedStep {
  readonly text: string;
  readonly status: 'pending' | 'in_progress' | 'completed';
}

/** A text, whole or streamed in pieces. The stub waits for the promises between them. */
export type Pieces = string | readonly (string | Promise<unknown>)[];

export const wholeText = (pieces: Pieces): string =>
  typeof pieces === 'string' ? pieces : pieces.filter((piece) => typeof piece === 'string').join('');

/** Calls back with each piece when its time has come. */
export async function sendPieces(pieces: Pieces, send: (text: string) => void): Promise<void> {
  for (const piece of typeof pieces === 'string' ? [pieces] : pieces) {
    if (typeof piece === 'string') send(piece);
    else await piece;
  }
}

/** The usage of one answer. */
export interface Tokens {
  readonly input: number;
  readonly cached: number;
  readonly output: number;
}

/** One request as it was received. */
export interface SeenRequest {
  readonly provider: 'anthropic' | 'openai';
  readonly at: number;
  readonly path: string;
  readonly query: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Readonly<Record<string, unknown>>;
  /** The body as it was received. */
  readonly text: string;
}

/** The steps that are an answer. The others say how or when it is sent. */
export type AnswerStep = Extract<
  Step,
  | { say: Pieces }
  | { shell: string }
  | { write: object }
  | { edit: object }
  | { view: string }
  | { plan: readonly PlannedStep[] }
  | { tool: string }
  | { native: string }
  | { output: unknown }
>;

/** An entry of a conversation: a text of the user, or an answer of the model. */
export type ConversationEntry = { readonly by: 'user'; readonly text: string } | { readonly by: 'model' };

/** One model request that waits for its answer. */
export interface Exchange {
  readonly body: Readonly<Record<string, unknown>>;
  readonly response: ServerResponse;
  /** The usage in the answer. */
  readonly tokens: Tokens;
  /** Unique among all answers of the stub: for the ids of messages and calls. */
  readonly id: string;
}

/** What differs between the providers. */
export interface StubProtocol {
  readonly provider: 'anthropic' | 'openai';
  /** Where model requests are posted. */
  readonly path: string;
  /**
   * The conversation in a request's body, oldest first: a `user` entry for each text of the user (not for results of
   * tools, which may repeat a marker), a `model` entry for each answer of the model.
   */
  conversation(body: Readonly<Record<string, unknown>>): readonly ConversationEntry[];
  /** Streams the whole answer: the thoughts, then the step. */
  answer(exchange: Exchange, thoughts: readonly Pieces[], step: AnswerStep): Promise<void>;
  /** Streams the beginning of an answer, and leaves the response open. */
  begin(exchange: Exchange): void;
  /** The body of an error without one in the script. */
  error(status: number): unknown;
  /** Answers other requests (a list of models, a count of tokens). Undefined: 404. */
  other?(path: string, body: Readonly<Record<string, unknown>>): unknown;
}

const framed = new WeakSet<ServerResponse>();

/** Sends the events of this response as AWS's binary frames. */
export const sendFrames = (response: ServerResponse): void => void framed.add(response);

export function startEvents(response: ServerResponse, headers: Readonly<Record<string, string>> = {}): void {
  const type = framed.has(response) ? 'application/vnd.amazon.eventstream' : 'text/event-stream';
  response.writeHead(200, { 'content-type': type, 'cache-control': 'no-cache', ...headers });
}

/** One server-sent event, named by the `type` of its data. */
export function sendEvent(response: ServerResponse, data: ServerSent): void {
  if (framed.has(response)) {
    const bytes = Buffer.from(JSON.stringify(data)).toString('base64');
    response.write(frameOf({ ':event-type': 'chunk', ':message-type': 'event' }, { bytes, p: 'abcd' }));
  } else response.write(`event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`);
}

interface ServerSent {
  readonly type: string;
  readonly [field: string]: unknown;
}

/** A frame of `application/vnd.amazon.eventstream`. */
export function frameOf(headers: Readonly<Record<string, string>>, payload: unknown): Buffer {
  const head = Buffer.concat(
    Object.entries({ ...headers, ':content-type': 'application/json' }).map(([name, value]) => {
      const length = Buffer.alloc(3);
      length.writeUInt8(7);
      length.writeUInt16BE(Buffer.byteLength(value), 1);
      return Buffer.concat([Buffer.from([name.length]), Buffer.from(name), length, Buffer.from(value)]);
    }),
  );
  const body = Buffer.from(JSON.stringify(payload));
  const prelude = Buffer.alloc(8);
  prelude.writeUInt32BE(8 + 4 + head.length + body.length + 4);
  prelude.writeUInt32BE(head.length, 4);
  const start = Buffer.concat([prelude, checksum(prelude), head, body]);
  return Buffer.concat([start, checksum(start)]);
}

function checksum(bytes: Buffer): Buffer {
  const sum = Buffer.alloc(4);
  sum.writeUInt32BE(crc32(bytes));
  return sum;
}

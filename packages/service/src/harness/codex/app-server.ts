import { messageOf } from '../../lib/errors.ts';
import { isObject } from '../../lib/json.ts';
import type { MaskedStream } from '../../lib/value-mask.ts';
import { lastErrorOutput } from '../agent-process.ts';
import type { AgentProcess } from '../harness.ts';

/** A message with its images is one line, and so is the output of a command, of at most a MiB before escapes. */
const lineLength = 32 * 1024 * 1024;

interface Reply {
  resolve(result: unknown): void;
  reject(error: Error): void;
}

/**
 * A client of `codex app-server`: JSON-RPC without its version field, one message per line on the pipes of the process.
 * The agent can write to the other end, so an invalid message ends the connection, and nothing else.
 */
export class AppServer {
  readonly process: AgentProcess;
  /** Resolves, never rejects, with the reason when the connection has ended. */
  readonly ended: Promise<string>;
  readonly #onNotification: (notification: Notification | Delta) => void;
  readonly #replies = new Map<number, Reply>();
  #end: (reason: string) => void = () => {};
  #reason: string | undefined;
  #line = '';
  readonly #errorOutput: () => string;
  #requests = 0;

  constructor(
    process: AgentProcess,
    onNotification: (notification: Notification | Delta) => void,
    maskedErrors: MaskedStream,
  ) {
    this.process = process;
    this.#onNotification = onNotification;
    this.ended = new Promise((resolve) => {
      this.#end = resolve;
    });
    const { stdin, stdout } = process.child;
    // An unhandled error would end the runner. The exit of the process says why the pipe broke.
    stdin.on('error', () => {});
    stdout.setEncoding('utf8').on('data', (text: string) => this.#read(text));
    this.#errorOutput = lastErrorOutput(process.child, maskedErrors);
    void process.exited.then(({ exitCode, signal }) => this.#close(`exit status ${signal ?? exitCode}`));
  }

  request(method: string, params: object): Promise<unknown> {
    if (this.#reason !== undefined) return Promise.reject(new Error(this.#reason));
    this.#requests += 1;
    const id = this.#requests;
    this.#send({ id, method, params });
    return new Promise((resolve, reject) => {
      this.#replies.set(id, { resolve, reject });
    });
  }

  notify(method: 'initialized'): void {
    this.#send({ method });
  }

  #send(message: object): void {
    this.process.child.stdin.write(`${JSON.stringify(message)}\n`);
  }

  #read(text: string): void {
    if (this.#reason !== undefined) return;
    const [first = '', ...more] = text.split('\n');
    const lines = [`${this.#line}${first}`, ...more];
    this.#line = lines.pop() ?? '';
    try {
      if (this.#line.length > lineLength) throw new Error('a line is too long');
      for (const line of lines) if (line !== '') this.#handle(JSON.parse(line) as Incoming);
    } catch (error) {
      this.#close(`invalid message: ${messageOf(error)}`);
      void this.process.kill();
    }
  }

  #handle(message: Incoming): void {
    const { id, method, params } = message;
    if (method === undefined) this.#handleReply(message);
    else if (id !== undefined) this.#send({ id, ...replyTo(message) });
    else if (isObject(params)) this.#onNotification({ method, params } as unknown as Notification);
  }

  #handleReply({ id, result, error }: Incoming): void {
    const reply = this.#replies.get(Number(id));
    this.#replies.delete(Number(id));
    if (error) reply?.reject(new Error(String(error.message)));
    else reply?.resolve(result);
  }

  #close(reason: string): void {
    if (this.#reason !== undefined) return;
    this.#reason = ['Codex ended', reason, this.#errorOutput()].filter(Boolean).join(': ');
    for (const reply of this.#replies.values()) reply.reject(new Error(this.#reason));
    this.#replies.clear();
    this.#end(this.#reason);
  }
}

/** Every request for approval is approved: the sandbox limits what the agent can do. A request for user input fails. */
function replyTo({ method, params }: Incoming): object {
  if (method === 'item/commandExecution/requestApproval' || method === 'item/fileChange/requestApproval')
    return { result: { decision: 'accept' } };
  const { _meta } = (params ?? {}) as { _meta?: { codex_approval_kind?: string } | null };
  if (method === 'mcpServer/elicitation/request' && _meta?.codex_approval_kind === 'mcp_tool_call')
    return { result: { action: 'accept', content: {}, _meta: null } };
  return { error: { code: -32601, message: 'User input is not available.' } };
}

interface Incoming {
  readonly id?: number | string;
  readonly method?: string;
  readonly params?: unknown;
  readonly result?: unknown;
  readonly error?: { readonly message: string };
}

/** The notifications that are used here, with the names of the protocol. */

export type Notification =
  | { readonly method: 'item/started' | 'item/completed'; readonly params: OfThread<{ item: ThreadItem }> }
  | { readonly method: 'turn/started' | 'turn/completed'; readonly params: OfThread<{ turn: Turn }> }
  | {
      readonly method: 'turn/plan/updated';
      readonly params: OfThread<{ plan: readonly { readonly step: string; readonly status: string }[] }>;
    }
  | {
      readonly method: 'thread/tokenUsage/updated';
      readonly params: OfThread<{
        tokenUsage: {
          readonly last: { readonly totalTokens: number };
          readonly modelContextWindow: number | null;
        };
      }>;
    }
  | { readonly method: 'error'; readonly params: OfThread<{ error: TurnError; willRetry: boolean }> }
  | { readonly method: 'warning'; readonly params: { readonly message: string } }
  | {
      readonly method: 'mcpServer/startupStatus/updated';
      readonly params: { readonly name: string; readonly status: string };
    };

/** The methods of the pieces of an item's text. */
const deltas = [
  'item/agentMessage/delta',
  'item/reasoning/summaryTextDelta',
  'item/reasoning/textDelta',
  'item/commandExecution/outputDelta',
] as const;

export interface Delta {
  readonly method: (typeof deltas)[number];
  readonly params: OfThread<{ itemId: string; delta: string; summaryIndex?: number; contentIndex?: number }>;
}

export const isDelta = (notification: Notification | Delta): notification is Delta =>
  (deltas as readonly string[]).includes(notification.method);

type OfThread<T> = Readonly<T> & { readonly threadId: string };

export interface Turn {
  readonly id: string;
  readonly status: 'completed' | 'interrupted' | 'failed' | 'inProgress';
  readonly error: TurnError | null;
}

export interface TurnError {
  readonly message: string;
  /** A name, or an object with a name as its key and the status of the provider's answer in its value. */
  readonly codexErrorInfo: string | Readonly<Record<string, unknown>> | null;
}

/** Items of other types are ignored. */
export type ThreadItem =
  | { readonly type: 'userMessage'; readonly id: string; readonly clientId: string | null }
  | { readonly type: 'agentMessage'; readonly id: string; readonly text: string }
  | {
      readonly type: 'reasoning';
      readonly id: string;
      readonly summary: readonly string[];
      readonly content: readonly string[];
    }
  | CommandExecution
  | FileChange
  | McpToolCall
  | { readonly type: 'webSearch'; readonly id: string; readonly query: string }
  | {
      readonly type: 'collabAgentToolCall';
      readonly id: string;
      readonly tool: string;
      readonly prompt: string | null;
    }
  | {
      readonly type: 'subAgentActivity';
      readonly id: string;
      readonly kind: string;
      readonly agentPath: string;
    }
  | { readonly type: 'imageView'; readonly id: string; readonly path: string }
  | { readonly type: 'contextCompaction'; readonly id: string };

export interface CommandExecution {
  readonly type: 'commandExecution';
  readonly id: string;
  readonly command: string;
  readonly aggregatedOutput: string | null;
  readonly exitCode: number | null;
}

export interface FileChange {
  readonly type: 'fileChange';
  readonly id: string;
  readonly changes: readonly {
    readonly path: string;
    readonly kind: { readonly type: 'add' | 'delete' | 'update' };
    readonly diff: string;
  }[];
  readonly status: string;
}

export interface McpToolCall {
  readonly type: 'mcpToolCall';
  readonly id: string;
  readonly server: string;
  readonly tool: string;
  readonly status: string;
  readonly arguments: unknown;
  readonly result: { readonly content: readonly unknown[] } | null;
  readonly error: { readonly message: string } | null;
}

import { messageOf } from '../../lib/errors.ts';
import { isObject } from '../../lib/json.ts';
import type { MaskedStream } from '../../lib/value-mask.ts';
import { lastErrorOutput } from '../agent-process.ts';
import type { AgentProcess } from '../harness.ts';
import { boundedLines, type LeftOutLine, leftOutText } from '../harness-lines.ts';

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
  readonly #errorOutput: () => string;
  #requests = 0;
  #isWarned = false;

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
    void this.#read(stdout);
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

  async #read(stdout: AsyncIterable<Buffer>): Promise<void> {
    try {
      for await (const line of boundedLines(stdout, (left) => this.#leaveOut(left))) {
        if (this.#reason !== undefined) return;
        this.#handle(JSON.parse(line.toString()) as Incoming);
      }
    } catch (error) {
      this.#refuse(messageOf(error));
    }
  }

  /** Items are only for the timeline. Without another message the connection can't go on. */
  #leaveOut(line: LeftOutLine): void {
    if (!/^\{"method":"item\/(started|completed)"/.test(line.beginning))
      return this.#refuse(`it has ${line.reason}`);
    if (!this.#isWarned)
      this.#onNotification({ method: 'warning', params: { message: leftOutText('Codex', line) } });
    this.#isWarned = true;
  }

  #refuse(problem: string): void {
    this.#close(`invalid message: ${problem}`);
    void this.process.kill();
  }

  #handle(message: Incoming): void {
    const { id, method, params } = message;
    if (method === undefined) this.#handleReply(message);
    else if (id !== undefined) {
      if (method === userInput) this.#onNotification({ method, params } as unknown as Notification);
      this.#send({ id, ...replyTo(message) });
    } else if (isObject(params)) this.#onNotification({ method, params } as unknown as Notification);
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

const userInput = 'item/tool/requestUserInput';

interface UserInput {
  readonly questions: readonly {
    readonly id: string;
    readonly question: string;
    readonly options: readonly { readonly label: string; readonly description: string }[] | null;
  }[];
}

const passedOn =
  'The question was passed on. End your turn now, without further tool calls: the answer comes as your next message.';

/**
 * Every request for approval is approved: the sandbox limits what the agent can do. Nobody answers during a turn, so
 * questions become the agent's question at the end of the turn.
 */
function replyTo({ method, params }: Incoming): object {
  if (method === 'item/commandExecution/requestApproval' || method === 'item/fileChange/requestApproval')
    return { result: { decision: 'accept' } };
  if (method === userInput) {
    const { questions } = params as UserInput;
    return {
      result: { answers: Object.fromEntries(questions.map(({ id }) => [id, { answers: [passedOn] }])) },
    };
  }
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
  | { readonly method: typeof userInput; readonly params: OfThread<UserInput> }
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

/** The questions and their options, as a person reads them. */
export const questionText = ({ questions }: UserInput): string =>
  questions
    .map(({ question, options }) =>
      [question, ...(options ?? []).map(({ label, description }) => `- ${label}: ${description}`)].join('\n'),
    )
    .join('\n\n');

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

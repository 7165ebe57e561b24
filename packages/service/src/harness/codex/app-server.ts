import type { AgentProcess } from '../harness.ts';
import type { Notification, Requests } from './protocol.ts';

/** A command's output comes in one line, at most a MiB of it before escapes. */
const lineLength = 16 * 1024 * 1024;
const complaintLength = 2000;

interface Reply {
  resolve(result: unknown): void;
  reject(error: Error): void;
}

/**
 * The client's end of `codex app-server`: JSON-RPC without its version field, one message per line over the pipes of
 * the process. The other end is within the agent's reach, so whatever does not fit the protocol ends the conversation
 * and nothing else.
 */
export class AppServer {
  readonly process: AgentProcess;
  /** Resolves, never rejects, when no more is said: why, in words. */
  readonly over: Promise<string>;
  readonly #hear: (notification: Notification) => void;
  readonly #replies = new Map<number, Reply>();
  #end: (why: string) => void = () => {};
  #why: string | undefined;
  #line = '';
  #complaint = '';
  #requests = 0;

  constructor(process: AgentProcess, hear: (notification: Notification) => void) {
    this.process = process;
    this.#hear = hear;
    this.over = new Promise((resolve) => {
      this.#end = resolve;
    });
    const { stdin, stdout, stderr } = process.child;
    // A pipe whose reader has died is told by its exit, and must not bring the runner down.
    stdin.on('error', () => {});
    stdout.setEncoding('utf8').on('data', (text: string) => this.#read(text));
    stderr.setEncoding('utf8').on('data', (text: string) => {
      this.#complaint = `${this.#complaint}${text}`.slice(-complaintLength);
    });
    void process.exited.then(({ exitCode, signal }) => this.#close(`it ended with ${signal ?? exitCode}`));
  }

  request<M extends keyof Requests>(
    method: M,
    params: Requests[M]['params'],
  ): Promise<Requests[M]['result']> {
    if (this.#why !== undefined) return Promise.reject(new Error(this.#why));
    this.#requests += 1;
    const id = this.#requests;
    const reply = new Promise<unknown>((resolve, reject) => {
      this.#replies.set(id, { resolve, reject });
    });
    this.#send({ id, method, params });
    return reply as Promise<Requests[M]['result']>;
  }

  notify(method: 'initialized'): void {
    this.#send({ method });
  }

  #send(message: object): void {
    this.process.child.stdin.write(`${JSON.stringify(message)}\n`);
  }

  #read(text: string): void {
    if (this.#why !== undefined) return;
    const [first = '', ...more] = text.split('\n');
    const lines = [`${this.#line}${first}`, ...more];
    this.#line = lines.pop() ?? '';
    try {
      if (this.#line.length > lineLength) throw new Error('a line of it has no end');
      for (const line of lines) if (line !== '') this.#take(JSON.parse(line) as Incoming);
    } catch (error) {
      this.#close(`its words make no sense: ${error instanceof Error ? error.message : String(error)}`);
      void this.process.kill();
    }
  }

  #take(message: Incoming): void {
    if (message.method === undefined) this.#answered(message);
    else if (message.id === undefined) this.#noticed(message);
    else this.#send({ id: message.id, ...replyTo(message) });
  }

  #noticed({ method, params }: Incoming): void {
    if (typeof params === 'object' && params !== null) this.#hear({ method, params } as Notification);
  }

  #answered({ id, result, error }: Incoming): void {
    const reply = this.#replies.get(Number(id));
    this.#replies.delete(Number(id));
    if (error) reply?.reject(new Error(String(error.message)));
    else reply?.resolve(result);
  }

  #close(why: string): void {
    if (this.#why !== undefined) return;
    this.#why = ['Codex is gone', why, this.#complaint.trim()].filter((part) => part !== '').join(': ');
    for (const reply of this.#replies.values()) reply.reject(new Error(this.#why));
    this.#replies.clear();
    this.#end(this.#why);
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

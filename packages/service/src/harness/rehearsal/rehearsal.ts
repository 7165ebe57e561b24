import { StringDecoder } from 'node:string_decoder';
import type { ValueMask } from '../../lib/value-mask.ts';
import { exitAfterOutput } from '../agent-process.ts';
import type {
  AgentProcess,
  Harness,
  HarnessListener,
  HarnessSession,
  Message,
  TurnResult,
  Work,
} from '../harness.ts';
import type { CommandResult } from './push.ts';
import { type CommandOptions, Turn, type TurnOptions } from './turn.ts';

export interface RehearsalOptions {
  /** How long a turn without directives takes. */
  readonly turnMs: number;
}

/** An agent without a model: it follows the directives in its messages. */
export function rehearsalHarness(options: RehearsalOptions): Harness {
  return {
    sessionFiles: () => [],
    open: async (work, listener) => {
      listener.action('Rehearsing');
      listener.session(work.claim.session || `rehearsal-${work.claim.agentKey}`);
      return new RehearsalSession(work, listener, options);
    },
  };
}

class RehearsalSession implements HarnessSession {
  readonly #work: Work;
  readonly #turn: Turn;
  readonly #stop = new AbortController();
  readonly #running = new Set<AgentProcess>();
  #result: Promise<TurnResult> | undefined;

  constructor(work: Work, listener: HarnessListener, { turnMs }: RehearsalOptions) {
    const run: TurnOptions['run'] = (argv, options) => this.#run(argv, options);
    this.#work = work;
    this.#turn = new Turn({ work, listener, turnMs, stopped: this.#stop.signal, run });
  }

  /** Follows only the first message of a run. Later ones are reminders, which it ignores. */
  async deliver({ text }: Message): Promise<TurnResult> {
    const isFirst = this.#result === undefined;
    this.#result ??= this.#turn.perform(text);
    const result = await this.#result;
    if (isFirst || !this.#stop.signal.aborted || result.type !== 'done') return result;
    return { type: 'interrupted', response: result.response };
  }

  steer({ text }: Message): Promise<boolean> {
    return this.#turn.steer(text);
  }

  interrupt(): void {
    this.#stop.abort();
    for (const command of this.#running) command.end();
  }

  async kill(): Promise<void> {
    this.#stop.abort();
    await Promise.all([...this.#running].map((command) => command.kill()));
  }

  async close(): Promise<void> {
    await this.kill();
  }

  async #run(argv: readonly string[], options: CommandOptions): Promise<CommandResult> {
    // A push is several commands: after an interrupt none of the later ones starts.
    if (this.#stop.signal.aborted) throw new Error('the turn was stopped');
    const { gateway } = options;
    const command = this.#work.processes.start(argv, gateway && { gateway });
    this.#running.add(command);
    try {
      return await resultOf(command, this.#work.mask, options);
    } finally {
      this.#running.delete(command);
    }
  }
}

/** Waits for the end of a command. Its `stdout` alone is for the harness and not masked. */
async function resultOf(
  command: AgentProcess,
  mask: ValueMask,
  { mostBytes, input = '', onOutput }: CommandOptions,
): Promise<CommandResult> {
  const { child } = command;
  const output = new BoundedOutput(mostBytes);
  const stdout = new BoundedOutput(mostBytes);
  const ends: (() => void)[] = [];
  for (const stream of [child.stdout, child.stderr]) {
    const decoder = new StringDecoder('utf8');
    const masked = mask.stream();
    stream.on('data', (chunk: Buffer) => {
      const text = masked.add(decoder.write(chunk));
      output.add(Buffer.from(text));
      onOutput?.(text);
      if (stream === child.stdout) stdout.add(chunk);
    });
    ends.push(() => output.add(Buffer.from(masked.add(decoder.end()) + masked.end())));
  }
  child.stdin.end(input);
  const exit = await exitAfterOutput(command);
  for (const end of ends) end();
  return { ...exit, output: output.toString(), stdout: stdout.toString() };
}

/** Keeps the beginning and the end of a stream, with a note on how much was left out. */
class BoundedOutput {
  readonly #halfBytes: number;
  readonly #head: Buffer[] = [];
  #headBytes = 0;
  #tail: Buffer[] = [];
  #tailBytes = 0;
  #leftOutBytes = 0;

  constructor(mostBytes: number) {
    this.#halfBytes = Math.ceil(mostBytes / 2);
  }

  add(chunk: Buffer): void {
    const head = chunk.subarray(0, this.#halfBytes - this.#headBytes);
    if (head.length > 0) this.#head.push(head);
    this.#headBytes += head.length;
    const rest = chunk.subarray(head.length);
    if (rest.length === 0) return;
    this.#tail.push(rest);
    this.#tailBytes += rest.length;
    // Not at each chunk: every cut copies the tail.
    if (this.#tailBytes > 2 * this.#halfBytes) this.#cutTail();
  }

  toString(): string {
    this.#cutTail();
    const note = this.#leftOutBytes > 0 ? [Buffer.from(`\n… ${this.#leftOutBytes} bytes left out …\n`)] : [];
    return Buffer.concat([...this.#head, ...note, ...this.#tail]).toString('utf8');
  }

  #cutTail(): void {
    const excess = this.#tailBytes - this.#halfBytes;
    if (excess <= 0) return;
    this.#tail = [Buffer.concat(this.#tail).subarray(excess)];
    this.#tailBytes -= excess;
    this.#leftOutBytes += excess;
  }
}

import type { AgentProcess, Harness, HarnessListener, HarnessSession, TurnResult, Work } from '../harness.ts';
import { type Finished, finished } from './command.ts';
import { Turn } from './turn.ts';

export interface RehearsalOptions {
  /** How long a turn without directives takes in all. */
  readonly turnMs: number;
}

/** The agent with no model behind it: it follows the directives in its messages. */
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
  readonly #listener: HarnessListener;
  readonly #options: RehearsalOptions;
  readonly #stop = new AbortController();
  readonly #running = new Set<AgentProcess>();
  #result: Promise<TurnResult> | undefined;

  constructor(work: Work, listener: HarnessListener, options: RehearsalOptions) {
    this.#work = work;
    this.#listener = listener;
    this.#options = options;
  }

  /** Only the first message of a run is heard. What comes later are reminders, and those it ignores. */
  async deliver(text: string): Promise<TurnResult> {
    const first = this.#result === undefined;
    this.#result ??= this.#turn(text);
    const result = await this.#result;
    if (first || !this.#stop.signal.aborted || result.type !== 'done') return result;
    return { type: 'interrupted', response: result.response };
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

  #turn(text: string): Promise<TurnResult> {
    return new Turn({
      work: this.#work,
      listener: this.#listener,
      turnMs: this.#options.turnMs,
      stopped: this.#stop.signal,
      run: (argv, keepBytes) => this.#run(argv, keepBytes),
    }).perform(text);
  }

  async #run(argv: readonly string[], keepBytes: number): Promise<Finished> {
    // A push is several commands: an interrupt lets it finish none of the later ones.
    if (this.#stop.signal.aborted) throw new Error('the turn was stopped');
    const command = this.#work.processes.start(argv);
    this.#running.add(command);
    try {
      return await finished(command, keepBytes);
    } finally {
      this.#running.delete(command);
    }
  }
}

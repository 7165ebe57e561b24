import type { MusterClient, Run } from '@muster/sdk';
import type { AgentId } from '@muster/sdk/contract';

const gatherMs = 30;
const mostRuns = 100;

/** What a timeline does not tell of runs that have ended: their cost. Asked for the runs on the screen, together. */
export class RunFacts {
  readonly #client: MusterClient;
  readonly #agentId: AgentId;
  readonly #known = new Map<string, Run>();
  readonly #wanted = new Set<string>();
  readonly #listeners = new Set<() => void>();
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(client: MusterClient, agentId: AgentId) {
    this.#client = client;
    this.#agentId = agentId;
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  of(runId: string): Run | undefined {
    return this.#known.get(runId);
  }

  want(runId: string): void {
    if (this.#known.has(runId)) return;
    this.#wanted.add(runId);
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      // A cost that can't be read is not shown; nothing else hangs on it.
      this.#ask().catch(() => {});
    }, gatherMs);
  }

  async #ask(): Promise<void> {
    const numbers = [...this.#wanted].map(Number);
    this.#wanted.clear();
    const newest = Math.max(...numbers);
    const limit = Math.min(mostRuns, newest - Math.min(...numbers) + 1);
    const { runs } = await this.#client.runs(this.#agentId, { before: newest + 1, limit });
    for (const run of runs) if (run.state === 'ENDED') this.#known.set(run.runId, run);
    for (const listener of this.#listeners) listener();
  }
}

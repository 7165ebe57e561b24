import { createHash } from 'node:crypto';
import type { Claim } from '@muster/sdk/contract';

const threadsKept = 1000;

/**
 * What the threads of this runner were last told, so that a run with the same instructions as the one before does not
 * repeat them: whatever is told stays in the thread. To forget is safe, and so is a thread that was elsewhere
 * meanwhile: it has lived here only since a later run.
 */
export class ToldInstructions {
  readonly #threads = new Map<string, string>();

  knows(threadId: string, claim: Claim, instructions: string): boolean {
    return this.#threads.get(threadId) === digest(claim, instructions);
  }

  /** Before a thread is told something else: a turn that is cut leaves it there all the same. */
  forget(threadId: string): void {
    this.#threads.delete(threadId);
  }

  remember(threadId: string, claim: Claim, instructions: string): void {
    this.#threads.delete(threadId);
    this.#threads.set(threadId, digest(claim, instructions));
    const [oldest] = this.#threads.keys();
    if (this.#threads.size > threadsKept && oldest !== undefined) this.#threads.delete(oldest);
  }
}

const digest = ({ homeSince }: Claim, instructions: string): string =>
  `${homeSince} ${createHash('sha256').update(instructions).digest('hex')}`;

import type { SimNode } from './sim-node.ts';
import type { Simulation } from './simulation.ts';

/**
 * The caller saw no reply; the request may have been carried out, once or twice or not at all. One error for all: to
 * trace each would take longer than the call.
 */
const noReply = new Error('no reply');

/** Loses, delays, duplicates and reorders requests and replies; callers retry. */
export class Network {
  readonly #simulation: Simulation;

  constructor(simulation: Simulation) {
    this.#simulation = simulation;
  }

  call<T>(handle: (node: SimNode) => Promise<T>, timeoutMs: number): Promise<T> {
    const { random, clock, nodes, hasFaults } = this.#simulation;
    return new Promise((resolve, reject) => {
      const timer = clock.after(timeoutMs, () => reject(noReply));
      const answer = (settle: () => void): void => {
        if (hasFaults && random.chance(0.08)) return;
        clock.after(this.#latencyMs(), () => {
          timer.isCanceled = true;
          settle();
        });
      };
      const arrive = (node: SimNode | undefined, isHeard: boolean): void => {
        if (!node?.isAlive) return;
        handle(node).then(
          (reply) => isHeard && answer(() => resolve(reply)),
          () => isHeard && answer(() => reject(noReply)),
        );
      };
      const node = random.pick(nodes);
      if (!hasFaults || !random.chance(0.08)) clock.after(this.#latencyMs(), () => arrive(node, true));
      if (hasFaults && random.chance(0.05)) {
        const other = random.pick(nodes);
        const lateMs = random.chance(0.5) ? 0 : random.between(0, 3_000);
        clock.after(this.#latencyMs() + lateMs, () => arrive(other, false));
      }
    });
  }

  #latencyMs(): number {
    const { random, hasFaults } = this.#simulation;
    return hasFaults && random.chance(0.05) ? random.between(200, 4_000) : random.between(1, 10);
  }
}

import type { ResourceLimits, RunGroup, VmProfile } from './resource-limits.ts';

const checkMs = 2000;

export interface LimitMonitorOptions {
  readonly profile: VmProfile;
  readonly limits: ResourceLimits;
  readonly group: Pick<RunGroup, 'reached'>;
  /** The tmpfs folders of the sandbox that are full. */
  readonly fullScratch: () => Promise<readonly string[]>;
  readonly warn: (text: string) => void;
}

/** Warns once per limit and run that the limit was reached, and how to raise it. */
export class LimitMonitor {
  readonly #options: LimitMonitorOptions;
  readonly #warned = new Set<keyof ResourceLimits>();
  #timer: NodeJS.Timeout | undefined;

  constructor(options: LimitMonitorOptions) {
    this.#options = options;
  }

  start(): void {
    this.#timer ??= setInterval(() => void this.check(), checkMs).unref();
  }

  /** Checks once more: the run's processes may be gone, but its groups still have the counts. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    if (this.#timer) await this.check();
  }

  async check(): Promise<void> {
    const { group, fullScratch } = this.#options;
    const { memoryMb, processes } = group.reached();
    if (memoryMb > 0) this.#warn('memoryMb', `The kernel killed ${memoryMb} of its processes.`);
    if (processes > 0) this.#warn('processes', `${processes} processes or threads could not be started.`);
    const full = await fullScratch();
    if (full.length > 0) this.#warn('scratchMb', `Full: ${full.join(', ')}.`);
  }

  #warn(limit: keyof ResourceLimits, what: string): void {
    if (this.#warned.has(limit)) return;
    this.#warned.add(limit);
    const { profile, limits, warn } = this.#options;
    warn(
      `The run reached its limit ${limit}: ${limits[limit]}. ${what} ` +
        `To raise it, set ${limit} in the vm-profile ${profile.name ?? 'default'}, which the pool of this run uses.`,
    );
  }
}

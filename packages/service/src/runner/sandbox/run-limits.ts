import { totalmem } from 'node:os';
import { limits as contractLimits } from '@muster/sdk/contract';
import type { GroupLimits, Limits } from './cgroup.ts';

/** The limits of a run: what the vm-profile of its pool says, builtin ones for the rest. 0 is no limit. */
export interface RunLimits extends GroupLimits {
  /** Of each of the sandbox's folders of memory: /tmp, /run and /dev/shm. */
  readonly scratchMb: number;
}

export type VmProfile = Partial<RunLimits> & { readonly name?: string };

/** One agent must not take the whole machine, however small that is. */
const mostOfMachine = 0.75;

export function runLimits(profile: VmProfile, machineBytes = totalmem()): RunLimits {
  const { runMemoryMb, runProcesses, runScratchMb } = contractLimits;
  const machineMb = Math.floor((machineBytes / 1024 ** 2) * mostOfMachine);
  return {
    ...(profile.cpus !== undefined && { cpus: profile.cpus }),
    memoryMb: profile.memoryMb ?? Math.min(runMemoryMb, machineMb),
    processes: profile.processes ?? runProcesses,
    scratchMb: profile.scratchMb ?? runScratchMb,
  };
}

/** How often a live run is looked at. */
const watchMs = 2000;

export interface WatchOptions {
  readonly profile: VmProfile;
  readonly values: RunLimits;
  readonly groups: Pick<Limits, 'reached'>;
  /** The sandbox's folders of memory that are full. */
  readonly fullScratch: () => Promise<readonly string[]>;
  readonly warn: (text: string) => void;
}

/** Tells, once for each limit and run, that the limit was reached and how to raise it. */
export class LimitWatch {
  readonly #options: WatchOptions;
  readonly #told = new Set<keyof RunLimits>();
  #timer: NodeJS.Timeout | undefined;

  constructor(options: WatchOptions) {
    this.#options = options;
  }

  /** When the first process of the run starts. */
  start(): void {
    this.#timer ??= setInterval(() => void this.look(), watchMs).unref();
  }

  /** Looks once more; the processes of the run may be gone already, its groups not yet. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    if (this.#timer) await this.look();
  }

  async look(): Promise<void> {
    const { groups, fullScratch } = this.#options;
    const { memoryMb, processes } = groups.reached();
    if (memoryMb > 0) this.#tell('memoryMb', `The kernel killed ${memoryMb} of its processes.`);
    if (processes > 0) this.#tell('processes', `${processes} processes or threads could not be started.`);
    const full = await fullScratch();
    if (full.length > 0) this.#tell('scratchMb', `Full: ${full.join(', ')}.`);
  }

  #tell(limit: keyof RunLimits, what: string): void {
    if (this.#told.has(limit)) return;
    this.#told.add(limit);
    const { profile, values, warn } = this.#options;
    warn(
      `The run reached its limit ${limit}: ${values[limit]}. ${what} ` +
        `To raise it, set ${limit} in the vm-profile ${profile.name ?? 'default'}, which the pool of this run names.`,
    );
  }
}

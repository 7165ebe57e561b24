import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { vi } from 'vitest';
import type { AgentProcess, Processes, StartOptions } from '../../packages/service/src/harness/harness.ts';
import { type AgentProcesses, agentProcesses } from '../../packages/service/src/runner/sandbox/processes.ts';
import { processText } from './files.ts';

/**
 * An agent's processes without a sandbox, for tests of a harness's conversation. Each has a mark in its environment, so
 * that it is found even when its parent has changed.
 */
export class MarkedProcesses implements Processes {
  readonly #mark = randomUUID();
  /** Processes that were running before and so are not ours: reading every environment is slow. */
  readonly #others = new Set(readdirSync('/proc'));
  readonly #folder: string;
  readonly #environment: Readonly<Record<string, string>>;

  constructor(folder: string, environment: Readonly<Record<string, string>> = {}) {
    this.#folder = folder;
    this.#environment = environment;
  }

  alive(mark: string = this.#mark): number[] {
    return readdirSync('/proc')
      .filter((name) => !this.#others.has(name))
      .map(Number)
      .filter((pid) => pid > 0 && processText(pid, 'environ').includes(mark));
  }

  /** The command lines of the processes that are alive. */
  commands(): string[] {
    return this.alive().map((pid) => processText(pid, 'cmdline').replaceAll('\0', ' '));
  }

  /** From now on the processes that are alive do not react. */
  freeze(): void {
    this.#signal('SIGSTOP', this.#mark);
  }

  /** Sends a signal to the processes with this mark that are alive, and returns how many there were. */
  #signal(signal: NodeJS.Signals, mark: string): number {
    const pids = this.alive(mark);
    for (const pid of pids) {
      try {
        process.kill(pid, signal);
      } catch (error) {
        // It has ended meanwhile.
        if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
      }
    }
    return pids.length;
  }

  start([command = '', ...args]: readonly string[], options: StartOptions = {}): AgentProcess {
    const { PATH = '' } = process.env;
    const own = randomUUID();
    const child = spawn(command, args, {
      cwd: this.#folder,
      env: { PATH, MARK: `${this.#mark} ${own}`, ...this.#environment, ...options.environment },
    });
    const exited = once(child, 'exit').then(([exitCode, signal]) => ({ exitCode, signal }));
    return {
      child,
      exited,
      gatewayReady: Promise.resolve(),
      end: () => child.kill('SIGTERM'),
      kill: async () => {
        await vi.waitUntil(() => this.#signal('SIGKILL', own) === 0, { timeout: 20_000 });
        await exited;
      },
    };
  }
}

/** An agent's processes without a sandbox, for tests of a harness alone. No gateway answers them. */
export function unsandboxedProcesses(folders: {
  readonly workspaceFolder: string;
  readonly homeFolder: string;
}): AgentProcesses {
  return agentProcesses({
    sandbox: null,
    folders,
    dataFolder: folders.homeFolder,
    runFolder: folders.homeFolder,
    agentKey: '00000000-0000-4000-8000-000000000001',
    runId: 1,
    gateway: { port: 9 },
  });
}

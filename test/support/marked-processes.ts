import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { vi } from 'vitest';
import type { AgentProcess, Processes, StartOptions } from '../../packages/service/src/harness/harness.ts';

/**
 * An agent's processes without a sandbox, for tests of a conversation alone. Each has a mark in its environment, by
 * which it is found whoever its parent is by now.
 */
export class MarkedProcesses implements Processes {
  readonly #mark = randomUUID();
  /** Those that were there before, and so are none of these: to read the environment of all takes long. */
  readonly #others = new Set(readdirSync('/proc'));
  readonly #folder: string;
  readonly #environment: Readonly<Record<string, string>>;

  constructor(folder: string, environment: Readonly<Record<string, string>> = {}) {
    this.#folder = folder;
    this.#environment = environment;
  }

  alive(): number[] {
    return readdirSync('/proc')
      .filter((name) => !this.#others.has(name))
      .map(Number)
      .filter((pid) => pid > 0 && textOf(pid, 'environ').includes(this.#mark));
  }

  /** The command lines of those that live. */
  commands(): string[] {
    return this.alive().map((pid) => textOf(pid, 'cmdline').replaceAll('\0', ' '));
  }

  start([command = '', ...args]: readonly string[], options: StartOptions = {}): AgentProcess {
    const { PATH = '' } = process.env;
    const child = spawn(command, args, {
      cwd: options.folder ?? this.#folder,
      env: { PATH, MARK: this.#mark, ...this.#environment, ...options.environment },
    });
    const exited = once(child, 'exit').then(([exitCode, signal]) => ({ exitCode, signal }));
    return {
      child,
      exited,
      gatewayReady: Promise.resolve(),
      end: () => child.kill('SIGTERM'),
      kill: async () => {
        for (const pid of this.alive()) process.kill(pid, 'SIGKILL');
        await exited;
        await vi.waitUntil(() => this.alive().length === 0, { timeout: 20_000 });
      },
    };
  }
}

/** Empty when the process is gone meanwhile. */
function textOf(pid: number, file: string): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8');
  } catch {
    return '';
  }
}

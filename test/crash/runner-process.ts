import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Api } from '../support/api.ts';
import { createKey } from '../support/catalog.ts';

const script = fileURLToPath(new URL('runner-process.mjs', import.meta.url));

/** A key for runners of this pool. */
export const runnerKey = async (admin: Api, pool = 'default'): Promise<string> =>
  (await createKey(admin, { role: 'runner', pool })).key;

/** A real runner in its own process. */
export class RunnerProcess {
  readonly name: string;
  readonly key: string;
  runnerId = '';
  readonly #folder = mkdtempSync(join(tmpdir(), 'muster-runner-'));
  readonly #child: ChildProcess;

  constructor(url: string, key: string, name: string) {
    this.name = name;
    this.key = key;
    this.#child = spawn(process.execPath, [script], {
      env: {
        PATH: process.env.PATH,
        RUNNER_URL: url,
        RUNNER_KEY: key,
        RUNNER_NAME: name,
        RUNNER_DATA: this.#folder,
      },
      stdio: ['pipe', 'pipe', 'inherit'],
    });
  }

  static async start(url: string, key: string, name: string): Promise<RunnerProcess> {
    const runner = new RunnerProcess(url, key, name);
    runner.runnerId = await new Promise((resolve, reject) => {
      let said = '';
      runner.#child.stdout?.on('data', (chunk: Buffer) => {
        said += chunk.toString();
        const [, id] = /^runner (\S+)$/m.exec(said) ?? [];
        if (id) resolve(id);
      });
      runner.#child.once('exit', () => reject(new Error(`the runner did not start: ${said}`)));
    });
    return runner;
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  async kill(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const gone = once(this.#child, 'exit');
    // Also ends a stopped process.
    this.#child.kill('SIGKILL');
    await gone;
  }

  async close(): Promise<void> {
    await this.kill();
    rmSync(this.#folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

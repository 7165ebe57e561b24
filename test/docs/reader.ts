import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { root } from './blocks.ts';

/** Where the pages say that the service is. Under test it has a port of its own, and the text is changed to that. */
export const addressInPages = 'http://127.0.0.1:8420';

export interface Ran {
  /** What was printed, answers and hints together, as a terminal shows them. */
  readonly printed: string;
  /** Commands that failed, each with its exit code. */
  readonly failures: readonly string[];
}

/**
 * Somebody who reads a page and types what it says, in a checkout after `npm install`: a folder with its
 * `node_modules`, a home of its own, and one bash for the whole page, so that a variable of one block is there in the next.
 */
export class Reader {
  readonly folder = mkdtempSync(join(tmpdir(), 'muster-reader-'));
  readonly #scripts = mkdtempSync(join(tmpdir(), 'muster-blocks-'));
  readonly #env: Readonly<Record<string, string>>;
  readonly #programs: ChildProcess[] = [];
  #bash: ChildProcess | null = null;
  #blocks = 0;

  constructor(env: Readonly<Record<string, string>> = {}) {
    symlinkSync(`${root}node_modules`, join(this.folder, 'node_modules'));
    mkdirSync(join(this.folder, 'home'));
    // npx finds a program in node_modules/.bin, which is in PATH here. It is itself asked once, for it takes longer than
    // most programs that it starts.
    writeFileSync(
      join(this.#scripts, 'npx'),
      `#!/bin/sh\nmkdir ${this.#scripts}/asked 2>/dev/null || exec "$@"\nPATH="\${PATH#*:}" exec npx "$@"\n`,
      { mode: 0o755 },
    );
    this.#env = {
      PATH: `${this.#scripts}:${this.folder}/node_modules/.bin:${process.env.PATH}`,
      HOME: join(this.folder, 'home'),
      LANG: 'C.UTF-8',
      npm_config_offline: 'true',
      npm_config_update_notifier: 'false',
      ...env,
    };
  }

  /** Types a block into the shell and waits until it is done. */
  async types(code: string): Promise<Ran> {
    const bash = this.#shell();
    this.#blocks += 1;
    const name = join(this.#scripts, String(this.#blocks));
    writeFileSync(`${name}.sh`, code);
    bash.stdin?.write(
      `failures=${name}.failures\n. ${name}.sh </dev/null >${name}.out 2>&1\necho ${name}.done\n`,
    );
    let said = '';
    for await (const chunk of bash.stdout?.iterator({ destroyOnReturn: false }) ?? []) {
      said += String(chunk);
      if (said.includes(`${name}.done`)) break;
    }
    return {
      printed: readFileSync(`${name}.out`, 'utf8'),
      failures: readFileSync(`${name}.failures`, { encoding: 'utf8', flag: 'a+' })
        .split('\n')
        .filter((line) => line !== '' && !line.includes(`. ${name}.sh`)),
    };
  }

  /** Runs a program of its own; with `until`, Ctrl-C comes as soon as it has printed that. */
  async runs(command: readonly string[], until?: RegExp): Promise<{ printed: string; code: number | null }> {
    const [program = '', ...args] = command;
    const child = spawn(program, args, {
      cwd: this.folder,
      env: this.#env,
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#programs.push(child);
    let printed = '';
    const listen = (chunk: Buffer): void => {
      printed += chunk.toString();
      if (until?.test(printed) && child.pid) process.kill(-child.pid, 'SIGINT');
    };
    child.stdout.on('data', listen);
    child.stderr.on('data', listen);
    const [code] = (await once(child, 'close')) as [number | null];
    return { printed, code };
  }

  close(): void {
    for (const { pid, exitCode, signalCode } of this.#programs)
      if (pid && exitCode === null && signalCode === null) process.kill(-pid, 'SIGKILL');
    for (const folder of [this.folder, this.#scripts])
      rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  }

  #shell(): ChildProcess {
    if (this.#bash) return this.#bash;
    this.#bash = spawn('bash', ['--noprofile', '--norc'], {
      cwd: this.folder,
      env: this.#env,
      detached: true,
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    this.#programs.push(this.#bash);
    this.#bash.stdin?.write(
      `set -E -o pipefail\ntrap 'echo "exit $?: \${BASH_COMMAND%%$'"'\\n'"'*}" >>"$failures"' ERR\n`,
    );
    return this.#bash;
  }
}

import { execFile, spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { until } from '../support/async.ts';
import { program } from '../support/server.ts';
import type { TestUser } from './cli.ts';

const run = promisify(execFile);

/** Without tmux, the terminal tests are skipped. */
export const hasTerminal = isInstalled('tmux');

export function isInstalled(name: string): boolean {
  const isFound = !spawnSync(name, ['-c', 'true']).error;
  if (!isFound) process.stderr.write(`\n*** TESTS OF THE TERMINAL ARE SKIPPED: ${name} is not installed\n\n`);
  return isFound;
}

/** The screen after a command, and its exit code. */
export interface ScreenResult {
  readonly text: string;
  readonly code: number;
}

let count = 0;

/** A shell in a pseudo-terminal of tmux. */
export class Terminal {
  readonly #socket: string;
  #commands = 0;

  private constructor(socket: string) {
    this.#socket = socket;
  }

  static async open(
    user: TestUser,
    options: { readonly columns?: number; readonly shell?: 'bash' | 'zsh' } = {},
  ): Promise<Terminal> {
    const { columns = 80, shell = 'bash' } = options;
    count += 1;
    const terminal = new Terminal(join(user.home, `tmux-${count}`));
    const bin = join(user.home, 'bin');
    mkdirSync(bin, { recursive: true });
    writeFileSync(join(bin, 'muster'), `#!/bin/sh\nexec "${process.execPath}" "${program}" "$@"\n`);
    chmodSync(join(bin, 'muster'), 0o755);
    const command = shell === 'bash' ? 'bash --norc --noprofile' : 'zsh -f';
    await run(
      'tmux',
      [
        ...['-S', terminal.#socket, '-f', '/dev/null', '-u'],
        ...['new-session', '-d', '-x', String(columns), '-y', '40', '-c', user.home, command],
      ],
      { env: { ...user.env, PATH: `${bin}:${user.env.PATH}`, LANG: 'C.UTF-8', HISTFILE: '/dev/null' } },
    );
    await terminal.type("PS1='> '; clear");
    await terminal.shows(/^>$/);
    return terminal;
  }

  async #tmux(...args: string[]): Promise<string> {
    return (await run('tmux', ['-S', this.#socket, ...args])).stdout;
  }

  /** Types a line and presses Enter. */
  async type(text: string): Promise<void> {
    await this.#tmux('send-keys', '-l', text, ';', 'send-keys', 'Enter');
  }

  /** Types a text without Enter. */
  async press(text: string): Promise<void> {
    await this.#tmux('send-keys', '-l', text);
  }

  /** Presses a key by its tmux name: `C-c`, `Tab`, `Enter`. */
  async key(name: string): Promise<void> {
    await this.#tmux('send-keys', name);
  }

  /** Cancels the typed line and waits for the prompt. */
  async cancelLine(): Promise<void> {
    await this.key('C-c');
    await this.shows(/(^|\n)>$/);
  }

  /** The visible text; tmux removes spaces at the end of a line. */
  async screen(): Promise<string> {
    return (await this.#tmux('capture-pane', '-p')).replace(/\n+$/, '');
  }

  /** The same with colour codes. */
  async coloured(): Promise<string> {
    return this.#tmux('capture-pane', '-p', '-e');
  }

  shows(what: RegExp): Promise<string> {
    return until(
      String(what),
      () => this.screen(),
      (screen) => what.test(screen),
    );
  }

  /** Runs a command on a cleared screen and waits until it has ended. */
  async run(command: string): Promise<ScreenResult> {
    await this.start(command);
    return this.end();
  }

  /** Starts a command on a cleared screen; `end` waits until it has ended. */
  async start(command: string): Promise<void> {
    this.#commands += 1;
    const line = `clear; ${command}; echo "[$?/${this.#commands}]"; tmux wait-for -S ended-${this.#commands}`;
    await this.#tmux('send-keys', '-R', ';', 'send-keys', '-l', line, ';', 'send-keys', 'Enter');
  }

  async end(): Promise<ScreenResult> {
    await this.#tmux('wait-for', `ended-${this.#commands}`);
    const mark = new RegExp(`^\\[(\\d+)/${this.#commands}\\]\\n>$`, 'm');
    const screen = await this.shows(mark);
    const found = mark.exec(screen);
    return { text: screen.slice(0, found?.index).replace(/\n$/, ''), code: Number(found?.[1]) };
  }

  async close(): Promise<void> {
    await this.#tmux('kill-server');
  }
}

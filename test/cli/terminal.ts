import { execFile, spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { until } from '../support/async.ts';
import { program } from '../support/server.ts';
import type { TestUser } from './cli.ts';

const run = promisify(execFile);

/** Whether there is a terminal to test in; else, with a loud line, its tests must be skipped. */
export const hasTerminal = isInstalled('tmux');

export function isInstalled(name: string): boolean {
  const isThere = !spawnSync(name, ['-c', 'true']).error;
  if (!isThere) process.stderr.write(`\n*** TESTS OF THE TERMINAL ARE SKIPPED: ${name} is not installed\n\n`);
  return isThere;
}

/** What a command left on the screen, and its exit code. */
export interface Left {
  readonly text: string;
  readonly code: number;
}

let count = 0;

/** A person at a real pseudo-terminal, with a shell in it; the picture is what tmux shows. */
export class Terminal {
  readonly #socket: string;
  #commands = 0;

  private constructor(socket: string) {
    this.#socket = socket;
  }

  static async open(
    person: TestUser,
    options: { readonly columns?: number; readonly shell?: 'bash' | 'zsh' } = {},
  ): Promise<Terminal> {
    const { columns = 80, shell = 'bash' } = options;
    count += 1;
    const terminal = new Terminal(join(person.home, `tmux-${count}`));
    const bin = join(person.home, 'bin');
    mkdirSync(bin, { recursive: true });
    writeFileSync(join(bin, 'muster'), `#!/bin/sh\nexec "${process.execPath}" "${program}" "$@"\n`);
    chmodSync(join(bin, 'muster'), 0o755);
    const command = shell === 'bash' ? 'bash --norc --noprofile' : 'zsh -f';
    await run(
      'tmux',
      [
        ...['-S', terminal.#socket, '-f', '/dev/null', '-u'],
        ...['new-session', '-d', '-x', String(columns), '-y', '40', '-c', person.home, command],
      ],
      { env: { ...person.env, PATH: `${bin}:${person.env.PATH}`, LANG: 'C.UTF-8', HISTFILE: '/dev/null' } },
    );
    await terminal.type("PS1='> '; clear");
    await terminal.shows(/^>$/);
    return terminal;
  }

  async #tmux(...args: string[]): Promise<string> {
    return (await run('tmux', ['-S', this.#socket, ...args])).stdout;
  }

  /** A line, and Enter. */
  async type(text: string): Promise<void> {
    await this.#tmux('send-keys', '-l', text);
    await this.key('Enter');
  }

  /** Keys without Enter. */
  async press(text: string): Promise<void> {
    await this.#tmux('send-keys', '-l', text);
  }

  /** By tmux's name of it: `C-c`, `Tab`, `Enter`. */
  async key(name: string): Promise<void> {
    await this.#tmux('send-keys', name);
  }

  /** Gives up the line that was begun; the shell is ready for another one. */
  async abandon(): Promise<void> {
    await this.key('C-c');
    await this.shows(/(^|\n)>$/);
  }

  /** What is to be seen; tmux leaves out space at the end of a line. */
  async screen(): Promise<string> {
    return (await this.#tmux('capture-pane', '-p')).replace(/\n+$/, '');
  }

  /** The same with its colours. */
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

  /** Runs a command to its end on a clear screen; what it left there, and its exit code. */
  async run(command: string): Promise<Left> {
    await this.start(command);
    return this.end();
  }

  /** Starts one that goes on; `end` waits for its end. What the one before has left is not taken for its own. */
  async start(command: string): Promise<void> {
    this.#commands += 1;
    await this.type('clear');
    await this.shows(/^>$/);
    await this.type(`clear; ${command}; echo "[$?/${this.#commands}]"`);
  }

  async end(): Promise<Left> {
    const mark = new RegExp(`^\\[(\\d+)/${this.#commands}\\]\\n>$`, 'm');
    const screen = await this.shows(mark);
    const found = mark.exec(screen);
    return { text: screen.slice(0, found?.index).replace(/\n$/, ''), code: Number(found?.[1]) };
  }

  async close(): Promise<void> {
    await this.#tmux('kill-server');
  }
}

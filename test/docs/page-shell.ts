import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { sandbox } from '../support/sandbox.ts';
import { type Server, startServer } from '../support/server.ts';
import { root } from './code-blocks.ts';

/** The service's address in the pages; replaced by that of the service under test. */
export const addressInPages = 'http://127.0.0.1:8420';

export interface Ran {
  /** Standard output and standard error together, as a terminal shows them. */
  readonly printed: string;
  /** Commands that failed, each with its exit code. */
  readonly failures: readonly string[];
}

/** Created when the real npx has run. */
const hasRunNpx = join(mkdtempSync(join(tmpdir(), 'muster-npx-')), 'used');

/**
 * Runs the commands of a page in a folder like a checkout after `npm install`, with its own home. One bash runs the
 * whole page, so that a variable set in one block is available in the next.
 */
export class PageShell {
  readonly folder = mkdtempSync(join(tmpdir(), 'muster-page-'));
  readonly #scripts = mkdtempSync(join(tmpdir(), 'muster-blocks-'));
  readonly #env: Readonly<Record<string, string>>;
  readonly #programs: ChildProcess[] = [];
  #bash: ChildProcess | null = null;
  #blocks = 0;

  constructor() {
    symlinkSync(`${root}node_modules`, join(this.folder, 'node_modules'));
    mkdirSync(join(this.folder, 'home'));
    // The real npx runs once; after that its programs run from PATH, because npx takes longer than most of them.
    writeFileSync(
      join(this.#scripts, 'npx'),
      `#!/bin/sh\nmkdir ${hasRunNpx} 2>/dev/null || exec "$@"\nPATH="\${PATH#*:}" exec npx "$@"\n`,
      { mode: 0o755 },
    );
    this.#env = {
      PATH: `${this.#scripts}:${this.folder}/node_modules/.bin:${process.env.PATH}`,
      HOME: join(this.folder, 'home'),
      LANG: 'C.UTF-8',
      npm_config_offline: 'true',
      npm_config_update_notifier: 'false',
    };
  }

  /** Runs a block in the shell and waits until it has finished. */
  async run(code: string): Promise<Ran> {
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

  /** Runs a separate program; with `until`, sends it Ctrl-C once its output matches. */
  async runProgram(
    command: readonly string[],
    until?: RegExp,
  ): Promise<{ printed: string; code: number | null }> {
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

/** One shell with one service, as `npm start` leaves them: its data in the reader's folder, PostgreSQL inside. */
export class PageSession {
  readonly shell: PageShell;
  readonly server: Server;
  readonly #replacements: readonly (readonly [string, string])[];
  #printed: string | null = null;

  constructor(shell: PageShell, server: Server, replacements: readonly (readonly [string, string])[]) {
    this.shell = shell;
    this.server = server;
    this.#replacements = [[addressInPages, server.url], ...replacements];
  }

  static async start(
    env: Readonly<Record<string, string>> = {},
    replacements: readonly (readonly [string, string])[] = [],
    hasEmbeddedDatabase = true,
  ): Promise<PageSession> {
    const shell = new PageShell();
    const server = await startServer({
      ...(hasEmbeddedDatabase && { databaseUrl: 'embedded' }),
      env: {
        ...(hasEmbeddedDatabase && { DATABASE_URL: undefined }),
        MUSTER_DATA: join(shell.folder, '.muster'),
        MUSTER_SECRET: undefined,
        MUSTER_BOOTSTRAP_KEY: undefined,
        MUSTER_SANDBOX: sandbox ? 'required' : 'off',
        ...env,
      },
    });
    return new PageSession(shell, server, replacements);
  }

  /** The output of the last command; before the first, that of the service at its start. */
  get printed(): string {
    return this.#printed ?? this.server.output.join('');
  }

  /** Runs a block, with the addresses in the page replaced by those of this service. */
  async run(code: string): Promise<Ran> {
    const ran = await this.shell.run(this.here(code));
    this.#printed = ran.printed;
    return ran;
  }

  here(text: string): string {
    return this.#replacements.reduce((all, [shown, real]) => all.replaceAll(shown, real), text);
  }

  async close(): Promise<void> {
    await this.server.end();
    await this.server.close();
    this.shell.close();
  }
}

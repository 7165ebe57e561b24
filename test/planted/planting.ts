import { execFileSync, spawn } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { PlantedBug } from './bugs.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));

/** A copy of the sources and of what was built from them, into which bugs are put. */
export class PlantedCopy {
  readonly #folder = mkdtempSync(join(tmpdir(), 'muster-planted-'));

  constructor() {
    const skip = /\/(node_modules|\.git|\.muster)(\/|$)/;
    cpSync(root, this.#folder, {
      recursive: true,
      filter: (path) => !skip.test(path.slice(root.length - 1)),
    });
    // Packages import each other through node_modules, which must link to the copies.
    execFileSync('cp', ['-as', `${root}node_modules`, join(this.#folder, 'node_modules')]);
    // Libraries of which another package needs another version.
    const own = 'packages/service/node_modules';
    if (existsSync(`${root}${own}`)) execFileSync('cp', ['-as', `${root}${own}`, join(this.#folder, own)]);
    for (const name of ['sdk', 'service']) {
      const link = join(this.#folder, 'node_modules/@muster', name);
      rmSync(link, { recursive: true, force: true });
      symlinkSync(join(this.#folder, 'packages', name), link);
    }
  }

  remove(): void {
    rmSync(this.#folder, { recursive: true, force: true });
  }

  /** Which test of which of these suites catches the bug, or null. Throws if the bug can't be tried. */
  async catches(bug: PlantedBug, suites = bug.suites): Promise<string | null> {
    const file = join(this.#folder, bug.file);
    const original = readFileSync(file, 'utf8');
    if (original.split(bug.find).length !== 2) throw new Error(`it no longer fits ${bug.file}`);
    writeFileSync(
      file,
      original.replace(bug.find, () => bug.replace),
    );
    try {
      await this.#build(bug, suites);
      for (const suite of suites) {
        const failed = await this.failedTest(suite);
        if (failed) return `${suite}: ${failed}`;
      }
      return null;
    } finally {
      writeFileSync(file, original);
    }
  }

  /** The first test of a suite that fails, or null. A suite that ends in another way proves nothing, and throws. */
  async failedTest(suite: string): Promise<string | null> {
    const report = join(this.#folder, 'report.json');
    rmSync(report, { force: true });
    const vitest = join(root, 'node_modules/vitest/vitest.mjs');
    const { status } = await run(
      [
        process.execPath,
        vitest,
        'run',
        suite,
        '--bail=1',
        '--testTimeout=30000',
        '--reporter=json',
        `--outputFile=${report}`,
      ],
      this.#folder,
    );
    if (status === 0) return null;
    const failed = failedIn(report);
    if (failed === null) throw new Error(`${suite} ended without a failed test`);
    return failed;
  }

  /** Builds only what the suites use: the dashboard takes most of the time. */
  async #build({ file }: PlantedBug, suites: readonly string[]): Promise<void> {
    if (suites.every(readsSources)) return;
    const commands = [
      [join(root, 'node_modules/.bin/tsc'), '-b'],
      file.startsWith('packages/service/')
        ? [process.execPath, 'scripts/bundle-service.mjs']
        : ['npm', 'run', 'build', '--silent'],
    ];
    for (const command of commands) {
      const { status, output } = await run(command, this.#folder);
      if (status !== 0) throw new Error(`it does not compile: ${output}`);
    }
  }
}

/** Whether a suite runs what it tests from source; the others start the built service. */
export const readsSources = (suite: string): boolean => /^(packages|test\/simulation)\//.test(suite);

interface Report {
  readonly testResults: readonly {
    readonly assertionResults: readonly { readonly status: string; readonly fullName: string }[];
  }[];
}

function failedIn(path: string): string | null {
  let report: Report;
  try {
    report = JSON.parse(readFileSync(path, 'utf8')) as Report;
  } catch {
    return null;
  }
  const tests = report.testResults.flatMap(({ assertionResults }) => assertionResults);
  return tests.find(({ status }) => status === 'failed')?.fullName ?? null;
}

/** Without the variables by which vitest recognizes its own workers. */
const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('VITEST')));

function run(
  [command = '', ...args]: readonly string[],
  cwd: string,
): Promise<{ readonly status: number | null; readonly output: string }> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] });
    let output = '';
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (bytes: Buffer) => {
        output = (output + bytes).slice(-10_000);
      });
    child.on('error', reject);
    child.on('close', (status) => resolve({ status, output }));
  });
}

import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type PlantedBug, plantedBugs } from './bugs.ts';

/**
 * Checks that the suites can fail: each bug is put into a copy of the sources, the copy is built, and one of the suites
 * listed with the bug must fail. A bug that no suite notices fails this run.
 */
const root = fileURLToPath(new URL('../../', import.meta.url));
const say = (line: string): void => void process.stdout.write(`${line}\n`);

function copyTree(): string {
  const copy = mkdtempSync(join(tmpdir(), 'muster-planted-'));
  const skip = /\/(node_modules|\.git|\.muster)(\/|$)/;
  cpSync(root, copy, { recursive: true, filter: (path) => !skip.test(path.slice(root.length - 1)) });
  // Packages import each other through node_modules, which must link to the copies.
  execFileSync('cp', ['-as', `${root}node_modules`, join(copy, 'node_modules')]);
  for (const name of ['sdk', 'service']) {
    const link = join(copy, 'node_modules/@muster', name);
    rmSync(link, { recursive: true, force: true });
    symlinkSync(join(copy, 'packages', name), link);
  }
  return copy;
}

function plant(copy: string, bug: PlantedBug): void {
  const file = join(copy, bug.file);
  const source = readFileSync(file, 'utf8');
  if (source.split(bug.find).length !== 2) throw new Error(`"${bug.name}" no longer fits ${bug.file}`);
  writeFileSync(
    file,
    source.replace(bug.find, () => bug.replace),
  );
}

function firstFailure(copy: string, suite: string): string | null {
  const vitest = join(root, 'node_modules/vitest/vitest.mjs');
  const run = spawnSync(process.execPath, [vitest, 'run', suite, '--bail', '1', '--reporter', 'json'], {
    cwd: copy,
    encoding: 'utf8',
    maxBuffer: 1 << 28,
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  if (run.status === 0) return null;
  const failed = /"status":"failed","title":"((?:[^"\\]|\\.)*)"/.exec(run.stdout);
  return failed?.[1] ?? 'the suite did not run to its end';
}

/** Only what the bug is in: the dashboard takes most of the time. Returns why it does not compile. */
function build(copy: string, { file }: PlantedBug): string | null {
  const commands = file.startsWith('packages/service/')
    ? ['npx tsc -b', 'node scripts/bundle-service.mjs']
    : ['npm run build --silent'];
  for (const command of commands) {
    const { status, stdout, stderr } = spawnSync('sh', ['-c', command], { cwd: copy, encoding: 'utf8' });
    if (status !== 0) return `${stdout}${stderr}`;
  }
  return null;
}

function caughtBy(copy: string, { suites }: PlantedBug): string | null {
  for (const suite of suites) {
    const failure = firstFailure(copy, suite);
    if (failure) return `${suite}: ${failure}`;
  }
  return null;
}

/** Parts of names; without any, all bugs. */
const wanted = process.argv.slice(2);
const isWanted = ({ name }: PlantedBug): boolean =>
  wanted.length === 0 || wanted.some((part) => name.includes(part));
const copy = copyTree();
const missed: string[] = [];
let tried = 0;
try {
  for (const bug of plantedBugs.filter(isWanted)) {
    const original = readFileSync(join(copy, bug.file), 'utf8');
    tried += 1;
    plant(copy, bug);
    const problem = build(copy, bug);
    const caught = problem === null ? caughtBy(copy, bug) : null;
    if (!caught) missed.push(bug.name);
    if (problem !== null) say(`MISSED  ${bug.name}\n        does not compile: ${problem}`);
    else say(caught ? `caught  ${bug.name}\n        by ${caught}` : `MISSED  ${bug.name}`);
    writeFileSync(join(copy, bug.file), original);
  }
} finally {
  rmSync(copy, { recursive: true, force: true });
}
say(`\n${tried - missed.length} passed, ${missed.length} failed`);
if (missed.length > 0) process.exit(1);

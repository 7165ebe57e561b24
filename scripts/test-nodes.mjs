// Runs the quick tier of the tests on each supported version of Node, with the programs that npm has.
//   npm run test:nodes -- [--full] [20 22 24 26] [paths and options of vitest]
// --full runs every suite. The programs are kept in ~/.cache/muster-nodes (or $XDG_CACHE_HOME), those of root in /var/cache,
// because some tests run Node as another user.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync } from 'node:fs';
import { homedir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const supported = ['20', '22', '24', '26'];
const root = fileURLToPath(new URL('..', import.meta.url));
const ownCache = process.env.XDG_CACHE_HOME || join(homedir(), '.cache');
const cache = join(process.getuid?.() === 0 ? '/var/cache' : ownCache, 'muster-nodes');

const given = process.argv.slice(2);
const named = given.filter((arg) => supported.includes(arg));
const forVitest = given.filter((arg) => arg !== '--full' && !supported.includes(arg));

function run(command, args, options) {
  const { status, error } = spawnSync(command, args, { stdio: 'inherit', ...options });
  if (error) throw error;
  return status;
}

/** The newest release of this major version. */
function nodeProgram(major) {
  const folder = join(cache, major);
  const name = `node-${process.platform}-${process.arch}`;
  const program = join(folder, 'node_modules', name, 'bin/node');
  if (!existsSync(program)) {
    mkdirSync(folder, { recursive: true });
    const install = ['install', '--prefix', folder, '--ignore-scripts', '--no-audit', '--no-fund'];
    if (run('npm', [...install, `${name}@${major}.x`]) !== 0) process.exit(1);
  }
  return program;
}

const results = (named.length > 0 ? named : supported).map((major) => {
  const program = nodeProgram(major);
  const env = { ...process.env, PATH: `${dirname(program)}${delimiter}${process.env.PATH}` };
  if (!given.includes('--full')) env.MUSTER_TEST_QUICK = '1';
  console.log(`\nNode ${major}: ${program}`);
  return {
    major,
    status: run(program, ['node_modules/vitest/vitest.mjs', 'run', ...forVitest], { cwd: root, env }),
  };
});
for (const { major, status } of results) console.log(`Node ${major}: ${status === 0 ? 'passed' : 'FAILED'}`);
process.exit(results.some(({ status }) => status !== 0) ? 1 : 0);

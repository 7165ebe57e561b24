import { spawnSync } from 'node:child_process';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { root } from '../tidy/sources.ts';

/** Runs the last script of `npm run build` in a separate checkout, with a bundler that counts its calls. */
let checkout: string;
const at = (path: string): string => join(checkout, path);
const built = 'packages/service/static/dashboard/index.html';
const inputs = [
  'packages/dashboard/src/main.tsx',
  'packages/dashboard/src/deep/er.tsx',
  'packages/dashboard/index.html',
  'packages/dashboard/vite.config.ts',
  'packages/dashboard/package.json',
  'packages/sdk/dist/client/index.js',
  'package-lock.json',
];
const vite = 'node_modules/vite/bin/vite.js';

function write(path: string, text: string): void {
  mkdirSync(dirname(at(path)), { recursive: true });
  writeFileSync(at(path), text);
}

/** Writes its arguments into the page, and the number of calls beside it. */
const bundler = `
import { appendFileSync, mkdirSync, writeFileSync } from 'node:fs';
const folder = process.argv[process.argv.indexOf('--outDir') + 1];
appendFileSync('COUNTED', 'x');
mkdirSync(folder, { recursive: true });
writeFileSync(folder + '/index.html', process.argv[2] + ' in ' + process.cwd());
`;

beforeEach(() => {
  checkout = mkdtempSync(join(tmpdir(), 'muster-build-'));
  mkdirSync(at('scripts'));
  copyFileSync(join(root, 'scripts/build-dashboard.mjs'), at('scripts/build-dashboard.mjs'));
  for (const path of inputs) {
    write(path, '{}');
    touch(path, -3_600_000);
  }
  write('node_modules/vite/package.json', '{"type":"module"}');
  write(vite, bundler.replace('COUNTED', at('counted')));
});
afterEach(() => rmSync(checkout, { recursive: true, force: true }));

function build() {
  const { status, stdout, stderr } = spawnSync(process.execPath, [at('scripts/build-dashboard.mjs')]);
  return { status, said: `${stdout}${stderr}` };
}
const quiet = { status: 0, said: '' };
/** As a build before leaves it. */
const writeBuilt = (): void => write(built, 'the previous build');
const timesBuilt = (): number => (existsSync(at('counted')) ? readFileSync(at('counted')).length : 0);
const touch = (path: string, ms: number): void => {
  const time = new Date(Date.now() + ms);
  utimesSync(at(path), time, time);
};

test('it builds a missing dashboard silently, leaves no other files, and does not build again without changes', () => {
  expect(build()).toEqual(quiet);
  expect(readFileSync(at(built), 'utf8')).toMatch(/^build in .*packages\/dashboard$/);
  expect(readdirSync(at('packages/dashboard/dist'))).toEqual([]);
  for (let round = 0; round < 2; round += 1) expect(build()).toEqual(quiet);
  expect(timesBuilt()).toBe(1);
});

test('it builds again when an input is newer or a source was deleted', () => {
  writeBuilt();
  for (const [index, path] of inputs.entries()) {
    touch(path, 1_000);
    expect(build(), path).toEqual(quiet);
    expect(timesBuilt(), path).toBe(index + 1);
    touch(path, -3_600_000);
  }
  rmSync(at('packages/dashboard/src/deep/er.tsx'));
  expect(build()).toEqual(quiet);
  expect(timesBuilt()).toBe(inputs.length + 1);
});

test('a failed build reports the error and keeps the previous build', () => {
  writeBuilt();
  touch('packages/dashboard/src/main.tsx', 1_000);
  write(vite, "process.stderr.write('no such module'); process.exit(3);");
  const { status, said } = build();
  expect(status).toBe(1);
  expect(said).toMatch(/no such module[\s\S]*\*\*\* The dashboard was not built: vite build failed \(3\)/);
  expect(readFileSync(at(built), 'utf8')).toBe('the previous build');
});

test('without vite it prints one line and keeps the previous build', () => {
  writeBuilt();
  rmSync(at('node_modules'), { recursive: true });
  expect(build()).toEqual(quiet);
  touch('packages/dashboard/src/main.tsx', 1_000);
  expect(build()).toEqual({
    status: 0,
    said: expect.stringMatching(/^The dashboard was not rebuilt: .*vite.*\n$/),
  });
  rmSync(at(dirname(built)), { recursive: true });
  expect(build()).toEqual({
    status: 0,
    said: expect.stringMatching(/^\*\*\* The dashboard was not built: vite is not installed.*\n$/),
  });
});

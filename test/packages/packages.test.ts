import { execFile } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Server, startServer } from '../support/server.ts';

/**
 * Makes the packages, installs them in an empty folder as a user does, and uses them there. `npm run test:packages` also
 * installs the optional packages, about a gigabyte, and starts the service with the PostgreSQL among them.
 */
const root = fileURLToPath(new URL('../../', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'muster-packages-'));
const made = join(folder, 'made');
const again = join(folder, 'made-again');
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const run = promisify(execFile);
const output = async (command: string, args: readonly string[], options: object = {}): Promise<string> =>
  (await run(command, args, { encoding: 'utf8', ...options })).stdout;

/** Of one folder, by name. */
const filesIn = (path: string): Readonly<Record<string, string>> =>
  Object.fromEntries(
    readdirSync(path).map((name) => [name, readFileSync(join(path, name)).toString('base64')]),
  );

const tarball = (name: string): string => {
  const found = readdirSync(made).find((file) => file.startsWith(`muster-${name}-`) && file.endsWith('.tgz'));
  if (!found) throw new Error(`no package of ${name}`);
  return join(made, found);
};
const readJson = (path: string) => JSON.parse(readFileSync(path, 'utf8'));
const version: string = readJson(join(root, 'packages/service/package.json')).version;

beforeAll(async () => {
  const script = 'exec "$0" scripts/package.mjs "$1"';
  await Promise.all([
    output('sh', ['-c', script, process.execPath, made], { cwd: root }),
    // Another person's computer.
    output('sh', ['-c', `umask 077; ${script}`, process.execPath, again], {
      cwd: root,
      env: { ...process.env, TZ: 'Asia/Tokyo', LANG: 'de_DE.UTF-8' },
    }),
  ]);
}, 600_000);

test('the same bytes are made each time', () => {
  expect(Object.keys(filesIn(made)).sort()).toEqual([
    'SHA256SUMS',
    ...['sdk', 'service'].flatMap((name) => [
      `muster-${name}-${version}.cdx.json`,
      `muster-${name}-${version}.tgz`,
    ]),
  ]);
  expect(filesIn(again)).toEqual(filesIn(made));
});

test('the checksums are right', async () => {
  const checked = await output('sha256sum', ['--check', 'SHA256SUMS'], { cwd: made });
  expect(checked.match(/: OK$/gm)).toHaveLength(4);
});

test('the tarballs are small', () => {
  expect(statSync(tarball('service')).size).toBeLessThan(3_700_000);
  expect(statSync(tarball('sdk')).size).toBeLessThan(370_000);
});

test('an SBOM lists what is inside, and optional packages with their scope', () => {
  const { bomFormat, metadata, components } = readJson(join(made, `muster-service-${version}.cdx.json`));
  expect(bomFormat).toBe('CycloneDX');
  expect(metadata.component).toMatchObject({ name: '@muster/service', version });
  const scopes = new Map(components.map((one: { name: string; scope?: string }) => [one.name, one.scope]));
  expect(scopes.get('fastify')).toBeUndefined();
  expect([...scopes.keys()]).toEqual(expect.arrayContaining(['fastify', 'pg', 'react', 'marked']));
  expect(scopes.get('@openai/codex')).toBe('optional');
  expect(readJson(join(made, `muster-sdk-${version}.cdx.json`)).components).toEqual([]);
});

interface Variant {
  readonly title: string;
  readonly options: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
}

const variants: readonly Variant[] = [
  { title: 'installed without optional packages', options: ['--omit=optional'], env: {} },
  ...(process.env.MUSTER_TEST_PACKAGES
    ? [{ title: 'installed with all packages', options: [], env: { DATABASE_URL: undefined } }]
    : []),
];

describe.each(variants)('$title', ({ title, options, env }) => {
  const home = join(folder, title.replaceAll(' ', '-'));
  const muster = join(home, 'node_modules/.bin/muster');
  let server: Server;
  let userEnv: NodeJS.ProcessEnv;
  const write = (name: string, text: string): void => writeFileSync(join(home, name), text);
  const printed = (command: string, ...args: string[]): Promise<string> =>
    output(command, args, { cwd: home, env: userEnv });

  beforeAll(async () => {
    mkdirSync(home);
    write('package.json', '{"private": true, "type": "module"}');
    const install = ['install', '--prefer-offline', '--no-audit', '--no-fund', ...options];
    await output('npm', [...install, tarball('service'), tarball('sdk')], { cwd: home });
    server = await startServer({ program: muster, env });
    userEnv = { PATH: process.env.PATH, HOME: home, MUSTER_URL: server.url, MUSTER_API_KEY: server.key };
  }, 600_000);
  afterAll(() => server?.close());

  test('the packages bring no other package that they need', () => {
    const modules = readdirSync(join(home, 'node_modules')).filter((name) => !name.startsWith('.'));
    if (options.length > 0) expect(modules).toEqual(['@muster']);
    for (const name of ['service', 'sdk'])
      expect(readJson(join(home, 'node_modules/@muster', name, 'package.json'))).not.toHaveProperty(
        'dependencies',
      );
  });

  test('licenses and documentation are inside', () => {
    const inside = join(home, 'node_modules/@muster/service');
    for (const name of ['LICENSE', 'README.md', 'docs/cli.md', 'THIRD-PARTY-LICENSES.txt'])
      expect(existsSync(join(inside, name)), name).toBe(true);
    expect(readFileSync(join(inside, 'THIRD-PARTY-LICENSES.txt'), 'utf8')).toMatch(/^fastify \d.*\(MIT\)$/m);
  });

  test('npx runs the installed program, which knows its version', async () => {
    expect((await printed('npx', '--no-install', 'muster', '--version')).trim()).toBe(version);
  });

  test('the command line spawns an agent, and the dashboard is served', async () => {
    const spawned = await printed(muster, 'spawn', '!say Hello.', '--name', 'from-cli', '--wait');
    expect(spawned).toContain('from-cli idle: Hello.');
    const page = await fetch(server.url);
    expect([page.status, await page.text()]).toEqual([200, expect.stringContaining('/assets/')]);
  });

  test('a JavaScript program uses the SDK', async () => {
    write(
      'program.js',
      `import { MusterClient } from '@muster/sdk';
       import { limits } from '@muster/sdk/contract';
       const muster = new MusterClient({ url: process.env.MUSTER_URL, apiKey: process.env.MUSTER_API_KEY });
       await muster.spawn({ path: 'from-js', description: '!say From JavaScript.' });
       const { response } = await muster.wait('from-js');
       console.log(response, typeof limits);`,
    );
    expect(await printed(process.execPath, 'program.js')).toBe('From JavaScript. object\n');
  });

  test('a TypeScript program is checked against the types of the SDK', async () => {
    const program = (description: string) =>
      `import { type AgentStatus, MusterClient } from '@muster/sdk';
       const muster = new MusterClient({ url: 'http://127.0.0.1:8420', apiKey: 'mst_a.b' });
       await muster.spawn({ path: 'from-ts', description: ${description} });
       const status: AgentStatus = await muster.wait('from-ts');
       console.log(status.phase satisfies string);\n`;
    write('program.ts', program('"Hello."'));
    write('wrong.ts', program('42'));
    const tsc = join(root, 'node_modules/.bin/tsc');
    const strict = [
      '--noEmit',
      '--strict',
      '--module',
      'nodenext',
      '--target',
      'es2023',
      '--lib',
      'es2023,dom',
    ];
    await printed(tsc, ...strict, '--types', '', 'program.ts');
    await expect(printed(tsc, ...strict, '--types', '', 'wrong.ts')).rejects.toMatchObject({
      stdout: expect.stringContaining("'number' is not assignable to type 'string"),
    });
  });

  test('the MCP server answers a client', async () => {
    const client = new Client({ name: 'test', version: '1' });
    await client.connect(
      new StdioClientTransport({
        command: muster,
        args: ['mcp'],
        env: userEnv as Record<string, string>,
        stderr: 'ignore',
      }),
    );
    const names = (await client.listTools()).tools.map(({ name }) => name);
    expect(names).toContain('spawn_agent');
    await client.close();
  });
});

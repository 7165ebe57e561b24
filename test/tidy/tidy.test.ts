import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { filesBelow, packageFiles, readSources, readText, root, type Source } from './sources.ts';

/**
 * The house rules, as tests. Each collects what breaks it and expects to find nothing, so a failure is the list of
 * places to mend.
 */
const sources = readSources();
const production = sources.filter((source) => !source.isTest);
const files = filesBelow('');

const offenders = <T>(items: readonly T[], complain: (item: T) => readonly string[]): string[] =>
  items.flatMap(complain).sort();

describe('who may import whom', () => {
  /** The doors. Every room may import itself; `cli` composes, so it may import all of them. */
  const doors: Readonly<Record<string, readonly string[]>> = {
    contract: [],
    client: ['contract'],
    lib: ['contract'],
    domain: ['contract', 'lib'],
    store: ['domain', 'contract', 'lib'],
    control: ['domain', 'store', 'contract', 'lib'],
    http: ['contract', 'control', 'lib'],
    harness: ['contract', 'lib'],
    runner: ['client', 'contract', 'harness', 'lib'],
    cli: ['client', 'contract', 'control', 'domain', 'harness', 'http', 'lib', 'runner', 'store'],
    dashboard: ['client', 'contract'],
  };

  test('every file stands in a room that the rules know', () => {
    expect(offenders(sources, ({ path, room }) => (room in doors ? [] : [path]))).toEqual([]);
  });

  test('a room imports only the rooms it has a door to', () => {
    const wrong = offenders(production, ({ path, room, imports }) =>
      imports
        .filter((i) => i.room !== null && i.room !== room && !doors[room]?.includes(i.room))
        .map((i) => `${path} (${room}) imports ${i.specifier} (${i.room})`),
    );
    expect(wrong).toEqual([]);
  });

  test('the contract and the client import nothing from outside', () => {
    const wrong = offenders(production, ({ path, room, imports }) =>
      room === 'contract' || room === 'client'
        ? imports.filter((i) => i.room === null).map((i) => `${path} imports ${i.specifier}`)
        : [],
    );
    expect(wrong).toEqual([]);
  });

  test('no files import each other in a circle', () => {
    expect(circles(production)).toEqual([]);
  });

  test('production code never imports a test, nor a tool of tests', () => {
    const isOfTests = (specifier: string) =>
      /\.test(\.[jt]sx?)?$|(^|\/)test\//.test(specifier) || /^(vitest|fast-check)(\/|$)/.test(specifier);
    const wrong = offenders(production, ({ path, imports }) =>
      imports.filter((i) => isOfTests(i.file ?? i.specifier)).map((i) => `${path} imports ${i.specifier}`),
    );
    expect(wrong).toEqual([]);
  });

  test('only http imports fastify', () => {
    expect(importersOf(/^@?fastify(\/|$)/, ['http'])).toEqual([]);
  });

  test('only store and control import the database driver, and cli, which hands it over', () => {
    expect(importersOf(/^pg(\/|$)/, ['store', 'control', 'cli'])).toEqual([]);
  });
});

const importersOf = (specifier: RegExp, rooms: readonly string[]): string[] =>
  offenders(production, ({ path, room, imports }) =>
    rooms.includes(room)
      ? []
      : imports.filter((i) => specifier.test(i.specifier)).map((i) => `${path} imports ${i.specifier}`),
  );

/** Groups of files from each of which every other can be reached; one line per group. */
function circles(all: readonly Source[]): string[] {
  const imports = new Map(all.map(({ path, imports: to }) => [path, to.flatMap((i) => i.file ?? [])]));
  const reached = new Map<string, Set<string>>();
  for (const path of imports.keys()) {
    const seen = new Set<string>();
    const waiting = [...(imports.get(path) ?? [])];
    for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
      if (seen.has(next)) continue;
      seen.add(next);
      waiting.push(...(imports.get(next) ?? []));
    }
    reached.set(path, seen);
  }
  const groups = [...imports.keys()]
    .filter((path) => reached.get(path)?.has(path))
    .map((path) => [...imports.keys()].filter((p) => reached.get(path)?.has(p) && reached.get(p)?.has(path)));
  return [...new Set(groups.map((group) => group.sort().join(' ↔ ')))].sort();
}

describe('how a file looks', () => {
  const naming = (pattern: RegExp): string[] =>
    offenders(sources, ({ path, code }) =>
      [...code.matchAll(pattern)].map(({ index }) => `${path}:${code.slice(0, index).split('\n').length}`),
    );

  test('no file has a default export', () => {
    expect(naming(/\bexport\s+default\b|\bas\s+default\b/g)).toEqual([]);
  });

  test('no type is any', () => {
    expect(naming(/(?<![.\w$])any(?![\w$])(?!\s*\??\s*:)/g)).toEqual([]);
  });

  test('there is no enum', () => {
    expect(naming(/\benum\s+[A-Za-z_$]/g)).toEqual([]);
  });

  test('no file is named for a bucket: utils, helpers, manager, types', () => {
    const bucket = /^(utils?|helpers?|managers?|types)$/;
    const named = files.filter((path) => path.startsWith('packages/') || path.startsWith('test/'));
    expect(
      offenders(named, (path) => (bucket.test(basename(path).replace(/\..*$/, '')) ? [path] : [])),
    ).toEqual([]);
  });

  test('no file of the packages is longer than 450 lines', () => {
    expect(
      offenders(production, ({ path, lines }) => (lines > 450 ? [`${path} has ${lines} lines`] : [])),
    ).toEqual([]);
  });
});

describe('how tests wait', () => {
  test('with `eventually`: vi.waitFor has a timeout of one second', () => {
    const tests = files.filter((path) => /^(packages|test)\/.*\.tsx?$/.test(path));
    const impatient = ['vi', 'waitFor('].join('.');
    const wrong = offenders(tests, (path) => (readText(path).includes(impatient) ? [path] : []));
    expect(wrong).toEqual([]);
  });
});

describe('where SQL is', () => {
  const sql =
    /\b(SELECT|INSERT\s+INTO|UPDATE\s+\S+\s+SET|DELETE\s+FROM|(CREATE|ALTER|DROP|TRUNCATE)\s+[A-Z]+|BEGIN|START\s+TRANSACTION|COMMIT|ROLLBACK|LISTEN|NOTIFY|SAVEPOINT|LOCK\s+TABLE)\b/;

  /** What control may say to the database itself, word for word. */
  const spokenByControl: Readonly<Record<string, readonly string[]>> = {
    'packages/service/src/control/bootstrap.ts': [
      'SELECT pg_advisory_lock($1)',
      'SELECT pg_advisory_unlock($1)',
    ],
    'packages/service/src/control/catalog/catalog.ts': ['BEGIN', 'COMMIT', 'ROLLBACK'],
    'packages/service/src/control/notifications.ts': ["SELECT pg_notify('…', $1)", 'LISTEN …'],
  };

  test('SQL is in store alone; control says only when a transaction, a lock or a channel begins and ends', () => {
    const wrong = offenders(production, ({ path, room, texts }) =>
      room === 'store'
        ? []
        : texts
            .filter((text) => sql.test(text) && !spokenByControl[path]?.includes(text))
            .map((text) => `${path}: ${text.slice(0, 80)}`),
    );
    expect(wrong).toEqual([]);
  });

  test('what control is allowed to say, it still says', () => {
    const unused = Object.entries(spokenByControl).flatMap(([path, allowed]) => {
      const texts = production.find((source) => source.path === path)?.texts ?? [];
      return allowed.filter((text) => !texts.includes(text)).map((text) => `${path}: ${text}`);
    });
    expect(unused).toEqual([]);
  });

  test('only control opens a transaction, and the places of store that do it for it or for all of it', () => {
    const openers = [
      'packages/service/src/store/postgres-agent-store.ts',
      'packages/service/src/store/migrate.ts',
      'packages/service/src/store/archive/export-store.ts',
      'packages/service/src/store/archive/import-store.ts',
    ];
    const wrong = offenders(production, ({ path, room, texts }) =>
      room === 'control' || openers.includes(path)
        ? []
        : texts.filter((text) => /^\s*(BEGIN|START\s+TRANSACTION)\b/.test(text)).map(() => path),
    );
    expect(wrong).toEqual([]);
  });
});

describe('the project stands on its own', () => {
  const searched = files.filter((path) => !/\.(png|jpg|ico|woff2?)$/.test(path));
  const holding = (words: readonly string[]): string[] =>
    offenders(searched, (path) => {
      const text = readText(path);
      return words.filter((word) => text.includes(word)).map((word) => `${path} holds ${word}`);
    });

  test('no file leads out of the repository', () => {
    expect(holding([['..', 'shared'].join('/')])).toEqual([]);
  });

  test('no file names the host of a package registry', () => {
    const hosts = [
      ['registry', 'npmjs'],
      ['registry', 'yarnpkg'],
      ['npm', 'pkg', 'github'],
      ['registry', 'npmmirror'],
    ];
    expect(holding(hosts.map((host) => `${host.join('.')}.`))).toEqual([]);
  });

  test('the lock file says nothing about where packages came from', () => {
    expect(
      [...readText('package-lock.json').matchAll(/"resolved": "http[^"]*"/g)].map(([line]) => line),
    ).toEqual([]);
  });
});

describe('the pages', () => {
  const pages = files.filter((path) => path.endsWith('.md'));

  test('every dependency has its line in docs/dependencies.md, and every line its dependency', () => {
    const page = readText('docs/dependencies.md');
    const listed = [...page.matchAll(/^\| `([^`]+)` \|/gm)].map(([, name]) => name);
    const used = packageFiles().flatMap((path) => {
      const { dependencies, devDependencies, optionalDependencies, peerDependencies } = JSON.parse(
        readText(path),
      );
      return Object.keys({
        ...dependencies,
        ...devDependencies,
        ...optionalDependencies,
        ...peerDependencies,
      });
    });
    expect([...new Set(listed)].sort()).toEqual([...new Set(used)].sort());
  });

  test('the generated pages are what their tables say', () => {
    expect(() =>
      execFileSync(process.execPath, ['scripts/generate-docs.mjs', '--check'], { cwd: root, stdio: 'pipe' }),
    ).not.toThrow();
  });

  test('every link of a page leads to a file', () => {
    const broken = offenders(pages, (page) =>
      [...readText(page).matchAll(/\]\((?!https?:|mailto:|#)([^)#\s]+)[^)]*\)/g)]
        .map(([, target = '']) => target)
        .filter((target) => !existsSync(join(root, dirname(page), target)))
        .map((target) => `${page} → ${target}`),
    );
    expect(broken).toEqual([]);
  });

  test('every guarantee has a number of its own', () => {
    const numbers = [...readText('GUARANTEES.md').matchAll(/^\| (\d+) \| \*\*/gm)].map(
      ([, number]) => number,
    );
    expect(numbers.length).toBeGreaterThan(50);
    expect(numbers.filter((number, i) => numbers.indexOf(number) !== i)).toEqual([]);
  });

  test('the README is at most 250 lines long', () => {
    expect(readText('README.md').split('\n').length - 1).toBeLessThanOrEqual(250);
  });
});

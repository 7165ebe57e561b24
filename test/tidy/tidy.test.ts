import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import { describe, expect, test } from 'vitest';
import { filesBelow, linesIn, packageFiles, readSources, readText, root, type Source } from './sources.ts';

/** The rules of this codebase. Each test expects an empty list of offenders, so a failure lists what to fix. */
const sources = readSources();
const production = sources.filter((source) => !source.isTest);
const files = filesBelow('');

const offenders = <T>(items: readonly T[], problemsOf: (item: T) => readonly string[]): string[] =>
  items.flatMap(problemsOf).sort();

describe('allowed imports', () => {
  /** Every module may import itself; `cli` starts everything, so it may import all of them. */
  const allowed: Readonly<Record<string, readonly string[]>> = {
    contract: [],
    client: ['contract'],
    transcript: ['client', 'contract'],
    lib: ['contract'],
    domain: ['contract', 'lib'],
    store: ['domain', 'contract', 'lib'],
    control: ['domain', 'store', 'contract', 'lib'],
    work: ['store', 'contract', 'lib'],
    deliveries: ['work', 'control', 'domain', 'store', 'contract', 'lib'],
    trigger: ['deliveries', 'work', 'control', 'domain', 'store', 'contract', 'lib'],
    codehost: ['deliveries', 'work', 'control', 'domain', 'store', 'contract', 'lib'],
    notify: ['work', 'control', 'domain', 'store', 'contract', 'lib'],
    'sign-in': ['work', 'control', 'domain', 'store', 'contract', 'lib'],
    http: [
      ...['codehost', 'deliveries', 'notify', 'sign-in', 'trigger'],
      ...['transcript', 'contract', 'control', 'lib'],
    ],
    harness: ['contract', 'lib'],
    runner: ['client', 'contract', 'harness', 'lib'],
    cli: [
      ...['client', 'codehost', 'contract', 'control', 'domain', 'harness', 'http', 'lib', 'runner', 'store'],
      ...['deliveries', 'notify', 'sign-in', 'transcript', 'trigger', 'work'],
    ],
    dashboard: ['client', 'contract', 'transcript'],
  };

  test('every file is in a known module', () => {
    expect(offenders(sources, ({ path, module }) => (module in allowed ? [] : [path]))).toEqual([]);
  });

  test('a module imports only the modules it may import', () => {
    const wrong = offenders(production, ({ path, module, imports }) =>
      imports
        .filter((i) => i.module !== null && i.module !== module && !allowed[module]?.includes(i.module))
        .map((i) => `${path} (${module}) imports ${i.specifier} (${i.module})`),
    );
    expect(wrong).toEqual([]);
  });

  test('the sdk imports no package', () => {
    const wrong = offenders(production, ({ path, module, imports }) =>
      ['contract', 'client', 'transcript'].includes(module)
        ? imports.filter((i) => i.module === null).map((i) => `${path} imports ${i.specifier}`)
        : [],
    );
    expect(wrong).toEqual([]);
  });

  test('no files import each other in a circle', () => {
    expect(circles(production)).toEqual([]);
  });

  test('production code imports neither tests nor test tools', () => {
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

  test('only these modules import the database driver', () => {
    const modules = [
      'store',
      'control',
      'work',
      'deliveries',
      'trigger',
      'codehost',
      'notify',
      'sign-in',
      'cli',
    ];
    expect(importersOf(/^pg(\/|$)/, modules)).toEqual([]);
  });
});

test('ARCHITECTURE.md says of every file of runner and harness that uses the file system why it is safe', () => {
  const [, table = ''] = readText('ARCHITECTURE.md').split('### File access of the runner\n');
  const rows =
    table
      .split('\n### ')[0]
      ?.split('\n')
      .filter((line) => line.startsWith('| `')) ?? [];
  const listed = rows.flatMap((row) =>
    [...(row.split(' | ')[0] ?? '').matchAll(/`([^`]+)`/g)].map(([, path]) => path),
  );
  const agentSide = production.filter(({ module }) => ['runner', 'harness'].includes(module));
  const imported = new Set(agentSide.flatMap(({ imports }) => imports.map(({ file }) => file)));
  const isUsed = ({ path }: Source) =>
    /^(?!import type )(?:import|\}|.*\bimport\().*'(?:node:)?(?:fs(?:\/promises)?|child_process)'/m.test(
      readText(path),
    );
  const shared = production.filter(({ module, path }) => module === 'lib' && imported.has(path));
  const used = [...agentSide, ...shared].filter(isUsed);
  const names = used.map(({ path }) => path.replace('packages/service/src/', ''));
  expect(listed.sort()).toEqual(names.sort());
});

const importersOf = (specifier: RegExp, modules: readonly string[]): string[] =>
  offenders(production, ({ path, module, imports }) =>
    modules.includes(module)
      ? []
      : imports.filter((i) => specifier.test(i.specifier)).map((i) => `${path} imports ${i.specifier}`),
  );

/** Groups of files that import each other, directly or not; one line per group. */
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

describe('source files', () => {
  const places = (key: 'defaultExports' | 'anyTypes' | 'enums'): string[] =>
    offenders(sources, (source) => source[key].map((line) => `${source.path}:${line}`));

  test('have no default export', () => {
    expect(places('defaultExports')).toEqual([]);
  });

  test('have no type any', () => {
    expect(places('anyTypes')).toEqual([]);
  });

  test('have no enum', () => {
    expect(places('enums')).toEqual([]);
  });

  test('are not called utils, helpers, manager or types', () => {
    const bucket = /^(utils?|helpers?|managers?|types)$/;
    const named = files.filter((path) => path.startsWith('packages/') || path.startsWith('test/'));
    expect(
      offenders(named, (path) => (bucket.test(basename(path).replace(/\..*$/, '')) ? [path] : [])),
    ).toEqual([]);
  });

  test('have at most 450 lines, tests and style sheets too', () => {
    const written = files.filter((path) => /^(packages|test|scripts)\/.*\.(tsx?|mjs|css)$/.test(path));
    const tooLong = offenders(written, (path) => {
      const lines = linesIn(readText(path));
      return lines > 450 ? [`${path} has ${lines} lines`] : [];
    });
    expect(tooLong).toEqual([]);
  });
});

test('an operation is an entry of two tables of the contract and nothing else, as CONTRIBUTING.md says', () => {
  const contract = production.filter(({ module }) => module === 'contract').map(({ path }) => path);
  const paths = contract.filter((path) => path.endsWith('/contract/paths.ts'));
  // The names of the others are also names of fields.
  const names = [...readText(paths[0] ?? '').matchAll(/^ {2}([a-z]+[A-Z]\w+): (?:get|post|del)\(/gm)];
  expect(names.length).toBeGreaterThan(40);
  const wrong = offenders(names, ([, name]) => {
    const written = contract.filter((path) => new RegExp(`^ +${name}: `, 'm').test(readText(path)));
    const [chapter, ...more] = written.filter((path) => !paths.includes(path));
    return chapter?.includes('/operations/') && more.length === 0 ? [] : [`${name}: ${written.join(', ')}`];
  });
  expect(wrong).toEqual([]);
});

test('functions have at most 60 lines', () => {
  const long = offenders(production, ({ path, functions }) =>
    functions.filter(({ lines }) => lines > 60).map(({ name, lines }) => `${path} ${name}: ${lines} lines`),
  );
  expect(long).toEqual([]);
});

describe('tests', () => {
  test('wait with `eventually`, because vi.waitFor has a timeout of one second', () => {
    const tests = files.filter((path) => /^(packages|test)\/.*\.tsx?$/.test(path));
    const waitFor = ['vi', 'waitFor('].join('.');
    const wrong = offenders(tests, (path) => (readText(path).includes(waitFor) ? [path] : []));
    expect(wrong).toEqual([]);
  });
});

describe('SQL', () => {
  const sql =
    /\b(SELECT|INSERT\s+INTO|UPDATE\s+\S+\s+SET|DELETE\s+FROM|(CREATE|ALTER|DROP|TRUNCATE)\s+[A-Z]+|BEGIN|START\s+TRANSACTION|COMMIT|ROLLBACK|LISTEN|NOTIFY|SAVEPOINT|LOCK\s+TABLE)\b/;

  /** The statements that control may send itself. */
  const allowedInControl: Readonly<Record<string, readonly string[]>> = {
    'packages/service/src/control/access/bootstrap.ts': ['SELECT pg_advisory_xact_lock($1)', 'COMMIT'],
    'packages/service/src/control/catalog/write-resources.ts': ['COMMIT', 'ROLLBACK'],
    'packages/service/src/control/agents/delete-agent.ts': ['COMMIT', 'ROLLBACK'],
    'packages/service/src/control/upkeep/usage-upkeep.ts': ['COMMIT'],
    'packages/service/src/control/watching/node-bus.ts': ['LISTEN …', 'SELECT'],
  };

  test('is only in store; control only starts and ends transactions, locks and channels', () => {
    const wrong = offenders(production, ({ path, module, texts }) =>
      module === 'store'
        ? []
        : texts
            .filter((text) => sql.test(text) && !allowedInControl[path]?.includes(text))
            .map((text) => `${path}: ${text.slice(0, 80)}`),
    );
    expect(wrong).toEqual([]);
  });

  test('that control may send is still sent', () => {
    const unused = Object.entries(allowedInControl).flatMap(([path, allowed]) => {
      const texts = production.find((source) => source.path === path)?.texts ?? [];
      return allowed.filter((text) => !texts.includes(text)).map((text) => `${path}: ${text}`);
    });
    expect(unused).toEqual([]);
  });

  test('transactions start only in control and in these files of store', () => {
    const openers = [
      'packages/service/src/store/connection.ts',
      'packages/service/src/store/apply-migration.ts',
      'packages/service/src/store/archive/archive-format.ts',
    ];
    const wrong = offenders(production, ({ path, module, texts }) =>
      module === 'control' || openers.includes(path)
        ? []
        : texts.filter((text) => /^\s*(BEGIN|START\s+TRANSACTION)\b/.test(text)).map(() => path),
    );
    expect(wrong).toEqual([]);
  });

  test('of every migration after the first says which builds still work', () => {
    const migrations = files.filter((path) => /^packages\/service\/migrations\/(?!0001-)/.test(path));
    const silent = offenders(migrations, (path) =>
      /^(--.*\n)*-- compatible since: \d+\n/.test(readText(path)) ? [] : [path],
    );
    expect(silent).toEqual([]);
  });

  test('lists columns: during an upgrade, the table may have one that this build does not know', () => {
    /** It selects all columns of a subquery, which lists them. */
    const allowed = ['packages/service/src/store/statements/shared-sql.ts'];
    const wholeRows = [
      /\bSELECT\s+(DISTINCT\s+)?\*/,
      /\bRETURNING\s+\*/,
      /\w\.\*/,
      /\bINSERT\s+INTO\s+\S+\s+(SELECT|VALUES)\b/,
      /\bjsonb?_populate_record/,
      /\brow_to_json\(\w+\)\)*(\s+AS\s+\w+)?\s+FROM\s+(?!\()/,
    ];
    const wrong = offenders(production, ({ path, module, texts }) =>
      module !== 'store' || allowed.includes(path)
        ? []
        : texts
            .flatMap((text) => wholeRows.flatMap((rows) => rows.exec(text)?.[0] ?? []))
            .map((found) => `${path}: ${found}`),
    );
    expect(wrong).toEqual([]);
  });
});

describe('the repository', () => {
  const searched = files.filter((path) => !/\.(png|jpg|ico|woff2?)$/.test(path));
  const filesWith = (words: readonly string[]): string[] =>
    offenders(searched, (path) => {
      const text = readText(path);
      return words.filter((word) => text.includes(word)).map((word) => `${path} contains ${word}`);
    });

  test('has no path that leaves it', () => {
    expect(filesWith([['..', 'shared'].join('/')])).toEqual([]);
  });

  test('does not name the host of a package registry', () => {
    const hosts = [
      ['registry', 'npmjs'],
      ['registry', 'yarnpkg'],
      ['npm', 'pkg', 'github'],
      ['registry', 'npmmirror'],
    ];
    expect(filesWith(hosts.map((host) => `${host.join('.')}.`))).toEqual([]);
  });

  test('has a lock file without the URLs of packages', () => {
    expect(
      [...readText('package-lock.json').matchAll(/"resolved": "http[^"]*"/g)].map(([line]) => line),
    ).toEqual([]);
  });
});

/** Words that users stumbled over, and what to write instead. */
const bannedWords: readonly (readonly [word: RegExp, instead: string])[] = [
  [/\bstands?\b|\bstanding\b/i, 'is, status'],
  [/\brests\b|\bat rest\b|\bto rest\b/i, 'idle'],
  [/\basks you\b/i, 'needs input'],
  [/\basleep\b|\bsleeps\b/i, 'idle, scheduled'],
  [/\bmend(s|ed|ing)?\b/i, 'fix'],
  [/\banew\b/i, 'again'],
  [/\bwhoever\b/i, 'anyone who'],
  [/\bat once\b/i, 'immediately, at the same time'],
  [/\bof (its|his|her|their|your|our) own(?= *([.,;:)|]|$))/im, 'its own …'],
  [/\bmoving house\b/i, 'failover'],
  [/\brules of the house\b|\bhouse rules\b/i, 'rules'],
  [/\*\*Addition/, 'leave it out'],
  [/\bmade up\b/i, 'generated'],
  [/\bis away\b/i, 'is unavailable'],
  [/\bheld up\b/i, 'waiting'],
  [/\b(is|are|was|were|be|been)( not| never)? told\b/i, 'gets a message, is sent'],
  [/\b(is|are|be)( not| never)? heard\b/i, 'counts, is authorized'],
  [/\bhas got\b/i, 'has, has received'],
  [/\bnobody that\b/i, 'no …'],
  [/\b(so many|so often|for so long)\b(?! (that|as)\b)/i, 'this number of, for this time'],
  [/\bin vain\b/i, 'without success'],
];

test('texts, comments and pages have no banned words', () => {
  const pages = files.filter((path) => path.endsWith('.md'));
  const problemsIn = (path: string, texts: readonly string[]): string[] =>
    texts.flatMap((text) =>
      bannedWords
        .filter(([word]) => word.test(text))
        .map(([word, instead]) => `${path}: "${word.exec(text)?.[0]}" (write: ${instead})`),
    );
  const inPages = offenders(pages, (path) => problemsIn(path, readText(path).split('\n')));
  const inSources = offenders(production, ({ path, texts, comments }) =>
    problemsIn(path, [...texts, ...comments]),
  );
  expect([...inPages, ...inSources]).toEqual([]);
});

describe('documentation', () => {
  const pages = files.filter((path) => path.endsWith('.md'));

  test('lists every dependency in docs/dependencies.md, and no others', () => {
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

  test('has generated pages that are up to date', () => {
    expect(() =>
      execFileSync(process.execPath, ['scripts/generate-docs.mjs', '--check'], { cwd: root, stdio: 'pipe' }),
    ).not.toThrow();
  });

  /** The anchors of a page, as GitHub makes them from its headings. */
  const anchorsOf = (page: string): Set<string> =>
    new Set(
      [...readText(page).matchAll(/^#{1,6} (.+)$/gm)].map(([, heading = '']) =>
        heading
          .toLowerCase()
          .replace(/[^\p{L}\p{N}_\- ]/gu, '')
          .replaceAll(' ', '-'),
      ),
    );

  test('has no broken links', () => {
    const broken = offenders(pages, (page) =>
      [...readText(page).matchAll(/\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]+))?\)/g)]
        .filter(([, target = '', anchor]) => {
          const path = target === '' ? page : relative(root, join(root, dirname(page), target));
          if (!existsSync(join(root, path))) return true;
          return anchor !== undefined && path.endsWith('.md') && !anchorsOf(path).has(anchor);
        })
        .map(([link]) => `${page} ${link}`),
    );
    expect(broken).toEqual([]);
  });

  test('names only source files that exist', () => {
    const named = [
      'ARCHITECTURE.md',
      'CONTRIBUTING.md',
      'GUARANTEES.md',
      ...pages.filter((page) => page.startsWith('docs/adr/')),
    ];
    const missing = offenders(named, (page) =>
      [...readText(page).matchAll(/`([\w./-]+\.(?:tsx?|[cm]js))`/g)]
        .map(([, path = '']) => path)
        .filter((path) => !files.some((file) => file === path || file.endsWith(`/${path}`)))
        .map((path) => `${page}: ${path}`),
    );
    expect(missing).toEqual([]);
  });

  test('has a different number for every guarantee', () => {
    const numbers = [...readText('GUARANTEES.md').matchAll(/^\| (\d+) \| \*\*/gm)].map(
      ([, number]) => number,
    );
    expect(numbers.length).toBeGreaterThan(50);
    expect(numbers.filter((number, i) => numbers.indexOf(number) !== i)).toEqual([]);
  });

  test('has a README of at most 250 lines', () => {
    expect(readText('README.md').split('\n').length - 1).toBeLessThanOrEqual(250);
  });
});

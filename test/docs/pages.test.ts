import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { providerKeys } from '../agents/fleet.ts';
import { type ProviderStub, startProviderStub } from '../provider/stub.ts';
import { makeGitRemote } from '../support/git-remote.ts';
import { sandbox } from '../support/sandbox.ts';
import { type Block, blocksOf, firstLine, root, titleOf } from './blocks.ts';
import { difference, jsonValuesIn, missingLines, shownJson } from './likeness.ts';
import { PageSession } from './page-session.ts';

/**
 * Every code block of the pages, as written and in order: shell blocks are typed into bash; what is shown behind them,
 * JSON or lines, is compared with what they printed. A block that is not run has its reason here, so that a new one
 * can't slip through. docs/interface.md and packages/sdk/README.md have tests of their own.
 */
interface Rules {
  /** Not typed, by their first line, and why. */
  readonly notRun?: Readonly<Record<string, string>>;
  /** Not typed: they start the service, which the test does in their place. What is shown next, the service said. */
  readonly starts?: Readonly<Record<string, () => Promise<PageSession>>>;
  /** Commands that are meant to end with another code than 0, by the first line of their block. */
  readonly exits?: Readonly<Record<string, readonly string[]>>;
}

const whenContributing = 'installs, builds, tests or measures the checkout that this test is a part of';

const rules: Readonly<Record<string, Rules>> = {
  'README.md': {
    notRun: { 'npm ci                 # install exactly what the lock file says': whenContributing },
    starts: {
      'npm install': () => PageSession.start(),
      'sudo apt-get install bubblewrap git': withModel,
    },
    exits: {
      'npx muster spawn --name hello --task "Greet the reader" --wait \'!write greeting.txt Good morning': [
        'exit 12: npx muster spawn --name hello --task "Greet the reader" --wait \'!write greeting.txt Good morning',
      ],
    },
  },
  'CONTRIBUTING.md': {
    notRun: { 'npm ci                 # install what the lock file says; also builds': whenContributing },
  },
  'docs/cli.md': {},
  'docs/errors.md': {
    notRun: {
      '{"code": 5, "message": "the agent nobody does not exist", "details": []}':
        'the form of every error; test/conformance/7-errors.test.ts compares them',
    },
  },
  'docs/operations.md': {
    notRun: {
      '  sandbox   Agents run in a sandbox (/usr/bin/bwrap).': 'one of the two, depending on the machine',
      'export MUSTER_URL=https://muster.example.com MUSTER_API_KEY=mst_… ANTHROPIC_API_KEY=…':
        'needs keys, and runs until it is stopped; test/agents starts runners in this way',
      'The runner builder-1 serves https://muster.example.com': 'what the block above prints',
      '{': "a file of prices; the runner's own tests read such files",
      '[Unit]': 'a unit of systemd',
      'muster status fix-login        # unpushed  2 commits, 3 changed files; saved 4m ago':
        'needs an agent with unpushed work, and a clone; test/cli/work.test.ts does the same',
      'muster export -f muster.gz                                            # where the service runs; -f - pipes it':
        'needs a PostgreSQL of your own, and ends with a service that runs; test/archive does the same',
    },
  },
};

/** What stands behind the page's real agent: a model that does what the page says, and the repository. */
let stub: ProviderStub | undefined;
const repositories = mkdtempSync(join(tmpdir(), 'muster-repositories-'));
afterAll(() => rmSync(repositories, { recursive: true, force: true }));

async function withModel(): Promise<PageSession> {
  stub = await startProviderStub();
  const marker = stub.script([
    { shell: "sed -i 's/teh/the/' README.md && git commit -qam 'Fix a typo' && git push -q" },
    { say: 'I fixed one typo in README.md and pushed it.' },
  ]);
  const remote = makeGitRemote(repositories, 'your-repository');
  remote.commit('main', { 'README.md': 'This is teh demo.\n' });
  return PageSession.start(
    { ANTHROPIC_API_KEY: providerKeys.anthropic, ANTHROPIC_BASE_URL: stub.anthropicUrl },
    [
      ['git@github.com:you/your-repository.git', remote.url],
      ['Commit and push your work.', `Commit and push your work. ${marker}`],
    ],
  );
}

test('every page with code in it is known here', () => {
  const pages = [
    ...readdirSync(root).filter((name) => name.endsWith('.md')),
    ...readdirSync(`${root}docs`).flatMap((name) => (name.endsWith('.md') ? [`docs/${name}`] : [])),
  ];
  const withCode = pages.filter((page) => blocksOf(page).some(({ language }) => language !== ''));
  expect(withCode.sort()).toEqual([...Object.keys(rules), 'docs/interface.md'].sort());
});

describe.each(Object.entries(rules))('%s', (page, { notRun = {}, starts = {}, exits = {} }) => {
  const blocks = blocksOf(page);
  let session: PageSession;

  beforeAll(async () => {
    if (Object.keys(starts).length === 0 && blocks.some(isTyped)) session = await PageSession.start();
  });
  afterAll(async () => {
    await session?.close();
    await stub?.close();
    stub = undefined;
  });

  const isTyped = (block: Block): boolean => block.language === 'sh' && !(firstLine(block) in notRun);

  test('what is not run, or ends in its own way, is there', () => {
    const known = [notRun, starts, exits].flatMap((one) => Object.keys(one));
    expect(known.filter((line) => !blocks.some((block) => firstLine(block) === line))).toEqual([]);
  });

  for (const block of blocks.filter((one) => !(firstLine(one) in notRun))) {
    const start = starts[firstLine(block)];
    test(titleOf(block), async () => {
      if (start) {
        await session?.close();
        session = await start();
      } else {
        await check(session, block, exits[firstLine(block)] ?? []);
      }
    });
  }
});

async function check(session: PageSession, block: Block, exits: readonly string[]): Promise<void> {
  switch (block.language) {
    case 'sh': {
      const { printed, failures } = await session.types(block.code);
      expect({ failures, printed }).toEqual({ failures: exits, printed });
      expect(jsonValuesIn(printed).filter(isError)).toEqual([]);
      return;
    }
    case 'json': {
      const shown = shownJson(block.code);
      const values = jsonValuesIn(session.printed).slice(-shown.length);
      expect(shown.map((one, at) => difference(one, values[at]))).toEqual(shown.map(() => undefined));
      return;
    }
    case '': {
      const lines = block.code.split('\n').filter((line) => sandbox || !line.startsWith('  sandbox '));
      const shown = session.here(lines.join('\n'));
      await expect.poll(() => missingLines(shown, session.printed)).toEqual([]);
      return;
    }
    default:
      throw new Error(`${block.page}:${block.line}: nobody knows how to run ${block.language}; say why not`);
  }
}

const isError = (value: unknown): boolean =>
  typeof value === 'object' && value !== null && 'code' in value && 'message' in value && 'details' in value;

import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { providerKeys } from '../agents/test-service.ts';
import { type ProviderStub, startProviderStub } from '../provider/stub.ts';
import { makeGitRemote } from '../support/git-remote.ts';
import { sandbox } from '../support/sandbox.ts';
import { type Block, blocksOf, firstLine, root, titleOf } from './code-blocks.ts';
import { difference, jsonValuesIn, missingLines, shownJson } from './compare-output.ts';
import { PageSession } from './page-shell.ts';

/**
 * Runs every code block of the pages in order: shell blocks in bash; the JSON or lines shown after them are compared
 * with the output. A block that is not run is listed here with the reason. docs/interface.md and
 * packages/sdk/README.md have separate tests.
 */
interface Rules {
  /** Blocks that are not run, by their first line, and why. */
  readonly notRun?: Readonly<Record<string, string>>;
  /** Blocks that start the service; the test starts it instead. The block after it shows the service's output. */
  readonly starts?: Readonly<Record<string, () => Promise<PageSession>>>;
  /** Commands with an expected exit code other than 0, by the first line of their block. */
  readonly exits?: Readonly<Record<string, readonly string[]>>;
}

const whenContributing = 'installs, builds, tests or measures the checkout that this test is a part of';

const needsContainers = 'builds or runs images, as `npm run test:deploy` does';
const needsSystemd = 'needs a machine with systemd; test/deploy checks the units and what they start';

const rules: Readonly<Record<string, Rules>> = {
  'README.md': {
    notRun: {
      'npm test               # every suite, offline; installs and builds what is missing': whenContributing,
    },
    starts: {
      'npm start': startCommon,
      'sudo apt-get install bubblewrap git': withModel,
    },
    exits: {
      'npx muster spawn --name hello --task "Greet the reader" --wait \'!write greeting.txt Good morning': [
        'exit 12: npx muster spawn --name hello --task "Greet the reader" --wait \'!write greeting.txt Good morning',
      ],
    },
  },
  'CONTRIBUTING.md': {
    notRun: {
      'npm start              # install and build what is missing, and run; data in ./.muster':
        whenContributing,
      '-- Why this is needed.':
        'the header of a migration; packages/service/src/store reads such headers in tests',
      'git worktree add ../before v0.1.0 && (cd ../before && npm ci)': whenContributing,
    },
  },
  'docs/cli.md': {},
  'docs/code-hosts.md': {
    notRun: {
      'muster secret set github-token':
        'asks for the value in a terminal; test/cli/catalog.test.ts does the same',
      'muster integration test github': 'needs a code host; test/cli/code-hosts.test.ts does the same',
      'account  acme-muster': 'the output of the block above',
    },
  },
  'docs/deploy.md': {
    notRun: {
      'cp deploy/systemd/*.service /etc/systemd/system/': needsSystemd,
      'export MUSTER_URL=http://127.0.0.1:8420 MUSTER_API_KEY=$(cat /var/lib/muster/admin.key)': needsSystemd,
      '[Service]': 'a drop-in of a unit',
      'npm run images': needsContainers,
      'cd deploy && mkdir -m 700 secrets && cd secrets': needsContainers,
      'export MUSTER_URL=https://localhost:8443 MUSTER_API_KEY=$(cat secrets/bootstrap-key) NODE_EXTRA_CA_CERTS=$PWD/secrets/cert.pem':
        needsContainers,
      'podman run -d --name muster --read-only --tmpfs /tmp --cap-drop ALL --security-opt no-new-privileges \\':
        needsContainers,
      'podman run -d --name runner --read-only --tmpfs /tmp --cap-drop ALL --security-opt no-new-privileges \\':
        needsContainers,
      'kubectl create secret generic muster --from-file=database-url --from-file=secret --from-file=bootstrap-key':
        'needs a cluster',
      'kubectl kustomize deploy/kubernetes/overlays/single | podman kube play -': needsContainers,
    },
  },
  'docs/errors.md': {
    notRun: {
      '{"code": 5, "message": "the agent nobody does not exist", "details": []}':
        'the format of every error; test/conformance checks it',
    },
  },
  'docs/schedules.md': {},
  'docs/sign-in.md': { notRun: { 'accounts:': 'a part of a document; test/sign-in has whole ones' } },
  'docs/triggers.md': {
    notRun: {
      'muster trigger deliveries reports':
        'the request may still be RECEIVED; test/cli/triggers.test.ts waits for it, and does the same',
      'RECEIVED  DELIVERY  EVENT  AGENT             STATE  ATTEMPTS  REASON': 'the output of the block above',
      'A user reports: “The page is empty”': 'a message; test/triggers/effects.test.ts reads such messages',
      '# alertmanager.yml': 'settings of Alertmanager; test/triggers/examples.test.ts sends what it sends',
    },
  },
  'docs/scaling.md': {
    notRun: {
      'muster tenant close codehost_app/acme':
        'needs two installations; test/archive/tenant-move.test.ts does the same',
    },
  },
  'docs/operations.md': {
    notRun: {
      '  sandbox   Agents run in a sandbox (/usr/bin/bwrap).': 'one of the two, depending on the machine',
      'export MUSTER_URL=https://muster.example.com MUSTER_API_KEY=mst_… ANTHROPIC_API_KEY=…':
        'needs keys, and runs until it is stopped; test/agents starts runners like this',
      'The runner builder-1 serves https://muster.example.com': 'the output of the block above',
      'muster login --url https://muster.example.com':
        'needs a person who approves it; test/browser/device.test.ts has one',
      'muster notification test team': 'needs an endpoint; test/cli/notifications.test.ts does the same',
      '{': "a price file; the runner's unit tests read such files",
      '- provider: anthropic': "a list of accounts; the runner's unit tests read such files",
      'apiVersion: keda.sh/v1alpha1': 'needs a Kubernetes cluster with KEDA',
      'job "runners" {': 'needs Nomad',
      "wanted=$(muster runner demand builders -o yaml | sed -n 's/wanted: //p')": 'starts units of systemd',
      "export DATABASE_URL='postgres://muster@db.example.com:5432/muster?sslmode=verify-full&sslrootcert=/etc/muster/ca.pem'":
        'needs another PostgreSQL; test/crash/database-connections.test.ts starts one with TLS',
      'export DATABASE_URL=postgres://muster:…@pgbouncer.example.com:6432/muster MUSTER_POOLER=transaction':
        'needs PgBouncer; test/crash/database-connections.test.ts starts it',
      'OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318 muster serve':
        'runs until it is stopped; test/agents/traces.test.ts sends traces to a collector',
      'muster token create prometheus --role metrics --justification "scraping" > muster.key':
        "needs an operator's key and Prometheus; test/deploy/prometheus.test.ts has both",
      'bootstrap:': 'settings of Patroni; test/cluster uses them',
      'listen muster-database': 'settings of HAProxy; test/cluster uses them',
      'muster status fix-login        # unpushed  2 commits, 3 changed files; saved 4m ago':
        'needs an agent with unpushed work, and a clone; test/cli/work.test.ts does the same',
      'muster export -f muster.gz                                            # where the service runs; -f - pipes it':
        'needs another PostgreSQL, and ends with a running service; test/archive does the same',
      'muster tenant close codehost_app/acme                     # with the variables of the installation it leaves':
        'needs two installations; test/archive/tenant-move.test.ts does the same',
    },
  },
};

/** The stub model and the repository of the page's real agent. */
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
    // The page's first service has one; creating a second takes longer than the rest of the page.
    false,
  );
}

test('every page with code is listed here', () => {
  const pages = [
    ...readdirSync(root).filter((name) => name.endsWith('.md')),
    ...readdirSync(`${root}docs`).flatMap((name) => (name.endsWith('.md') ? [`docs/${name}`] : [])),
  ];
  const withCode = pages.filter((page) => blocksOf(page).some(({ language }) => language !== ''));
  expect(withCode.sort()).toEqual([...Object.keys(rules), 'docs/interface.md'].sort());
});

/** The service without a model, which the pages share. */
let common: Promise<PageSession> | undefined;
afterAll(async () => (await common)?.close());

function startCommon(): Promise<PageSession> {
  common ??= PageSession.start();
  return common;
}

describe.each(Object.entries(rules))('%s', (page, { notRun = {}, starts = {}, exits = {} }) => {
  const blocks = blocksOf(page);
  let session: PageSession;

  beforeAll(async () => {
    if (Object.keys(starts).length === 0 && blocks.some(isRun)) session = await startCommon();
  });
  afterAll(async () => {
    if (session !== (await common)) await session?.close();
    await stub?.close();
    stub = undefined;
  });

  const isRun = (block: Block): boolean => block.language === 'sh' && !(firstLine(block) in notRun);

  test('every listed block exists', () => {
    const known = [notRun, starts, exits].flatMap((one) => Object.keys(one));
    expect(known.filter((line) => !blocks.some((block) => firstLine(block) === line))).toEqual([]);
  });

  for (const block of blocks.filter((one) => !(firstLine(one) in notRun))) {
    const start = starts[firstLine(block)];
    test(titleOf(block), async () => {
      if (start) {
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
      const { printed, failures } = await session.run(block.code);
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
      throw new Error(
        `${block.page}:${block.line}: blocks in ${block.language} are not supported; list the block with the reason`,
      );
  }
}

const isError = (value: unknown): boolean =>
  typeof value === 'object' && value !== null && 'code' in value && 'message' in value && 'details' in value;

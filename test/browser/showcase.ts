import type { Claim } from '@muster/sdk/contract';
import pg from 'pg';
import type { Api } from '../support/api.ts';
import { writeResource } from '../support/catalog.ts';
import { newFakeRunner } from '../support/fake-runner.ts';
import { inMs, TestTenant } from '../support/test-tenant.ts';

/**
 * A fleet for pictures: the repository of a shop, and agents in every status. A fake runner reports for them through the
 * runner protocol, so that they look like agents with real models.
 */
export interface Showcase {
  readonly hero: string;
  readonly asker: string;
  /** Adds a message of the main agent. */
  readonly say: (text: string) => Promise<void>;
}

const repo = 'https://git.example.com/acme/shop';

const usage = (inputTokens: number, cachedInputTokens: number, outputTokens: number, costUsd: number) => ({
  inputTokens,
  cachedInputTokens,
  outputTokens,
  costUsd,
});

export async function openShowcase(api: Api, databaseUrl: string): Promise<Showcase> {
  await writeCatalog(api);
  const tenant = new TestTenant(
    api,
    'shop',
    await newFakeRunner(api, 'default', { rehearses: false, name: 'builder-1' }),
  );
  await endedAgents(tenant);
  await waitingAgents(tenant);
  const hero = await startMainAgent(tenant);
  await others(tenant);
  await moveIntoPast(databaseUrl);
  return {
    hero: 'checkout-rewrite',
    asker: 'migrate-orders',
    say: async (text) => void (await tenant.report(hero, { items: [{ type: 'MESSAGE', text }] })),
  };
}

async function writeCatalog(api: Api): Promise<void> {
  await writeResource(api, 'environment', 'node-22', {
    setup: ['npm ci', 'npm run build --workspaces'],
    allowHosts: ['registry.acme.example'],
    variables: { CI: 'true', NPM_TOKEN: { fromRunner: 'SHOP_NPM_TOKEN' } },
  });
  await writeResource(api, 'workspace', 'shop', {
    repos: [{ url: repo, baseBranch: 'main' }],
    environment: 'node-22',
    model: 'claude-opus-4-8',
  });
  await writeResource(api, 'workspace', 'docs-site', { repos: ['https://git.example.com/acme/docs'] });
  await writeResource(
    api,
    'persona',
    'careful-reviewer',
    {
      instructions:
        'You review changes as the person who will be paged for them.\n\n- Read the tests first.\n- Name the input that breaks it, or say that you found none.\n- One comment per problem, with a suggested change.',
      model: 'claude-sonnet-5',
    },
    { justification: 'Reviews were too polite' },
  );
  await writeResource(
    api,
    'persona',
    'careful-reviewer',
    { reasoningEffort: 'high', model: 'claude-opus-4-8' },
    { updateMask: 'reasoningEffort,model', justification: 'Use the larger model for reviews' },
  );
  await writeResource(api, 'budget', 'engineering', { amountUsd: 400, window: 'month' });
  await writeResource(api, 'token', 'ci-pipeline', { role: 'member', expiresAt: inMs(86_400_000 * 90) });
}

/** Agents that have ended. */
async function endedAgents(tenant: TestTenant): Promise<void> {
  const finished = async (
    path: string,
    description: string,
    response: string,
    use: ReturnType<typeof usage>,
  ) => {
    await tenant.spawn(path, { description, model: 'claude-sonnet-5' });
    const claim = await tenant.start(path);
    await tenant.report(claim, { usage: use, items: [{ type: 'MESSAGE', text: response }] });
    await tenant.end(claim, 'COMPLETED', { finished: true, response });
  };
  await finished(
    'bump-node-22',
    'Move the shop to Node 22 and fix what breaks.',
    'The shop builds and tests green on Node 22. Two packages needed newer majors.',
    usage(412_000, 361_000, 18_400, 2.31),
  );
  await finished(
    'alt-texts',
    'Give every product image a useful alternative text.',
    'All 214 images have one; the 9 I was unsure about are listed in the change request.',
    usage(188_000, 140_000, 9_100, 0.94),
  );
  await tenant.spawn('flaky-cart-test', {
    description: 'Find out why cart.spec.ts fails one time in ten.',
    model: 'gpt-6-sol',
  });
  const failed = await tenant.start('flaky-cart-test');
  await tenant.report(failed, { usage: usage(61_000, 40_000, 2_800, 0.29) });
  await tenant.end(failed, 'FAILED', {
    error: { code: 'AGENT_FAILED', message: 'The test never failed in 400 runs.' },
  });
}

/** Agents that need a person or wait. */
async function waitingAgents(tenant: TestTenant): Promise<void> {
  await tenant.spawn('migrate-orders', {
    description: 'Move the orders table to monthly partitions, without downtime.',
    model: 'claude-opus-4-8',
    tasks: [
      { id: 'plan', subject: 'Write the migration plan' },
      { id: 'shadow', subject: 'Shadow writes behind a flag', blockedBy: ['plan'] },
      { id: 'backfill', subject: 'Backfill in batches', blockedBy: ['shadow'] },
      {
        id: 'docs',
        subject: 'Update the runbook',
        activation: { filesModified: { pattern: 'db/migrations/**' } },
      },
    ],
  });
  const asker = await tenant.start('migrate-orders');
  await tenant.send('agent/tasks/update', 'migrate-orders', { id: 'plan', status: 'TASK_STATUS_COMPLETED' });
  await tenant.report(asker, {
    usage: usage(96_000, 71_000, 5_200, 0.61),
    items: [
      {
        type: 'THINKING',
        text: 'There are two clusters in the configuration, and the plan differs between them.',
      },
      {
        type: 'TOOL_CALL',
        text: 'grep -rn "orders" config/databases.yaml',
        data: { tool: 'Bash', id: 't1' },
      },
      {
        type: 'TOOL_RESULT',
        text: 'config/databases.yaml:12:  orders: pg-main\nconfig/databases.yaml:31:  orders_archive: pg-archive',
        data: { tool: 'Bash', id: 't1' },
      },
      {
        type: 'MESSAGE',
        text: "The plan is in `docs/orders-partitions.md`. One thing I can't decide from the code.",
      },
    ],
  });
  await tenant.end(asker, 'COMPLETED', {
    question:
      'Which database should the archive partitions live in: **pg-main**, where the backup window is too short, or **pg-archive**, which has no replica yet?',
  });

  await tenant.spawn('search-synonyms', {
    description: 'Teach the product search German compound words.',
    model: 'gpt-6-sol',
  });
  const parked = await tenant.start('search-synonyms');
  await tenant.report(parked, { usage: usage(210_000, 150_000, 11_000, 1.12) });
  await tenant.end(parked, 'PARKED', { limitUntil: inMs(47 * 60_000) });

  await tenant.spawn('css-cleanup', {
    description: 'Remove styles that no page uses.',
    tasks: [{ subject: 'Remove unused styles' }, { subject: 'Compare screenshots of ten pages' }],
    model: 'claude-sonnet-5',
  });
  const unfinished = await tenant.start('css-cleanup');
  await tenant.report(unfinished, { usage: usage(75_000, 52_000, 6_000, 0.44) });
  await tenant.end(unfinished, 'COMPLETED', { response: 'The unused styles are gone.' });

  await tenant.rested('weekly-audit', {
    description: 'Audit dependencies each Monday.',
    model: 'claude-sonnet-5',
  });
  await tenant.queue('weekly-audit', { description: 'Audit again.', deliverAt: inMs(3 * 86_400_000) });
}

const edit = {
  tool: 'Edit',
  id: 'e1',
  input: {
    file_path: 'src/checkout/total.ts',
    old_string:
      'export function total(cart: Cart): number {\n  return cart.lines.reduce((sum, line) => sum + line.price * line.count, 0);\n}',
    new_string:
      'export function total(cart: Cart): Money {\n  return cart.lines\n    .map((line) => line.price.times(line.count))\n    .reduce(Money.add, Money.zero(cart.currency));\n}',
  },
};

const diff = `diff --git a/src/checkout/total.ts b/src/checkout/total.ts
index 1f0c2aa..8e52d10 100644
--- a/src/checkout/total.ts
+++ b/src/checkout/total.ts
@@ -1,5 +1,9 @@
-import type { Cart } from './cart';
+import { Money } from '../money';
+import type { Cart } from './cart';
 
-export function total(cart: Cart): number {
-  return cart.lines.reduce((sum, line) => sum + line.price * line.count, 0);
+export function total(cart: Cart): Money {
+  return cart.lines
+    .map((line) => line.price.times(line.count))
+    .reduce(Money.add, Money.zero(cart.currency));
 }
diff --git a/src/money.ts b/src/money.ts
new file mode 100644
--- /dev/null
+++ b/src/money.ts
@@ -0,0 +1,6 @@
+/** An amount in the smallest unit of a currency; never a float. */
+export class Money {
+  static zero(currency: string): Money {
+    return new Money(0n, currency);
+  }
+}
`;

/** The main agent: in its second run, with children, a queue and a push. */
async function startMainAgent(tenant: TestTenant): Promise<Claim> {
  const path = 'checkout-rewrite';
  await tenant.spawn(path, {
    description:
      'Rewrite the checkout so that amounts are never floats. Keep the public API, and push early.',
    model: 'claude-opus-4-8',
    tasks: [
      { id: 'money', subject: 'A Money type with tests' },
      { id: 'totals', subject: 'Totals and discounts in Money', blockedBy: ['money'] },
      { id: 'api', subject: 'Keep the wire format', blockedBy: ['totals'] },
      { id: 'changelog', subject: 'Changelog entry', activation: { filesModified: { pattern: 'src/**' } } },
    ],
  });
  const first = await tenant.start(path);
  await tenant.send('agent/tasks/update', path, { id: 'money', status: 'TASK_STATUS_COMPLETED' });
  await tenant.report(first, {
    usage: usage(154_000, 118_000, 9_800, 1.07),
    items: [
      { type: 'MESSAGE', text: 'I start with a `Money` type, because everything else depends on it.' },
      {
        type: 'TOOL_CALL',
        text: 'npm test -- money',
        data: { tool: 'Bash', id: 'b0', input: { command: 'npm test -- money' } },
      },
      { type: 'TOOL_RESULT', text: '✓ money (14 tests) 212 ms', data: { tool: 'Bash', id: 'b0' } },
    ],
    pushes: [
      {
        repo,
        ref: 'muster/checkout-rewrite-3fa91c',
        commits: ['8e52d10c4b'],
        files: ['src/money.ts', 'src/money.test.ts'],
      },
    ],
    diff: { repo, files: 2, insertions: 12, deletions: 4, text: diff },
  });
  await tenant.end(first, 'COMPLETED', { response: 'The Money type is there, with 14 tests.' });
  await tenant.queue(path, {
    description:
      'Good. Discounts are percentages of the *rounded* total, by law. Please go on with the totals.',
  });
  const second = await tenant.start(path);
  await tenant.send('agent/tasks/update', path, { id: 'totals', status: 'TASK_STATUS_IN_PROGRESS' });
  await tenant.queue(path, {
    description: 'When you are done, write the changelog entry for finance, not for engineers.',
  });
  await tenant.queue(path, {
    description: "Check the staging totals against yesterday's receipts.",
    deliverAt: inMs(2 * 3_600_000),
  });
  await atWork(tenant, `${path}/property-tests`, {
    description: 'Property tests for Money.',
    action: 'Editing src/money.test.ts',
    cost: 0.18,
  });
  await atWork(tenant, `${path}/receipts`, {
    description: 'Compare old and new receipts.',
    action: 'Running node scripts/compare.js',
    cost: 0.11,
  });
  const changed = { repo, files: 2, insertions: 13, deletions: 4, text: `${diff}+// Rounded by law.\n` };
  await tenant.report(second, { diff: { ...changed, workingTree: true } });
  await tenant.report(second, {
    unpushed: { commits: 1, files: 2, isSaved: true },
    currentAction: 'Running npm test -- checkout',
    usage: usage(231_000, 204_000, 7_300, 1.38),
    items: [
      {
        type: 'THINKING',
        text: 'The law rounds per receipt, not per line. So the discount has to be taken from the rounded sum.\nThat changes the order of two steps in total.ts, and one test that expects the old order.',
      },
      {
        type: 'TOOL_CALL',
        text: 'src/checkout/total.ts',
        data: { tool: 'Read', id: 'r1', input: { file_path: 'src/checkout/total.ts' } },
      },
      {
        type: 'TOOL_RESULT',
        text: "1  import type { Cart } from './cart';\n2  \n3  export function total(cart: Cart): number {",
        data: { tool: 'Read', id: 'r1' },
      },
      { type: 'TOOL_CALL', text: 'src/checkout/total.ts', data: edit },
      {
        type: 'TOOL_RESULT',
        text: 'The file src/checkout/total.ts has been updated.',
        data: { tool: 'Edit', id: 'e1' },
      },
      {
        type: 'TOOL_CALL',
        text: 'npm test -- checkout',
        data: { tool: 'Bash', id: 'b1', input: { command: 'npm test -- checkout' } },
      },
      {
        type: 'TOOL_RESULT',
        text: '✗ discount of 7.5 % on 19.99\n  expected 18.49, received 18.50\n\n1 failed, 41 passed',
        data: { tool: 'Bash', id: 'b1', exitCode: 1, error: true },
      },
      {
        type: 'MESSAGE',
        text: 'One test expects the old rounding:\n\n| case | before | by law |\n|---|---|---|\n| 7.5 % on 19.99 | 18.49 | **18.50** |\n\nI change the test and name the paragraph in its title. Reviewers get a heads-up in the change request.',
      },
    ],
  });
  return second;
}

interface Work {
  readonly description: string;
  readonly model?: string;
  readonly action: string;
  readonly cost: number;
}

async function atWork(
  tenant: TestTenant,
  path: string,
  { description, model = 'claude-sonnet-5', action, cost }: Work,
): Promise<void> {
  await tenant.spawn(path, { description, model });
  const claim = await tenant.start(path);
  await tenant.report(claim, { currentAction: action, usage: usage(42_000, 30_000, 2_100, cost) });
}

async function others(tenant: TestTenant): Promise<void> {
  await atWork(tenant, 'api-docs', {
    description: 'Write the API pages from the OpenAPI document.',
    model: 'gpt-6-sol',
    action: 'Reading openapi.json',
    cost: 0.37,
  });
  await tenant.spawn('nightly-e2e', {
    description: 'Run the end-to-end tests each night and fix what broke.',
    model: 'claude-sonnet-5',
  });
}

/** Minutes since each agent was spawned, and since its status changed. */
const ages: Readonly<Record<string, readonly [spawned: number, changed: number]>> = {
  'bump-node-22': [190, 38],
  'alt-texts': [95, 12],
  'flaky-cart-test': [64, 61],
  'migrate-orders': [47, 4],
  'search-synonyms': [150, 9],
  'css-cleanup': [33, 17],
  'weekly-audit': [5800, 1440],
  'checkout-rewrite': [128, 6],
  'checkout-rewrite/property-tests': [5, 4],
  'checkout-rewrite/receipts': [5, 3],
  'api-docs': [21, 20],
  'nightly-e2e': [1, 1],
};

/**
 * Moves the timestamps into the past, directly in the database. The entries of an agent are spread evenly from its spawn
 * to its last status change, and those of a running turn from there to now.
 */
async function moveIntoPast(databaseUrl: string): Promise<void> {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  for (const [path, [spawned, changed]] of Object.entries(ages)) {
    const { rows } = await client.query<{ id: string; turn: number }>(
      `UPDATE agents SET created_at = now() - $2::float8 * interval '1 minute', since = now() - $3::float8 * interval '1 minute'
       WHERE path = $1 AND workspace = 'shop' RETURNING id, CASE phase WHEN 'PHASE_RUNNING' THEN run_count ELSE 0 END AS turn`,
      [path, spawned, changed],
    );
    const { id, turn } = rows[0] as (typeof rows)[number];
    await client.query(
      `UPDATE timeline t SET at = now() - interval '1 minute' *
         CASE WHEN run = $4 AND run > 0 THEN $3 * (1 - place) ELSE $2 + ($3 - $2) * place END
       FROM (SELECT sequence, percent_rank() OVER (PARTITION BY run = $4 AND run > 0 ORDER BY sequence) AS place
             FROM timeline WHERE agent = $1) p
       WHERE agent = $1 AND t.sequence = p.sequence`,
      [id, spawned, changed, turn],
    );
    await client.query(
      `UPDATE runs r SET started_at = t.first, ended_at = CASE WHEN r.ended_at IS NULL THEN NULL ELSE t.last END
       FROM (SELECT run, min(at) AS first, max(at) AS last FROM timeline WHERE agent = $1 GROUP BY run) t
       WHERE r.agent = $1 AND r.number = t.run`,
      [id],
    );
  }
  await addMonthOfUsage(client);
  await client.end();
}

/** What the agents used today, in different amounts on the days before. */
async function addMonthOfUsage(client: pg.Client): Promise<void> {
  await client.query(
    `INSERT INTO usage_hours
     SELECT u.tenant, u.hour - make_interval(days => day), u.agent, u.run, u.model, u.provider_account, u.root, u.owner_provider,
       u.account, u.workspace, u.backend, u.cost * (1.2 + sin(day * 0.9 + length(u.model))), u.input_tokens, u.cached_tokens,
       u.output_tokens, u.unpriced_tokens, u.is_estimated
     FROM usage_hours u JOIN agents a ON a.tenant = u.tenant AND a.id = u.agent
     CROSS JOIN generate_series(1, 45) day
     WHERE a.path = ANY ($1) AND a.workspace = 'shop' AND extract(isodow FROM u.hour - make_interval(days => day)) < 6`,
    [Object.keys(ages)],
  );
}

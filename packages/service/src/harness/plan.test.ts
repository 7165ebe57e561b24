import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { limits, planStepsIn, type ReportItem } from '@muster/sdk/contract';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ProviderStub, startProviderStub } from '../../../../test/provider/stub.ts';
import { deliverTo, ofType, openSession } from '../../../../test/support/harness-session.ts';
import { MarkedProcesses } from '../../../../test/support/processes.ts';
import { claudeCodeHarness, findClaudeCode } from './claude-code/claude-code.ts';
import { codexHarness, findCodex } from './codex/codex.ts';
import type { HarnessSession } from './harness.ts';
import { PlanReporter } from './plan.ts';

let stub: ProviderStub;
let folder: string;
const sessions: HarnessSession[] = [];

beforeAll(async () => {
  stub = await startProviderStub();
  folder = await mkdtemp(join(tmpdir(), 'muster-plan-'));
});
afterAll(async () => {
  await Promise.all(sessions.map((session) => session.kill()));
  await stub.close();
  await rm(folder, { recursive: true, force: true });
});

async function open(model: string) {
  const workspaceFolder = join(folder, model, 'workspace');
  const homeFolder = join(folder, model, 'home');
  await mkdir(workspaceFolder, { recursive: true });
  await mkdir(homeFolder);
  const harness = model.startsWith('claude')
    ? claudeCodeHarness(findClaudeCode() ?? '', 'haiku')
    : codexHarness(findCodex() ?? '');
  const endpoint = { url: stub.url, token: 'run-token' };
  const processes = new MarkedProcesses(workspaceFolder);
  const opened = await openSession(harness, { model }, { workspaceFolder, homeFolder, endpoint, processes });
  sessions.push(opened.session);
  return opened;
}

const read = { text: 'Read the code', status: 'completed' } as const;
const write = { text: 'Write  the\ntest', status: 'in_progress' } as const;
const run = { text: 'Run it', status: 'pending' } as const;

describe.each([
  ['claude-opus-4-8', findClaudeCode()],
  ['gpt-5.5', findCodex()],
  ['gpt-6.1-sol', findCodex()],
])('%s', (model, executable) => {
  it.skipIf(executable === undefined)(
    'reports its plan, how full its context is and a compaction',
    async () => {
      stub.tokens = { input: 1000, cached: 200, output: 10 };
      const session = await open(model);
      const marker = stub.script([
        { plan: [read, write, run] },
        { plan: [read, write, run] },
        { plan: [read, { ...write, status: 'completed' }, run] },
        { say: 'Planned.' },
      ]);
      const { result, items } = await deliverTo(session, marker);
      expect(result).toMatchObject({ type: 'done', response: 'Planned.' });
      expect(ofType(items, 'PLAN')).toEqual([
        {
          type: 'PLAN',
          text: '1 of 3 steps done; now: Write the test',
          data: {
            steps: [
              { text: 'Read the code', status: 'COMPLETED' },
              { text: 'Write the test', status: 'IN_PROGRESS' },
              { text: 'Run it', status: 'PENDING' },
            ],
          },
        },
        expect.objectContaining({ text: '2 of 3 steps done' }),
      ]);
      expect(ofType(items, 'TOOL_CALL')).toEqual([]);
      const { usedTokens = 0, windowTokens = 0 } = session.contexts.at(-1) ?? {};
      expect(usedTokens).toBeGreaterThanOrEqual(1200);
      expect(windowTokens).toBeGreaterThan(100_000);

      stub.tokens = { input: windowTokens - 1000, cached: 0, output: 10 };
      await deliverTo(session, stub.script([{ say: 'Full.' }]));
      stub.tokens = { input: 1000, cached: 200, output: 10 };
      const after = await deliverTo(session, stub.script([{ say: 'On I go.' }]));
      expect(after.result).toMatchObject({ type: 'done', response: 'On I go.' });
      const [compaction, ...more] = ofType(after.items, 'COMPACTION');
      expect(more).toEqual([]);
      expect(compaction?.text).toMatch(/^The context was compacted from \S+ to \S+ tokens\.$/);
      expect(compaction?.data?.beforeTokens).toBeGreaterThan(windowTokens / 2);
      expect(session.contexts.at(-1)?.usedTokens).toBeLessThan(2000);
    },
  );
});

it('a plan of any size and shape is cut and reported once', () => {
  const items: ReportItem[] = [];
  const plan = new PlanReporter({ item: (item) => items.push(item) });
  plan.update([]);
  const many = Array.from({ length: 1000 }, () => ({ text: '\u0001'.repeat(10_000), status: {} }));
  plan.update(many);
  plan.update([...many]);
  plan.update([]);
  expect(items.map(({ text }) => text)).toEqual([
    'no steps',
    `0 of ${limits.planSteps} steps done`,
    'no steps',
  ]);
  const steps = planStepsIn(items[1]?.data ?? {});
  expect(steps).toHaveLength(limits.planSteps);
  expect(steps[0]?.text).toHaveLength(limits.planStepLength);
  expect(steps.at(-1)).toEqual({ text: `… and ${1001 - limits.planSteps} more steps`, status: 'PENDING' });
  // An item with more data would be stored without it.
  expect(JSON.stringify(items[1]?.data).length).toBeLessThan(64 * 1024);
});

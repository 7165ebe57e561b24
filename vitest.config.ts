import { configDefaults, defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';
import { CostReporter, suiteOf } from './test/support/cost-reporter.ts';
import { testNodeFlags } from './test/support/node-flags.ts';

/** What `npm run test:quick` leaves out: browsers, real harnesses, crashes, and the slowest of the other suites. */
const slowSuites = [
  'packages/service/src/harness/**',
  'packages/service/src/runner/**',
  'packages/service/src/store/embedded/**',
  'test/{agents,archive,browser,canary,cli,crash,dashboard,docs,fuzz,hostile,model,openapi,packages,planted,simulation}/**',
  'test/conformance/{disconnected-clients,follow-up-records,invalid-stored-states,load-limits}.test.ts',
  'test/conformance/{lost-runners,rehearsal,rehearsal-in-repository,rehearsed-stops,restart,retention,sessions,starting}.test.ts',
  'test/mcp/harness-clients.test.ts',
  'test/tenancy/{runner-identity,tenant-allow}.test.ts',
];
/** Spreads the files of each suite over the whole run: some suites mostly wait, others use all processors. */
class MixedSuites extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const suites = new Map<string, TestSpecification[]>();
    for (const file of await super.sort(files)) {
      const suite = suiteOf(file.moduleId);
      suites.set(suite, [...(suites.get(suite) ?? []), file]);
    }
    const placed = [...suites.values()].flatMap((suite) =>
      suite.map((file, i) => ({ file, place: i / suite.length })),
    );
    return placed.sort((a, b) => a.place - b.place).map(({ file }) => file);
  }
}

const leftOut = process.env.MUSTER_TEST_QUICK ? slowSuites : [];
/** What only `npm run test:deep` runs, because it starts a service and a code host per harness. */
const deepSuites = process.env.MUSTER_CODEHOST_HARNESSES ? [] : ['test/codehost/harnesses.test.ts'];

export default defineConfig({
  test: {
    include: ['packages/*/src/**/*.test.ts', 'test/**/*.test.ts'],
    exclude: [...configDefaults.exclude, ...leftOut, ...deepSuites],
    sequence: { sequencer: MixedSuites },
    globalSetup: ['test/support/global-setup.ts'],
    reporters: ['default', new CostReporter(leftOut)],
    pool: 'forks',
    execArgv: [...testNodeFlags],
    maxWorkers: 4,
    // Files share no state that they change, and a process for each of them would import everything again.
    isolate: false,
    testTimeout: 90_000,
    hookTimeout: 90_000,
    // The default timeout of one second is too short on a busy machine. The default interval of 50 ms costs too much:
    // each poll is a request, or a search of a whole page.
    expect: { poll: { timeout: 40_000, interval: 150 } },
  },
});

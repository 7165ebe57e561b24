import { defineConfig } from 'vitest/config';
import { CostReporter } from './test/support/cost-reporter.ts';

export default defineConfig({
  test: {
    include: ['packages/*/src/**/*.test.ts', 'test/**/*.test.ts'],
    globalSetup: ['test/support/global-setup.ts'],
    reporters: ['default', new CostReporter()],
    pool: 'forks',
    maxWorkers: 3,
    // Files share no state that they change, and a process for each would import everything anew.
    isolate: false,
    testTimeout: 90_000,
    hookTimeout: 90_000,
    // A second, which is the default, is too little on a machine that does something else as well.
    // Each look costs a request, or a search of a whole page; so there are fewer than the default of 20 in a second.
    expect: { poll: { timeout: 40_000, interval: 150 } },
  },
});

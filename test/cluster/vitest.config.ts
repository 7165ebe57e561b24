import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    root: new URL('../../', import.meta.url).pathname,
    include: ['test/cluster/faults.suite.ts'],
    reporters: ['default'],
    pool: 'forks',
    disableConsoleIntercept: true,
    testTimeout: 0,
    hookTimeout: 0,
    expect: { poll: { timeout: 40_000, interval: 150 } },
  },
});

const major = Number.parseInt(process.versions.node, 10);

/** Functions are optimized eight times later than by default. Node 22 has other names for it. */
const optimizeLate =
  major < 22
    ? ['--interrupt-budget=540672']
    : ['--invocation-count-for-maglev=3200', '--invocation-count-for-turbofan=24000'];

/**
 * Flags of Node for processes that only tests use. V8 optimizes and collects garbage on threads of its own, which take
 * time from the other processes on two cores, and most processes of tests end before optimized code pays. A run of 90
 * seconds takes a twentieth less processor time with the first two. The others avoid most collections of a service that
 * has just started: a fiftieth less in tests that start many.
 */
export const testNodeFlags: readonly string[] = [
  ...optimizeLate,
  '--single-threaded-gc',
  '--min-semi-space-size=16',
  '--no-memory-reducer',
];

/**
 * Flags of Node for processes that only tests use. V8 optimizes and collects garbage on threads of its own, which take
 * time from the other processes on two cores, and most processes of tests end before optimized code pays. The first flag
 * is eight times its default. A run of 90 seconds takes a twentieth less processor time with both.
 */
export const testNodeFlags: readonly string[] = ['--interrupt-budget=540672', '--single-threaded-gc'];

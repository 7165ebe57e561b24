import { relative } from 'node:path';
import type { TestModule } from 'vitest/node';

/** Prints the time of each suite, the number of tests, and which suites were left out. */
export class CostReporter {
  readonly #leftOut: readonly string[];

  constructor(leftOut: readonly string[]) {
    this.#leftOut = leftOut;
  }

  onTestRunEnd(modules: readonly TestModule[]): void {
    const suites = new Map<string, { ms: number; tests: number }>();
    const count = { passed: 0, failed: 0, skipped: 0 };
    for (const module of modules) {
      const name = suiteOf(module.moduleId);
      const suite = suites.get(name) ?? { ms: 0, tests: 0 };
      suite.ms += module.diagnostic().duration;
      for (const test of module.children.allTests()) {
        suite.tests += 1;
        const { state } = test.result();
        if (state === 'passed' || state === 'failed') count[state] += 1;
        else count.skipped += 1;
      }
      suites.set(name, suite);
    }
    const totalMs = [...suites.values()].reduce((sum, suite) => sum + suite.ms, 0);
    const lines = [...suites]
      .sort(([, a], [, b]) => b.ms - a.ms)
      .map(([name, { ms, tests }]) => {
        const percent = totalMs > 0 ? (ms / totalMs) * 100 : 0;
        const seconds = (ms / 1000).toFixed(1);
        return `${percent.toFixed(0).padStart(4)} %  ${seconds.padStart(6)} s  ${String(tests).padStart(5)} tests  ${name}`;
      });
    lines.push('', `${count.passed} passed, ${count.failed} failed, ${count.skipped} skipped`);
    if (this.#leftOut.length > 0)
      lines.push(
        '',
        '*** QUICK RUN. NOT TESTED (npm test runs everything):',
        ...this.#leftOut.map((path) => `***   ${path}`),
      );
    process.stdout.write(`\n${lines.join('\n')}\n`);
  }
}

/** `test/conformance`, `packages/service/src/control` */
export function suiteOf(path: string): string {
  const file = relative(process.cwd(), path);
  return file
    .split('/')
    .slice(0, file.startsWith('test/') ? 2 : 4)
    .join('/');
}

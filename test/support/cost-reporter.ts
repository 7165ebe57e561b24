import { relative } from 'node:path';
import type { TestModule } from 'vitest/node';

/** Prints what each suite took of the whole, and the closing count. */
export class CostReporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const suites = new Map<string, { ms: number; tests: number }>();
    const count = { passed: 0, failed: 0, skipped: 0 };
    for (const module of modules) {
      const file = relative(process.cwd(), module.moduleId);
      const name = file.startsWith('test/')
        ? file.split('/').slice(0, 2).join('/')
        : file.split('/').slice(0, 4).join('/');
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
    const total = [...suites.values()].reduce((sum, suite) => sum + suite.ms, 0);
    const rows = [...suites].sort(([, a], [, b]) => b.ms - a.ms);
    process.stdout.write('\n');
    for (const [name, { ms, tests }] of rows) {
      const share = total > 0 ? (ms / total) * 100 : 0;
      process.stdout.write(
        `${share.toFixed(0).padStart(4)} %  ${(ms / 1000).toFixed(1).padStart(6)} s  ${String(tests).padStart(5)} tests  ${name}\n`,
      );
    }
    process.stdout.write(`\n${count.passed} passed, ${count.failed} failed, ${count.skipped} skipped\n`);
  }
}

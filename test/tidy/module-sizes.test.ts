import { expect, test } from 'vitest';
import { filesBelow, linesIn, readText } from './sources.ts';

const files = filesBelow('');

test('ADR 7 says how many lines each part has', () => {
  const linesOf = (folder: string): number =>
    files
      .filter((path) => path.startsWith(folder) && /(?<!\.test)\.(tsx?|css)$/.test(path))
      .reduce((sum, path) => sum + linesIn(readText(path)), 0);
  const source = 'packages/service/src/';
  const folders: Readonly<Record<string, string>> = {
    SDK: 'packages/sdk/src/',
    dashboard: 'packages/dashboard/src/',
  };
  const gateway = linesOf(`${source}runner/gateway/`);
  const page = readText('docs/adr/0007-where-the-lines-are.md');
  const differs = (part: string, lines: number, count: string): string[] => {
    const isClose = Math.abs(lines - Number(count.replace(',', ''))) <= 100 + lines / 50;
    return isClose ? [] : [`${part} has ${lines} lines, not ${count}`];
  };
  const rows = page.matchAll(/^\| (.+?) \| ([\d,]+) \|/gm);
  const wrong = [...rows].flatMap(([, part = '', count = '']) => {
    const name = part.replace(/`([^`]+)`.*/, '$1');
    const lines = linesOf(folders[name] ?? `${source}${name}/`) - (part.includes('without') ? gateway : 0);
    return differs(part, lines, count);
  });
  const [, both = '', dashboard = ''] =
    /([\d,]+) lines of service and SDK, ([\d,]+) of dashboard/.exec(page) ?? [];
  const sum = linesOf(source) + linesOf('packages/sdk/src/');
  wrong.push(...differs('service and SDK', sum, both));
  wrong.push(...differs('dashboard', linesOf('packages/dashboard/src/'), dashboard));
  expect(wrong).toEqual([]);
});

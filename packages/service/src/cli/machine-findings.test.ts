import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { nodeFinding, userLimitFindings } from './machine-findings.ts';

const at = (time: string): number => Date.parse(time);

test('a version of Node that is still maintained is fine', () => {
  const ok = { verdict: 'ok', next: '' };
  expect(nodeFinding('20.19.2', at('2026-04-30T12:00:00Z'))).toMatchObject(ok);
  expect(nodeFinding('26.10.0', at('2029-04-30T12:00:00Z'))).toMatchObject(ok);
  expect(nodeFinding('99.0.0')).toMatchObject(ok);
});

test('a version past its end of life works, and the finding says since when', () => {
  for (const [node, end] of [
    ['20.20.0', '2026-04-30'],
    ['22.23.3', '2027-04-30'],
    ['24.21.0', '2028-04-30'],
    ['26.10.0', '2029-04-30'],
  ] as const) {
    const { verdict, next } = nodeFinding(node, at(end) + 2 * 86_400_000);
    expect({ verdict, next }).toEqual({
      verdict: 'ok',
      next: `Node ${Number.parseInt(node, 10)} has had no security fixes since ${end}: install a newer version, unless your distribution maintains it`,
    });
  }
});

test('a version that is too old is broken', () => {
  expect(nodeFinding('20.18.3')).toMatchObject({ verdict: 'broken', next: 'install Node 20.19 or newer' });
});

test('few inotify instances are missing, because one agent can take those of all', () => {
  const folder = mkdtempSync(join(tmpdir(), 'muster-limits-'));
  const limit = join(folder, 'max_user_instances');
  const findingsAt = (instances: number) => {
    writeFileSync(limit, `${instances}\n`);
    return userLimitFindings(limit);
  };
  expect(findingsAt(128)).toMatchObject([
    {
      verdict: 'missing',
      found: '128 inotify instances for all agents of this user',
      next: expect.stringContaining('sysctl fs.inotify.max_user_instances='),
    },
  ]);
  expect(findingsAt(8192)).toMatchObject([{ verdict: 'ok', next: '' }]);
  rmSync(folder, { recursive: true });
  expect(userLimitFindings(limit)).toEqual([]);
});

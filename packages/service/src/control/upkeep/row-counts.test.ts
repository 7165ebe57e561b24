import { expect, test } from 'vitest';
import type { RowCount } from '../../store/statements/row-counts.ts';
import { poolRows } from './row-counts.ts';

const row = (what: RowCount['what'], first: string, count = 1, oldest = 0): RowCount => ({
  ...{ what, first, second: '', count, oldest },
});

test('pools beyond the first ones count as other, and pools with runners come first', () => {
  const waiting = Array.from({ length: 200 }, (_, i) => row('claimable', `a-${i}`, 1, i));
  const rows = poolRows([...waiting, row('runners', 'zone', 2), row('agents', 'PHASE_RUNNING')]);
  expect(new Set(rows.map(({ first }) => first)).size).toBe(51);
  expect(rows).toContainEqual(row('runners', 'zone', 2));
  expect(rows.find(({ first }) => first === 'other')).toMatchObject({ count: 151, oldest: 199 });
  const claimable = rows.filter(({ what }) => what === 'claimable');
  expect(claimable.reduce((sum, { count }) => sum + count, 0)).toBe(200);
});

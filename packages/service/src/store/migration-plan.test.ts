import { describe, expect, test } from 'vitest';
import { type AppliedMigration, migrationIn, newIndexOf, planMigrations } from './migration-plan.ts';

describe('the header of a migration', () => {
  test('says its kind and which builds still work', () => {
    const sql =
      '-- For lists by pool.\n-- kind: concurrent\n-- compatible since: 3\nCREATE INDEX CONCURRENTLY by_pool ON agents (pool);\n';
    expect(migrationIn('0012-by-pool.sql', sql)).toEqual({
      number: 12,
      name: '0012-by-pool.sql',
      sql,
      kind: 'concurrent',
      compatibleSince: 3,
    });
  });

  test('may be missing: then it is transactional, and earlier builds do not work', () => {
    expect(migrationIn('0012-more.sql', 'SELECT 1;\n-- kind: concurrent\n')).toMatchObject({
      kind: 'transactional',
      compatibleSince: 12,
    });
  });

  test.each([
    ['-- kind: parallel\n', '"kind"'],
    ['-- compatible since: 0\n', '"compatible since"'],
    ['-- compatible since: 13\n', '"compatible since"'],
    ['-- compatible since: the last one\n', '"compatible since"'],
    ['-- kind: concurrent\nCREATE INDEX by_pool ON agents (pool);', 'a concurrent migration is one'],
    ['-- kind: concurrent\nDROP INDEX CONCURRENTLY by_pool;', 'IF EXISTS'],
    ['-- kind: concurrent\nCREATE INDEX CONCURRENTLY IF NOT EXISTS a ON b (c);', 'a concurrent migration is'],
    ['-- kind: concurrent\nCREATE INDEX CONCURRENTLY a ON b (c); SELECT 1;', 'a concurrent migration is one'],
  ])('is refused if it is wrong: %j', (sql, words) => {
    expect(() => migrationIn('0012-wrong.sql', sql)).toThrow(words);
  });

  test('a concurrent migration creates or drops one index', () => {
    const sql =
      'CREATE UNIQUE INDEX CONCURRENTLY one_name\n  ON agents (tenant, path) -- a comment; and more\n;';
    const index = newIndexOf({ name: '0012-index.sql', sql });
    expect([index?.sql('other', 'part'), index?.declaration]).toEqual([
      'CREATE UNIQUE INDEX CONCURRENTLY other ON part (tenant, path)',
      'CREATE UNIQUE INDEX IF NOT EXISTS one_name ON ONLY agents (tenant, path)',
    ]);
    const drop = '-- Nothing uses it.\nDROP INDEX CONCURRENTLY IF EXISTS one_name';
    expect(newIndexOf({ name: '0013-drop.sql', sql: drop })).toBeNull();
  });
});

describe('the plan', () => {
  const known = [1, 2, 3].map((number) => migrationIn(`000${number}-step.sql`, ''));
  const applied = (...rows: (number | [number, number | null])[]): AppliedMigration[] =>
    rows.map((row) => {
      const [number, compatibleSince] = typeof row === 'number' ? [row, row] : row;
      return { number, name: `${String(number).padStart(4, '0')}-step.sql`, compatibleSince };
    });

  test.each([
    ['all, for an empty database', applied(), [1, 2, 3]],
    ['those that are missing', applied(1), [2, 3]],
    ['none, for the schema of this build', applied(1, 2, 3), []],
    ['none, for a newer schema that works with this build', applied(1, 2, 3, [4, 3], [5, 2]), []],
  ])('is to apply %s', (_, rows, numbers) => {
    const plan = planMigrations(known, rows);
    expect('pending' in plan && plan.pending.map(({ number }) => number)).toEqual(numbers);
  });

  test.each([
    ['the newest needs a newer build', applied(1, 2, 3, [4, 4]), 4, 4],
    ['one before the newest does', applied(1, 2, 3, [4, 4], [5, 3]), 5, 4],
    ['the table says nothing about it', applied(1, 2, 3, [4, null]), 4, 4],
  ])('is a refusal if %s', (_, rows, newest, needed) => {
    expect(planMigrations(known, rows)).toEqual({
      refusal: expect.stringMatching(
        new RegExp(`at migration ${newest} .* migration ${needed}; this build ends at 3\\. Start a newer`),
      ),
    });
  });
});

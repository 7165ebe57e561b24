import { execFileSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';
import { branchesAbove, branchOf } from './branch.ts';

const id = '019513f0-0000-7000-8000-00000abc1234';

describe('branchOf', () => {
  it('names the path and the end of the id', () => {
    expect(branchOf(['root', 'kid'], id)).toBe('muster/root-kid-bc1234');
  });

  it('tells two agents of one path apart', () => {
    expect(branchOf(['root'], id)).not.toBe(branchOf(['root'], id.replace(/4$/, '5')));
  });

  it.each([['.hidden'], ['a..b'], ['a...'], ['...'], ['a.lock'], ['a.'], ['-', '-'], ['.a', '.b'], ['_.-']])(
    'is a ref that git takes: %s',
    (...path) => {
      const branch = branchOf(path, id);
      expect(execFileSync('git', ['check-ref-format', '--branch', branch]).toString().trim()).toBe(branch);
    },
  );

  it('fits into a file name, however deep the path', () => {
    const branch = branchOf(
      Array.from({ length: 8 }, () => 'x'.repeat(128)),
      id,
    );
    expect(`${branch.split('/').at(-1)}.lock`.length).toBeLessThan(255);
    expect(branch.endsWith('-bc1234')).toBe(true);
  });
});

describe('branchesAbove', () => {
  it('begins with the parent and ends with the root', () => {
    const path = ['root', 'middle', 'leaf'];
    const ancestors = [id.replace(/4$/, 'a'), id.replace(/4$/, 'b')];
    expect(branchesAbove({ path, ancestors })).toEqual(['muster/root-middle-bc123b', 'muster/root-bc123a']);
  });

  it('is nothing for a root', () => {
    expect(branchesAbove({ path: ['root'], ancestors: [] })).toEqual([]);
  });
});

import { describe, expect, it } from 'vitest';
import { matchesPath } from './path-pattern.ts';

describe('a pattern for repositories', () => {
  it.each([
    ['https://git.example/acme/**', 'https://git.example/acme/a', true],
    ['https://git.example/acme/**', 'https://git.example/acme/group/a.git', true],
    ['https://git.example/acme/**', 'https://git.example/acme', false],
    ['https://git.example/acme/**', 'https://git.example/acme-evil/a', false],
    ['https://git.example/acme/*', 'https://git.example/acme/a', true],
    ['https://git.example/acme/*', 'https://git.example/acme/group/a', false],
    ['https://*.example/**', 'https://git.example/a', true],
    ['https://*.example/**', 'https://evil.net/x.example/a', false],
    ['git@git.example:acme/*', 'git@git.example:acme/a.git', true],
    ['https://git.example/a*b*c', 'https://git.example/abc', true],
    ['https://git.example/a*b*c', 'https://git.example/acb', false],
    ['https://git.example/ab*ba', 'https://git.example/aba', false],
    ['/srv/git/**', '/srv/git/a.git', true],
    ['https://git.example/x', 'https://git.example/x', true],
    ['https://git.example/x.y', 'https://git.example/xzy', false],
  ])('%s for %s: %s', (pattern, url, expected) => {
    expect(matchesPath(pattern, url)).toBe(expected);
  });

  it('is matched in time linear in the length of the URL', () => {
    const pattern = `https://git.example/${'*a'.repeat(1_000)}b`;
    expect(matchesPath(pattern, `https://git.example/${'a'.repeat(200_000)}c`)).toBe(false);
  });
});

import { expect, test } from 'vitest';
import { addressOf, type Filter, filterOf, isFiltering, noFilter } from './filter.ts';

test('a list without filters has a plain address', () => {
  expect(addressOf(noFilter)).toBe('/');
  expect(filterOf('')).toEqual(noFilter);
  expect(isFiltering(noFilter)).toBe(false);
});

test('an address and its filter say the same, whatever is in it', () => {
  const filter: Filter = {
    text: 'a & b = "c" + 50% #1, ü',
    owner: 'idp_oidc/ada@example.com',
    workspace: 'shop',
    phases: ['question', 'failed'],
    labels: ['team=web', 'note=a=b, c & d'],
    ended: '30d',
  };
  const address = addressOf(filter);
  expect(filterOf(new URL(address, 'http://muster').search)).toEqual(filter);
  expect(address).toContain('phase=question,failed');
  expect(address).toContain('label=team%3Dweb');
});

test('what an address says that nobody knows is left out', () => {
  expect(filterOf('?phase=failed,sleepy,&ended=tomorrow&colour=red&label=team')).toEqual({
    ...noFilter,
    phases: ['failed'],
  });
});

test('the sections of an address come in the order of the page', () => {
  expect(filterOf('?phase=working,question').phases).toEqual(['question', 'working']);
});

test('looking further back hides nobody', () => {
  expect(isFiltering({ ...noFilter, ended: 'all' })).toBe(false);
  expect(isFiltering({ ...noFilter, phases: ['idle'] })).toBe(true);
});

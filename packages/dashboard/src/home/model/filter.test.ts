import { expect, test } from 'vitest';
import { type Filter, filterOf, isFiltering, listUrl, noFilter } from './filter.ts';

test('a list without filters has a plain URL', () => {
  expect(listUrl(noFilter)).toBe('/');
  expect(filterOf('')).toEqual(noFilter);
  expect(isFiltering(noFilter)).toBe(false);
});

test('a filter survives the way through its URL', () => {
  const filter: Filter = {
    text: 'a & b = "c" + 50% #1, ü',
    owner: 'idp_oidc/ada@example.com',
    workspace: 'shop',
    phases: ['question', 'failed'],
    labels: ['team=web', 'note=a=b, c & d'],
    ended: '30d',
    scope: 'everyone',
    group: 'label:a & b',
    sort: '-cost',
  };
  const url = listUrl(filter);
  expect(filterOf(new URL(url, 'http://muster').search)).toEqual(filter);
  expect(url).toContain('phase=question,failed');
  expect(url).toContain('label=team%3Dweb');
});

test('unknown values in a URL are ignored', () => {
  expect(
    filterOf('?phase=failed,sleepy,&ended=tomorrow&colour=red&label=team&scope=x&group=label:&sort=--cost'),
  ).toEqual({
    ...noFilter,
    phases: ['failed'],
  });
});

test('the sections of a URL are in the order of the page', () => {
  expect(filterOf('?phase=working,question').phases).toEqual(['question', 'working']);
});

test('listing more ended agents is not a filter', () => {
  expect(isFiltering({ ...noFilter, ended: 'all' })).toBe(false);
  expect(isFiltering({ ...noFilter, phases: ['idle'] })).toBe(true);
});

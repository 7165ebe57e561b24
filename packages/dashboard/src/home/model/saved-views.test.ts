import { expect, test } from 'vitest';
import { maxViews, viewsIn, withoutView, withView } from './saved-views.ts';

const mine = { name: 'Mine', url: '/?scope=mine' };

test('stored views are read, and invalid ones are left out', () => {
  expect(viewsIn(null)).toEqual([]);
  expect(viewsIn('{')).toEqual([]);
  expect(viewsIn('{"name": "a"}')).toEqual([]);
  const stored = [
    mine,
    null,
    { name: '', url: '/' },
    { name: 'x', url: '//evil.example' },
    { name: 'x', url: 'javascript:alert(1)' },
  ];
  expect(viewsIn(JSON.stringify(stored))).toEqual([mine]);
  const many = Array.from({ length: 100 }, (_, i) => ({ name: `${i}`.repeat(100), url: '/' }));
  const read = viewsIn(JSON.stringify(many));
  expect(read).toHaveLength(maxViews);
  expect(read[0]?.name).toHaveLength(40);
});

test('a view with the same name is replaced in its place', () => {
  const views = withView(withView([], mine), { name: 'All', url: '/' });
  expect(withView(views, { name: 'Mine', url: '/?q=x' })).toEqual([
    { name: 'Mine', url: '/?q=x' },
    { name: 'All', url: '/' },
  ]);
  expect(withoutView(views, 'Mine')).toEqual([{ name: 'All', url: '/' }]);
});

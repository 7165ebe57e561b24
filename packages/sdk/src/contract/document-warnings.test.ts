import { expect, test } from 'vitest';
import { nearestName, unknownFields } from './document-warnings.ts';
import { limits } from './limits.ts';

test.each([
  ['repo', 'repos'],
  ['enviroment', 'environment'],
  ['Environment', 'environment'],
  ['porsena', 'persona'],
  ['env', 'environment'],
  ['mcpservers', 'mcpServers'],
])('%s is near %s', (name, meant) => {
  const known = ['repos', 'environment', 'pool', 'persona', 'mcpServers'];
  expect(nearestName(name, known)).toBe(meant);
});

test.each(['description', 'x', 'a'.repeat(10_000)])('nothing is near %.20s', (name) => {
  expect(nearestName(name, ['repos', 'environment', 'pool'])).toBeUndefined();
});

test('unknown fields are found at every level, with the nearest known name', () => {
  const document = {
    repo: 'https://example.com/a.git',
    repos: ['https://example.com/b.git', { ulr: 'https://example.com/c.git' }],
    mcpServers: { tracker: { url: 'https://example.com', header: {} } },
    name: 'code',
    updatedAt: '2026-01-31T09:00:00Z',
    'x-team': 'web',
  };
  expect(unknownFields('workspace', document)).toEqual([
    { field: 'repo', description: 'is not a known field; did you mean "repos"?' },
    { field: 'repos[1].ulr', description: 'is not a known field; did you mean "url"?' },
    { field: 'mcpServers.tracker.header', description: 'is not a known field; did you mean "headers"?' },
  ]);
});

test('names that the user chooses, and fields of secrets, are known', () => {
  expect(
    unknownFields('environment', { variables: { ANY_NAME: 'x', OTHER: { fromSecret: 'npm' } } }),
  ).toEqual([]);
  expect(unknownFields('environment', { variables: { A: { fromSecrets: 'npm' } } })).toMatchObject([
    { field: 'variables.A.fromSecrets' },
  ]);
  expect(unknownFields('token', { key: 'mst_a.b', keyId: 'a', rotate: true })).toEqual([]);
});

test('without a near name the known fields are listed', () => {
  expect(unknownFields('profile', { about: 'x' })).toEqual([
    { field: 'about', description: 'is not a known field; known are displayName' },
  ]);
});

test('a document full of unknown fields yields a bounded number of short warnings', () => {
  const names = Array.from({ length: 60_000 }, (_, at) => [`f${at}`, 1] as const);
  const warnings = unknownFields('workspace', {
    ['y'.repeat(200_000)]: 1,
    ...Object.fromEntries(names),
  });
  expect(warnings).toHaveLength(limits.documentWarnings);
  expect(JSON.stringify(warnings).length).toBeLessThan(10_000);
});

import { basename, dirname } from 'node:path';
import { expect, test } from 'vitest';
import { filesBelow, linesIn, readSources, readText } from './sources.ts';

/** The modules of the dashboard. Files directly in `src` compose them and may import all. */
const folder = 'packages/dashboard/src/';
const shared = ['parts', 'session', 'live'];
const allowedImports: Readonly<Record<string, readonly string[]>> = {
  parts: [],
  session: ['parts'],
  live: ['parts', 'session'],
  spawn: shared,
  home: [...shared, 'setup', 'spawn'],
  inbox: [...shared, 'agent'],
  palette: [...shared, 'agent', 'catalog', 'home', 'shell', 'spawn'],
  catalog: shared,
  budget: shared,
  runners: shared,
  schedules: shared,
  settings: shared,
  setup: [...shared, 'spawn'],
  team: shared,
  notify: [...shared, 'catalog'],
  activity: [...shared, 'catalog'],
  device: shared,
  worker: [],
  spend: [...shared, 'budget', 'home'],
  agent: [...shared, 'budget', 'home', 'share', 'spawn'],
  share: [...shared, 'agent', 'shell'],
  shell: [...shared, 'spawn'],
};

/** `packages/dashboard/src/home/model/filter.ts` → `home`; undefined outside of a module. */
const moduleOf = (path: string): string | undefined =>
  path.startsWith(folder) ? /^(\w+)\//.exec(path.slice(folder.length))?.[1] : undefined;

const sources = readSources().filter(({ path, isTest }) => path.startsWith(folder) && !isTest);
const imports = sources.flatMap(({ path, imports: all }) => all.map((i) => ({ path, ...i })));

test('every folder of the dashboard is a known module', () => {
  const unknown = sources
    .map(({ path }) => moduleOf(path))
    .filter((name) => name && !(name in allowedImports));
  expect([...new Set(unknown)]).toEqual([]);
  expect(sources.some(({ path }) => path.endsWith('.tsx'))).toBe(true);
});

test('a module of the dashboard imports only the modules it may import', () => {
  const wrong = imports.filter(({ path, file }) => {
    const [from, to] = [moduleOf(path), moduleOf(file ?? '')];
    return from && to && from !== to && !allowedImports[from]?.includes(to);
  });
  expect(wrong.map(({ path, specifier }) => `${path} imports ${specifier}`)).toEqual([]);
});

test('a model imports no React, no view and no style sheet', () => {
  const isModel = (path: string) => dirname(path).endsWith('/model');
  const wrong = imports.filter(
    ({ path, specifier, file }) =>
      isModel(path) &&
      (/^(react|react-dom|wouter|@tanstack\/react-\w+)(\/|$)/.test(specifier) ||
        (file?.startsWith(folder) && !isModel(file))),
  );
  expect(wrong.map(({ path, specifier }) => `${path} imports ${specifier}`)).toEqual([]);
});

test('a style sheet is named like its folder, or like a part of the page that would make that one too long', () => {
  const sheets = filesBelow(folder.slice(0, -1)).filter((path) => path.endsWith('.css'));
  const others = sheets.filter((path) => basename(path, '.css') !== basename(dirname(path)));
  expect(others.map((path) => path.slice(folder.length)).sort()).toEqual([
    'agent/panels/changes.css',
    'agent/queue.css',
    'agent/review/code.css',
    'agent/transcript/tools.css',
    'catalog/editor.css',
    'catalog/form.css',
    'home/agent-row.css',
    'parts/list-page.css',
    'parts/markdown.css',
  ]);
  expect(sheets.filter((path) => linesIn(readText(path)) > 450)).toEqual([]);
});

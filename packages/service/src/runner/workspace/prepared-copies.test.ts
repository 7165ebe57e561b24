import { execFileSync } from 'node:child_process';
import { existsSync, linkSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { mkdir, mkdtemp, utimes } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { limits, type ReportItem } from '@muster/sdk/contract';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { silentLog } from '../../lib/log.ts';
import { removeFolder } from '../disk.ts';
import { type CopyOptions, PreparedCopies } from './prepared-copies.ts';

let folder: string;
let copies: PreparedCopies;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'muster-copies-'));
  copies = new PreparedCopies(folder, silentLog);
});
afterEach(async () => {
  copies.close();
  await removeFolder(folder);
});

let agents = 0;

/** An agent that starts from the copy of these facts. */
async function start(facts: unknown, make: CopyOptions['make'], more: Partial<CopyOptions> = {}) {
  agents += 1;
  const agent = join(folder, `agent-${agents}`);
  await mkdir(agent);
  const items: ReportItem[] = [];
  const listener = { item: (item: ReportItem) => void items.push(item), action: () => {} };
  const signal = new AbortController().signal;
  const copy = await copies.folderFor(facts);
  const result = await copies.copyTo(agent, copy, { group: 'w', make, listener, signal, ...more });
  return { agent, copy, items, result };
}

const write: CopyOptions['make'] = async (copy, listener) => {
  listener.item({ type: 'SETUP_OUTPUT', text: 'writing\n' });
  writeFileSync(join(copy, 'workspace', 'file'), 'content');
  linkSync(join(copy, 'workspace', 'file'), join(copy, 'home', 'file'));
};
const never: CopyOptions['make'] = () => expect.unreachable();

/** The files of the next agent have been copied in advance: from then on nobody writes to the copy. */
const stocked = (copy: string) => expect.poll(() => existsSync(join(copy, 'spare'))).toBe(true);

it('a copy is made once for all who wait, who get its output; each has its own files', async () => {
  const started = await Promise.all([start('a', write), start('a', write), start('a', write)]);
  expect(started.map(({ items }) => items.length)).toEqual([1, 1, 1]);
  expect(started.map(({ result }) => result)).toEqual(['made', 'made', 'made']);
  const later = await start('a', never);
  expect(later).toMatchObject({ result: 'found', items: [] });
  await stocked(later.copy);
  // The files in advance are given to one agent only.
  const spare = statSync(join(later.copy, 'spare', 'workspace', 'file')).ino;
  const [one, two] = await Promise.all([start('a', never), start('a', never)]);
  const files = [one, two].map(({ agent }) => statSync(join(agent, 'workspace', 'file')).ino);
  expect(files.filter((ino) => ino === spare)).toHaveLength(1);
  for (const { agent, copy } of [...started, later, one, two]) {
    expect(readFileSync(join(agent, 'home', 'file'), 'utf8')).toBe('content');
    const own = statSync(join(agent, 'workspace', 'file'));
    expect(own).toMatchObject({ nlink: 2 });
    expect(own.ino).not.toBe(statSync(join(copy, 'workspace', 'file')).ino);
  }
});

it('a result with paths that are too long to copy is left to the agents, which get empty folders', async () => {
  const nest = `const name = 'x'.repeat(200);
    for (let i = 0; i < 30; i++) { require('node:fs').mkdirSync(name); process.chdir(name); }`;
  const makeDeep: CopyOptions['make'] = async (copy, listener) => {
    await write(copy, listener);
    execFileSync(process.execPath, ['-e', nest], { cwd: join(copy, 'workspace') });
  };
  const started = [await start('a', makeDeep), await start('a', never)];
  for (const { agent, result } of started) {
    expect(result).toBe('too deep');
    const left = readdirSync(agent, { recursive: true }).filter(
      (name) => !['workspace', 'home'].includes(`${name}`),
    );
    expect(left).toEqual([]);
  }
});

it('a failure is told to all who wait, and forgotten', async () => {
  const fail: CopyOptions['make'] = async (_, listener) => {
    listener.item({ type: 'SETUP_OUTPUT', text: 'failing\n' });
    throw new Error('exit code 3');
  };
  const failed = await Promise.allSettled([start('a', fail), start('a', fail)]);
  expect(failed.map((one) => one.status === 'rejected' && String(one.reason))).toEqual([
    'Error: exit code 3',
    'Error: exit code 3',
  ]);
  expect((await start('a', write)).result).toBe('made');
});

it('when the run that makes a copy is stopped, the next one makes it', async () => {
  const stop = new AbortController();
  const stuck: CopyOptions['make'] = (copy) => {
    writeFileSync(join(copy, 'workspace', 'half'), 'half');
    return new Promise((_, reject) =>
      stop.signal.addEventListener('abort', () => reject(stop.signal.reason)),
    );
  };
  const first = start('a', stuck, { signal: stop.signal });
  const copy = await copies.folderFor('a');
  await expect.poll(() => existsSync(join(copy, 'workspace', 'half'))).toBe(true);
  const second = start('a', write);
  stop.abort();
  await expect(first).rejects.toThrow('aborted');
  const { agent } = await second;
  expect(readdirSync(join(agent, 'workspace'))).toEqual(['file']);
});

it('what a killed runner did not complete is removed; what is complete outlives a restart', async () => {
  const { copy } = await start('a', write);
  await stocked(copy);
  const half = await copies.folderFor('b');
  await mkdir(join(half, 'workspace'), { recursive: true });
  await mkdir(join(copy, 'spare-unfinished'));
  copies = new PreparedCopies(folder, silentLog);
  await copies.removeIncomplete();
  expect(existsSync(half)).toBe(false);
  expect(existsSync(join(copy, 'spare-unfinished'))).toBe(false);
  expect(await copies.folderFor('a')).toBe(copy);
  expect((await start('a', never)).result).toBe('found');
  await stocked(copy);
  // After a restart of the machine, files may be missing.
  writeFileSync(join(copy, 'note.json'), JSON.stringify({ group: 'w', boot: 'another', bytes: 1 }));
  expect((await start('a', write)).result).toBe('made');
});

it('the least recently used copies are removed: of a workspace, over all, and when the disk is full', async () => {
  const used = async (copy: string, daysAgo: number) => {
    await stocked(copy);
    const at = new Date(Date.now() - daysAgo * 24 * 3_600_000);
    await utimes(join(copy, 'note.json'), at, at);
  };
  const left = async (...facts: string[]) => {
    const there = [];
    for (const fact of facts) if (existsSync(await copies.folderFor(fact))) there.push(fact);
    return there.join('');
  };
  await used((await start('a', write)).copy, 3);
  await used((await start('b', write)).copy, 2);
  await start('c', write);
  expect(limits.preparedCopiesPerWorkspace).toBe(2);
  await expect.poll(() => left('a', 'b', 'c')).toBe('bc');
  await used((await start('d', write, { group: 'other' })).copy, 9);
  // One that is in use, also for a spare, is removed by a later sweep.
  const afterSweep = async (isFull: () => Promise<boolean>) => {
    await copies.sweep(7, isFull);
    return left('b', 'c', 'd');
  };
  await expect.poll(() => afterSweep(async () => false)).toBe('bc');
  await expect.poll(() => afterSweep(async () => (await left('b')) !== '')).toBe('c');
});

import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { MusterClient } from '@muster/sdk';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { silentLog } from '../lib/log.ts';
import { agentFolders, sweepAgentFolders } from './agent-folders.ts';

const [ended = '', running = '', resting = '', other = '', killed = ''] = [1, 2, 3, 4, 5].map(
  (n) => `00000000-0000-4000-8000-00000000000${n}`,
);
const dayMs = 24 * 3_600_000;
const leftAgo = (days: number) => `${resting}.left-${Date.now() - days * dayMs}`;

let dataFolder: string;
const agents = () => join(dataFolder, 'agents');
beforeEach(async () => {
  dataFolder = await mkdtemp(join(tmpdir(), 'muster-sweep-'));
});
afterEach(() => rm(dataFolder, { recursive: true, force: true }));

async function sweep(
  names: readonly string[],
  keepDays: number,
  {
    diskUse = async () => 0.5,
    isBelowReserve = () => false,
    isBusy = (key) => key === running,
    ended: endedKeys = [ended, running],
  }: {
    readonly diskUse?: () => Promise<number>;
    readonly isBelowReserve?: () => boolean;
    readonly isBusy?: (key: string) => boolean;
    readonly ended?: readonly string[];
  } = {},
) {
  for (const name of names) await mkdir(join(agents(), name, 'workspace'), { recursive: true });
  const asked: unknown[] = [];
  const waitedFor: string[] = [];
  const warned: unknown[] = [];
  const client = {
    call: async (_: string, body: { readonly saved?: boolean; readonly killed?: boolean }) => {
      asked.push(body);
      return { ended: body.saved ? [...(body.killed ? [killed] : []), resting, other] : endedKeys };
    },
  } as unknown as MusterClient;
  await sweepAgentFolders({
    dataFolder,
    runnerId: 'r',
    client,
    signal: new AbortController().signal,
    keepDays,
    isBusy,
    onRemoval: (key, removal) => {
      expect(existsSync(join(agents(), key))).toBe(true);
      waitedFor.push(key);
      void removal;
    },
    log: { ...silentLog, warn: (fields) => warned.push(fields) },
    spaceOf: async () => ({ freeBytes: (1 - (await diskUse())) * 100, totalBytes: 100 }),
    isBelowReserve,
    preparedCopies: { sweep: async () => {} },
  });
  return { asked, waitedFor, warned, left: (await readdir(agents())).sort() };
}

it('removes the folders of ended agents, but not of an agent with a run here', async () => {
  const { asked, waitedFor, left } = await sweep([ended, running, resting, 'other'], 7);
  expect(asked).toEqual([{ runnerId: 'r', agentKeys: [ended, resting], forDays: 7 }]);
  expect(waitedFor).toEqual([ended]);
  expect(left).toEqual([running, resting, 'other']);
});

it('keeps the folders of an agent that was reopened while those of another one were removed', async () => {
  const isBusy = (key: string) => key === running || (key === resting && !existsSync(join(agents(), ended)));
  const { waitedFor, left } = await sweep([ended, resting], 7, { isBusy, ended: [ended, resting] });
  expect(waitedFor).toEqual([ended]);
  expect(left).toEqual([resting]);
});

it('keeps folders that were set aside for the same time', async () => {
  const [old, young] = [leftAgo(8), leftAgo(6)];
  expect((await sweep([old, young, `${resting}.left-`, 'x.left-1'], 7)).left).toEqual(
    [young, `${resting}.left-`, 'x.left-1'].sort(),
  );
});

it('removes folders of ended agents early while the disk is almost full, and logs it', async () => {
  const uses = [0.9, 0.9, 0.8];
  const { asked, waitedFor, warned, left } = await sweep([resting, other], 7, {
    diskUse: async () => uses.shift() ?? 1,
  });
  expect(asked.at(-1)).toEqual({ runnerId: 'r', agentKeys: [resting, other], forDays: 0, saved: true });
  expect(waitedFor).toEqual([resting]);
  expect(warned).toEqual([{ agentKey: resting }]);
  expect(left).toEqual([other]);
});

it('removes the folders of killed agents first, with unsaved work, while the free space is below the reserve', async () => {
  const names = [killed, resting];
  let checks = 0;
  const first = await sweep(names, 7, { isBelowReserve: () => checks++ < 3 });
  const body = { runnerId: 'r', agentKeys: names.toSorted(), forDays: 0, saved: true, killed: true };
  expect(first.asked.at(-1)).toEqual(body);
  expect(first.warned).toEqual([{ agentKey: killed }]);
  expect(first.left).toEqual([resting]);
  const second = await sweep(names, 7, { diskUse: async () => 0.9 });
  expect(second.left).toEqual([killed]);
});

it('sets the folders of an agent aside when the note next to them is incomplete', async () => {
  const folder = join(agents(), resting);
  await mkdir(join(folder, 'workspace'), { recursive: true });
  await writeFile(join(folder, 'note.json'), '');
  await writeFile(join(folder, 'workspace', 'unpushed'), 'work');
  const { workspaceFolder, isFresh } = await agentFolders(dataFolder, {
    agentKey: resting,
    homeSince: 1,
    workspace: { document: {}, environment: {}, environmentVersion: '', vmProfile: {} },
  });
  expect(isFresh).toBe(true);
  expect(await readdir(workspaceFolder)).toEqual([]);
  const [aside = ''] = (await readdir(agents())).filter((name) => name !== resting);
  expect(await readFile(join(agents(), aside, 'workspace', 'unpushed'), 'utf8')).toBe('work');
});

import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { MusterClient } from '@muster/sdk';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { sweepAgents } from './sweep.ts';

const [ended, running, resting] = [1, 2, 3].map((n) => `00000000-0000-4000-8000-00000000000${n}`) as [
  string,
  string,
  string,
];
const dayMs = 24 * 3_600_000;
const leftAgo = (days: number) => `${resting}.left-${Date.now() - days * dayMs}`;

let dataFolder: string;
const agents = () => join(dataFolder, 'agents');
beforeEach(async () => {
  dataFolder = await mkdtemp(join(tmpdir(), 'muster-sweep-'));
});
afterEach(() => rm(dataFolder, { recursive: true, force: true }));

async function sweep(names: readonly string[], keepDays: number) {
  for (const name of names) await mkdir(join(agents(), name, 'workspace'), { recursive: true });
  const asked: unknown[] = [];
  const waitedFor: string[] = [];
  const client = {
    call: async (_: string, body: unknown) => {
      asked.push(body);
      return { ended: [ended, running] };
    },
  } as unknown as MusterClient;
  await sweepAgents({
    dataFolder,
    runnerId: 'r',
    client,
    signal: new AbortController().signal,
    keepDays,
    isBusy: (key) => key === running,
    removing: (key, removal) => {
      expect(existsSync(join(agents(), key))).toBe(true);
      waitedFor.push(key);
      void removal;
    },
  });
  return { asked, waitedFor, left: (await readdir(agents())).sort() };
}

it('removes the folders that the service names, but not of an agent with a run here', async () => {
  const { asked, waitedFor, left } = await sweep([ended, running, resting, 'other'], 7);
  expect(asked).toEqual([{ runnerId: 'r', agentKeys: [ended, resting], forDays: 7 }]);
  expect(waitedFor).toEqual([ended]);
  expect(left).toEqual([running, resting, 'other']);
});

it('keeps what was set aside as long', async () => {
  const [old, young] = [leftAgo(8), leftAgo(6)];
  expect((await sweep([old, young, `${resting}.left-`, 'x.left-1'], 7)).left).toEqual(
    [young, `${resting}.left-`, 'x.left-1'].sort(),
  );
});

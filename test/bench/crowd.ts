import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import type { Run } from '@muster/sdk/contract';
import { backends, startAgentsStage } from './agents.ts';
import { median } from './tools.ts';

const size = 20;
/** How long the first answers are held once there are as many as may be, for one too many to show itself. */
const heldMs = 2_000;
const patienceMs = 60_000;

export interface Crowd {
  readonly size: number;
  /** How the runs ended, and how many of them so. */
  readonly outcomes: Readonly<Record<string, number>>;
  /** The most at one time: runs between claim and end, sandboxes with something in them, requests held by the stub. */
  readonly peakRuns: number;
  readonly peakSandboxes: number;
  readonly peakRequests: number;
  /** The resident memory of everything in the sandbox of an agent that waits for its model. */
  readonly memoryMb: readonly { readonly title: string; readonly mb: number }[];
}

/** Agents of both backends, all queued at once on one runner, which has room for `most` of them. */
export async function crowd(most: number): Promise<Crowd> {
  const stage = await startAgentsStage();
  const { agents, stub, service } = stage;
  try {
    let waiting = 0;
    let full: () => void = () => {};
    let release: () => void = () => {};
    const filled = new Promise<void>((resolve) => {
      full = resolve;
    });
    const released = new Promise<void>((resolve) => {
      release = resolve;
    });
    const members = Array.from({ length: size }, (_, n) => {
      const { model } = backends[n % backends.length] ?? backends[0];
      const text = `Say that it is done. ${stub.script([{ until: released }, { say: 'Done.' }])}`;
      void stub
        .whenSeen(({ body }) => JSON.stringify(body).includes(text))
        .then(() => {
          waiting += 1;
          if (waiting === most) full();
        });
      return { name: `crowd-${n}`, model, text };
    });
    await Promise.all(
      members.map(({ name, model, text }) => agents.spawn(name, { model, description: text })),
    );
    await Promise.race([filled, pause(patienceMs, undefined, { ref: false })]);
    let peakSandboxes = 0;
    for (let ms = 0; ms < heldMs; ms += 100) {
      peakSandboxes = Math.max(peakSandboxes, sandboxesOf(service.pid).length);
      await pause(100);
    }
    const memoryMb = memoryOf(sandboxesOf(service.pid));
    const peakRequests = waiting;
    release();
    const runs: Run[] = [];
    for (const { name } of members) {
      await agents.wait(name);
      runs.push(...(await agents.runs(name)));
    }
    const outcomes: Record<string, number> = {};
    for (const { outcome } of runs) outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
    return { size, outcomes, peakRuns: peakOf(runs), peakRequests, peakSandboxes, memoryMb };
  } finally {
    await stage.close();
  }
}

/** The most that were live at one time, from claim to end. */
function peakOf(runs: readonly Run[]): number {
  const changes = runs.flatMap(({ startedAt, endedAt }) => [
    { at: Date.parse(startedAt), by: 1 },
    { at: Date.parse(endedAt ?? ''), by: -1 },
  ]);
  // A run that ends in the millisecond in which another starts made room for it.
  changes.sort((a, b) => a.at - b.at || a.by - b.by);
  let live = 0;
  return Math.max(
    ...changes.map(({ by }) => {
      live += by;
      return live;
    }),
  );
}

interface Process {
  readonly pid: number;
  readonly parent: number;
  readonly name: string;
}

/** Each sandbox that a service's runner has started, with all that is in it. */
function sandboxesOf(servicePid: number): Process[][] {
  const all = readdirSync('/proc').map(Number).filter(Boolean).flatMap(processOf);
  const below = (process: Process): Process[] => [
    process,
    ...all.filter(({ parent }) => parent === process.pid).flatMap(below),
  ];
  return all.filter(({ parent, name }) => parent === servicePid && name === 'bwrap').map(below);
}

function processOf(pid: number): Process[] {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const [, name = ''] = /\((.*)\)/s.exec(stat) ?? [];
    const [, parent] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return [{ pid, parent: Number(parent), name }];
  } catch {
    return [];
  }
}

function memoryOf(sandboxes: readonly Process[][]): Crowd['memoryMb'] {
  const programs = { claude: 'Claude Code', codex: 'Codex' };
  return Object.entries(programs).map(([program, title]) => {
    const own = sandboxes.filter((tree) => tree.some(({ name }) => name === program));
    return { title, mb: median(own.map((tree) => tree.reduce((sum, { pid }) => sum + residentMb(pid), 0))) };
  });
}

function residentMb(pid: number): number {
  try {
    const [, kilobytes] = /^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
    return Number(kilobytes ?? 0) / 1024;
  } catch {
    return 0;
  }
}

import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { limits, type Run } from '@muster/sdk/contract';
import { backends, startAgentBench } from './agents.ts';
import { ceiling, gate, say } from './report.ts';
import { median } from './tools.ts';

const size = 20;
/** How long the replies are held when the runner is full, so that a run too many is noticed. */
const holdMs = 2_000;
const fillTimeoutMs = 60_000;

interface FullRunner {
  readonly size: number;
  /** The number of runs by outcome. */
  readonly outcomes: Readonly<Record<string, number>>;
  /** The most at the same time: runs between claim and end, sandboxes with processes, requests held by the stub. */
  readonly peakRuns: number;
  readonly peakSandboxes: number;
  readonly peakRequests: number;
  /** The resident memory of all processes in the sandbox of an agent that waits for its model. */
  readonly memoryMb: readonly { readonly title: string; readonly mb: number }[];
}

export async function fullRunner(): Promise<void> {
  const { size, outcomes, peakRuns, peakRequests, peakSandboxes, memoryMb } = await fillRunner(
    limits.runsPerRunner,
  );
  const ended = Object.entries(outcomes).map(([outcome, count]) => `${count} ${outcome}`);
  say(`      ${size} agents queued at the same time: ${ended.join(', ')}`);
  say(`      most at one time: ${peakRuns} runs, ${peakSandboxes} sandboxes, ${peakRequests} model requests`);
  for (const { title, mb } of memoryMb)
    say(`      memory of a live ${title} agent with its sandbox, resident: ${mb.toFixed(0)} MB`);
  gate('agents on a full runner that completed', outcomes.COMPLETED ?? 0, size);
  ceiling('runs on a full runner that were lost', outcomes.LOST ?? 0, 0);
  ceiling(
    'agents live at the same time on a full runner',
    Math.max(peakRuns, peakSandboxes),
    limits.runsPerRunner,
  );
}

/** Agents of both backends, all queued at the same time on one runner with room for `most` of them. */
async function fillRunner(most: number): Promise<FullRunner> {
  const bench = await startAgentBench();
  const { agents, stub, service } = bench;
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
      return { name: `agent-${n}`, model, text };
    });
    await Promise.all(
      members.map(({ name, model, text }) => agents.spawn(name, { model, description: text })),
    );
    await Promise.race([filled, pause(fillTimeoutMs, undefined, { ref: false })]);
    let peakSandboxes = 0;
    for (let ms = 0; ms < holdMs; ms += 100) {
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
    await bench.close();
  }
}

/** The most runs at the same time, from claim to end. */
function peakOf(runs: readonly Run[]): number {
  const changes = runs.flatMap(({ startedAt, endedAt }) => [
    { at: Date.parse(startedAt), by: 1 },
    { at: Date.parse(endedAt ?? ''), by: -1 },
  ]);
  // A run that ends in the same millisecond in which another starts ended first.
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

/** The processes of each sandbox that a service's runner has started. */
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

function memoryOf(sandboxes: readonly Process[][]): FullRunner['memoryMb'] {
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

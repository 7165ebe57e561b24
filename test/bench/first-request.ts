import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { type AgentBench, backends, startAgentBench } from './agents.ts';
import { type BareHarness, bareClaudeCode, bareCodex } from './bare-harness.ts';
import { startBareTools } from './bare-tools.ts';
import { ceiling, say } from './report.ts';
import { alternated } from './tools.ts';

const rounds = 15;
const makeBare = { 'Claude Code': bareClaudeCode, Codex: bareCodex } as const;
/** The most that Muster's time may be, as a multiple of the bare harness's. */
const gates = { 'Claude Code': 1.5, Codex: 1.6 } as const;

interface FirstRequest {
  readonly title: string;
  readonly oursMs: number;
  readonly bareMs: number;
  readonly most: number;
}

export async function firstRequest(): Promise<void> {
  for (const { title, oursMs, bareMs, most } of await firstRequests()) {
    say(
      `      ${title}, a message → its model request: bare ${bareMs.toFixed(0)} ms, by Muster ${oursMs.toFixed(0)} ms`,
    );
    ceiling(`first model request of a resumed ${title} against the bare one`, oursMs / bareMs, most);
  }
}

/**
 * A resumed session, from the message to the arrival of the model request at the stub: by Muster, from the call that
 * queues it for an idle agent; bare, from the start of the harness's process.
 */
async function firstRequests(): Promise<FirstRequest[]> {
  const bench = await startAgentBench();
  const tools = await startBareTools();
  try {
    const measured: FirstRequest[] = [];
    for (const { title, model } of backends) {
      const bare = makeBare[title]({
        stub: bench.stub,
        model,
        workspaceFolder: bench.clone(`bare ${title}`),
        homeFolder: homeIn(bench.folder, title),
        toolsUrl: tools.url,
      });
      measured.push({ title, most: gates[title], ...(await measure(bench, title, model, bare)) });
    }
    return measured;
  } finally {
    tools.close();
    await bench.close();
  }
}

async function measure(bench: AgentBench, title: string, model: string, bare: BareHarness) {
  const { agents } = bench;
  const name = title.toLowerCase().replaceAll(' ', '-');
  // Two turns each that do not count: the first begins the session, the second warms up what resuming needs.
  const begin = request(bench);
  await agents.spawn(name, { model, description: begin.text });
  await rested(bench, name);
  const ours = async (): Promise<number> => {
    const { text, arrived } = request(bench);
    const from = performance.now();
    await agents.queue(name, text);
    const ms = (await arrived) - from;
    await rested(bench, name);
    return ms;
  };
  const theirs = async (): Promise<number> => {
    const { text, arrived } = request(bench);
    const from = performance.now();
    const turn = bare.turn(text);
    const ms = (await Promise.race([arrived, turn.then(() => arrived)])) - from;
    await turn;
    return ms;
  };
  await theirs();
  await ours();
  await theirs();
  const { oursMs, bareMs } = await alternated({ bareMs: theirs, oursMs: ours }, rounds);
  return { oursMs, bareMs };
}

/** A unique message, and when the model request with it arrives. */
function request({ stub }: AgentBench): { text: string; arrived: Promise<number> } {
  const text = `Say that it is done. ${stub.script([{ say: 'Done.' }])}`;
  const arrived = stub
    .whenSeen(({ body }) => JSON.stringify(body).includes(text))
    .then(() => performance.now());
  return { text, arrived };
}

async function rested({ agents }: AgentBench, name: string): Promise<void> {
  const { phaseReason, error } = await agents.wait(name);
  if (phaseReason !== 'RESTING') throw new Error(`${name} does not rest: ${JSON.stringify(error)}`);
}

function homeIn(folder: string, title: string): string {
  const home = join(folder, `home of ${title}`);
  mkdirSync(home);
  return home;
}

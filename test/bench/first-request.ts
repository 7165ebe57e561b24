import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { type AgentsStage, backends, startAgentsStage } from './agents.ts';
import { type BareHarness, bareClaudeCode, bareCodex } from './bare-harness.ts';
import { startBareTools } from './bare-tools.ts';
import { alternated } from './tools.ts';

const rounds = 15;
const makeBare = { 'Claude Code': bareClaudeCode, Codex: bareCodex } as const;
/** Of our time against the bare one. */
const gates = { 'Claude Code': 1.5, Codex: 1.6 } as const;

export interface FirstRequest {
  readonly title: string;
  readonly oursMs: number;
  readonly bareMs: number;
  readonly most: number;
}

/**
 * A resumed session, from the message to the arrival of the model request at the stub: by Muster, from the call that
 * queues it for an agent at rest; bare, from the start of the harness's process.
 */
export async function firstRequests(): Promise<FirstRequest[]> {
  const stage = await startAgentsStage();
  const tools = await startBareTools();
  try {
    const measured: FirstRequest[] = [];
    for (const { title, model } of backends) {
      const bare = makeBare[title]({
        stub: stage.stub,
        model,
        workspaceFolder: stage.clone(`bare ${title}`),
        homeFolder: homeIn(stage.folder, title),
        toolsUrl: tools.url,
      });
      measured.push({ title, most: gates[title], ...(await measure(stage, title, model, bare)) });
    }
    return measured;
  } finally {
    tools.close();
    await stage.close();
  }
}

async function measure(stage: AgentsStage, title: string, model: string, bare: BareHarness) {
  const { agents } = stage;
  const name = title.toLowerCase().replaceAll(' ', '-');
  // Two turns each that do not count: the first begins the session, the second warms up what resuming needs.
  const begin = request(stage);
  await agents.spawn(name, { model, description: begin.text });
  await rested(stage, name);
  const ours = async (): Promise<number> => {
    const { text, arrived } = request(stage);
    const from = performance.now();
    await agents.queue(name, text);
    const ms = (await arrived) - from;
    await rested(stage, name);
    return ms;
  };
  const theirs = async (): Promise<number> => {
    const { text, arrived } = request(stage);
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

/** A message that nobody else sends, and when the model request that carries it arrives. */
function request({ stub }: AgentsStage): { text: string; arrived: Promise<number> } {
  const text = `Say that it is done. ${stub.script([{ say: 'Done.' }])}`;
  const arrived = stub
    .whenSeen(({ body }) => JSON.stringify(body).includes(text))
    .then(() => performance.now());
  return { text, arrived };
}

async function rested({ agents }: AgentsStage, name: string): Promise<void> {
  const { phaseReason, error } = await agents.wait(name);
  if (phaseReason !== 'RESTING') throw new Error(`${name} does not rest: ${JSON.stringify(error)}`);
}

function homeIn(folder: string, title: string): string {
  const home = join(folder, `home of ${title}`);
  mkdirSync(home);
  return home;
}

import { pipeline } from 'node:stream/promises';
import { agentIdOf, type MusterClient, MusterError, NotFoundError, type Run } from '@muster/sdk';
import { ageOf, bytesText, clock, dollars, thousands } from '@muster/sdk/contract';
import type { Command } from 'commander';
import { addCommand, type Flags, type Invocation } from './command.ts';
import { CommandError, exitCodes } from './errors.ts';
import { checkTarget, writeNewFile } from './output.ts';

/** Commands that show what an agent's turns produced. */
export function addRunCommands(program: Command): void {
  addCommand(
    program,
    'runs <agent>',
    "list an agent's turns, newest first, with outcome and cost",
    runs,
  ).option('--run <number>', 'show one turn with its whole response');
  addCommand(program, 'diff <agent>', "show the changes on an agent's branch", diff).option(
    '--working-tree',
    'include changes that are not committed or not pushed',
  );
  const workText = "download an agent's newest checkpoint, its unpushed work and its session, as a tar.gz";
  addCommand(program, 'work <agent>', workText, work)
    .option(
      '-f, --file <path>',
      'output file; - is standard output; default AGENT-work.tar.gz in this folder',
    )
    .option('--force', 'replace the file');
}

async function runs(
  { flags, client, output, signal }: Invocation<Flags<'run'>>,
  agent: string,
): Promise<void> {
  const reply = await client().runs(agent, { runId: flags.run, signal });
  if (flags.run !== undefined) {
    for (const run of reply.runs) output.answer(run, () => output.line(resultText(run)));
    return;
  }
  await output.table(
    reply.runs,
    [
      { title: 'RUN', of: ({ runId }) => runId, isRight: true },
      { title: 'STATUS', of: ({ outcome, state }) => (outcome || state).replaceAll('_', ' ').toLowerCase() },
      { title: 'STARTED', of: ({ startedAt }) => clock(startedAt) },
      { title: 'SECONDS', of: secondsOf, isRight: true },
      { title: 'COST', of: ({ cost }) => dollars(cost), isRight: true },
      { title: 'IN', of: ({ inputTokens }) => thousands(inputTokens), isRight: true },
      { title: 'OUT', of: ({ outputTokens }) => thousands(outputTokens), isRight: true },
      { title: 'RESPONSE', of: ({ response, error }) => error?.message ?? response, isFlexible: true },
    ],
    `${agent} has no runs yet`,
  );
}

function resultText({ response, structuredOutput, error }: Run): string {
  const output = structuredOutput === null ? '' : JSON.stringify(structuredOutput, null, 2);
  return [response, output, error && `${error.code}: ${error.message}`].filter(Boolean).join('\n');
}

const secondsOf = ({ startedAt, endedAt }: Run): string =>
  endedAt === null ? '' : String(Math.round((Date.parse(endedAt) - Date.parse(startedAt)) / 1000));

async function diff(
  { flags, client, output, signal }: Invocation<Flags<never, 'workingTree'>>,
  agent: string,
): Promise<void> {
  const reply = await client().diff(agent, { signal });
  output.answer(reply, ({ diff: pushed, workingTree }) => {
    const patch = flags.workingTree ? (workingTree?.diff ?? '') : pushed;
    if (patch !== '') output.diff(patch);
    else if (flags.workingTree) output.note(`the working tree of ${agent} has no changes`);
    else
      output.note(
        `${agent} has pushed nothing${workingTree?.diff ? '; --working-tree shows unpushed changes' : ''}`,
      );
  });
}

const downloads = 5;

async function work(
  { flags, client, output, signal }: Invocation<Flags<'file', 'force'>>,
  agent: string,
): Promise<void> {
  const { file = `${agentIdOf(agent).agent?.join('-')}-work.tar.gz`, force = false } = flags;
  checkTarget(file, force, output);
  const downloading = download(client(), agent, signal);
  const { content, ...checkpoint } = await output.progress.during('downloading the checkpoint', downloading);
  const { runId, completedAt, bytes } = checkpoint;
  const about = `saved ${ageOf(completedAt)} ago in run ${runId}, ${bytesText(Number(bytes))}`;
  if (file === '-') {
    await new Promise((resolve) => process.stdout.write(content, resolve));
    output.note(about);
    return;
  }
  await writeNewFile(file, force, (stream) => pipeline([content], stream, { signal }));
  output.answer({ file, ...checkpoint }, () => {
    output.note(`${about}; written to ${file}`);
    output.note(`muster checkout ${agent} brings it into a clone. Or do it yourself:`);
    output.note(`unpack it: mkdir work && tar -xzf ${file} -C work`);
    output.note(
      `then fetch its commits into a clone: git fetch work/repos/<path>.bundle 'refs/*:refs/muster-work/*'`,
    );
  });
}

/** Starts over when the agent saves a newer checkpoint during the download. */
export async function download(client: MusterClient, agent: string, signal: AbortSignal) {
  for (let left = downloads; left > 0; left -= 1) {
    try {
      return await downloadOnce(client, agent, signal);
    } catch (error) {
      if (error instanceof NotFoundError) {
        // Throws if it is the agent that does not exist.
        await client.status(agent, { signal });
        throw new CommandError(
          `${agent} has no checkpoint: nothing was saved yet, or it was removed after the agent ended`,
          exitCodes.notFound,
        );
      }
      if (!(error instanceof MusterError) || error.reason !== 'CHECKPOINT_REPLACED') throw error;
    }
  }
  throw new CommandError(
    `${agent} saved a newer checkpoint during each of ${downloads} downloads; try again`,
    exitCodes.conflict,
  );
}

async function downloadOnce(client: MusterClient, agent: string, signal: AbortSignal) {
  const { content, parts, ...checkpoint } = await client.checkpoint(agent, { signal });
  const { checkpointId } = checkpoint;
  const contents = [content];
  for (let part = 1; part < parts; part += 1)
    contents.push((await client.checkpoint(agent, { checkpointId, part, signal })).content);
  return { ...checkpoint, content: Buffer.concat(contents.map((each) => Buffer.from(each, 'base64'))) };
}

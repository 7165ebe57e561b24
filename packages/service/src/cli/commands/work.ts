import { existsSync } from 'node:fs';
import { rename, rm, writeFile } from 'node:fs/promises';
import { agentIdOf, type MusterClient, MusterError, NotFoundError } from '@muster/sdk';
import { ageOf, bytesText } from '@muster/sdk/contract';
import { CommandError, exitCodes } from '../exit-codes.ts';
import type { Invocation } from '../invocation.ts';

interface Flags {
  readonly file?: string;
  readonly force?: boolean;
}

const tries = 5;

export async function run({ args, flags, client, output, signal }: Invocation<Flags>): Promise<void> {
  const agent = args[0] as string;
  const { file = `${agentIdOf(agent).agent?.join('-')}-work.tar.gz`, force = false } = flags;
  if (file === '-' && output.isTerminal)
    throw new CommandError('a terminal cannot show an archive; use -f FILE, or a pipe', exitCodes.usage);
  refuseExisting(file, force);
  const work = download(client(), agent, signal);
  const { content, ...checkpoint } = await output.waiting.during('downloading the checkpoint', work);
  const { runId, completedAt, bytes } = checkpoint;
  const about = `saved ${ageOf(completedAt)} ago in run ${runId}, ${bytesText(Number(bytes))}`;
  if (file === '-') {
    await new Promise((resolve) => process.stdout.write(content, resolve));
    output.note(about);
    return;
  }
  await write(file, content, force);
  output.answer({ file, ...checkpoint }, () => {
    output.note(`${about}; written to ${file}`);
    output.note(`unpack it: mkdir work && tar -xzf ${file} -C work`);
    output.note(
      `then fetch its commits into a clone: git fetch work/repos/<path>.bundle 'refs/*:refs/muster-work/*'`,
    );
  });
}

/** Begins again when the agent saves a newer checkpoint meanwhile. */
async function download(client: MusterClient, agent: string, signal: AbortSignal) {
  for (let left = tries; left > 0; left -= 1) {
    try {
      return await wholeCheckpoint(client, agent, signal);
    } catch (error) {
      if (error instanceof NotFoundError) {
        // Throws when it is the agent that does not exist.
        await client.status(agent, { signal });
        throw new CommandError(
          `${agent} has no checkpoint: nothing was saved yet, or the agent ended long ago`,
          exitCodes.notFound,
        );
      }
      if (!(error instanceof MusterError) || error.reason !== 'CHECKPOINT_REPLACED') throw error;
    }
  }
  throw new CommandError(
    `${agent} saved a newer checkpoint during each of ${tries} downloads; try again`,
    exitCodes.conflict,
  );
}

async function wholeCheckpoint(client: MusterClient, agent: string, signal: AbortSignal) {
  const { content, parts, ...checkpoint } = await client.checkpoint(agent, { signal });
  const { checkpointId } = checkpoint;
  const contents = [content];
  for (let part = 1; part < parts; part += 1)
    contents.push((await client.checkpoint(agent, { checkpointId, part, signal })).content);
  return { ...checkpoint, content: Buffer.concat(contents.map((each) => Buffer.from(each, 'base64'))) };
}

async function write(file: string, content: Buffer, force: boolean): Promise<void> {
  const partial = `${file}.${process.pid}.part`;
  try {
    // For its owner alone: the session is in it. `flush` has it on the disk before it gets its name.
    await writeFile(partial, content, { flag: 'wx', mode: 0o600, flush: true });
    refuseExisting(file, force);
    await rename(partial, file);
  } catch (error) {
    await rm(partial, { force: true });
    if (error instanceof CommandError) throw error;
    throw new CommandError(`${file} can't be written: ${(error as Error).message}`, exitCodes.usage);
  }
}

function refuseExisting(file: string, force: boolean): void {
  if (file !== '-' && !force && existsSync(file))
    throw new CommandError(`${file} exists already; --force replaces it`, exitCodes.conflict);
}

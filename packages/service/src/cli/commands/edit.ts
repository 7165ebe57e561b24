import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { FailedPreconditionError } from '@muster/sdk';
import { kindOf } from '@muster/sdk/contract';
import { formatResource, parseResources } from '../documents.ts';
import { CommandError, exitCodes } from '../exit-codes.ts';
import { exitCodeOf } from '../failure.ts';
import type { Invocation } from '../invocation.ts';

interface Flags {
  readonly justification?: string;
}

/** What was typed is never lost: when it can't be written, the file stays and is named. */
export async function run({
  args,
  flags,
  client: connect,
  output,
  env,
  signal,
}: Invocation<Flags>): Promise<void> {
  const [kindName, name] = args as [string, string];
  const kind = kindOf(kindName) ?? kindName;
  const client = connect();
  const current = await client.catalog.read(kind, name, { signal });
  const folder = mkdtempSync(join(tmpdir(), 'muster-edit-'));
  const file = join(folder, `${name}.${kind === 'persona' ? 'md' : 'yaml'}`);
  const before = formatResource(kind, name, current.document);
  writeFileSync(file, before);
  const editor = env.VISUAL || env.EDITOR || 'vi';
  if (!(await isEdited(editor, file)))
    throw new CommandError(`${editor} did not end well; your text is in ${file}`);
  const after = readFileSync(file, 'utf8');
  if (after === before) {
    rmSync(folder, { recursive: true });
    output.note('nothing was changed');
    return;
  }
  try {
    const [edited] = parseResources(after, file, name);
    if (!edited || edited.name !== name || edited.kind !== kind)
      throw new CommandError(
        'kind and name must stay (muster apply -f writes another resource)',
        exitCodes.usage,
      );
    const settings = { ifGenerationMatch: current.generation, justification: flags.justification, signal };
    const written = await client.catalog.write(kind, name, edited.fields, settings);
    output.answer(written, () => output.line(`${kind}/${name} changed (generation ${written.generation})`));
  } catch (failure) {
    const why =
      failure instanceof FailedPreconditionError ? 'it was changed meanwhile' : (failure as Error).message;
    throw new CommandError(`${why}; your text is in ${file}`, exitCodeOf(failure));
  }
  rmSync(folder, { recursive: true });
}

/** Ctrl-C in the editor is the editor's, not ours nor the shell's between us. */
async function isEdited(editor: string, file: string): Promise<boolean> {
  const ours = process.rawListeners('SIGINT') as NodeJS.SignalsListener[];
  const ignore = (): void => {};
  process.removeAllListeners('SIGINT').on('SIGINT', ignore);
  try {
    const child = spawn('/bin/sh', ['-c', `trap : INT; ${editor} "$1"`, 'sh', file], { stdio: 'inherit' });
    const [exitCode] = (await once(child, 'close')) as [number | null];
    return exitCode === 0;
  } finally {
    for (const listener of ours) process.on('SIGINT', listener);
    process.off('SIGINT', ignore);
  }
}

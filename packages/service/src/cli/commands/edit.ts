import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { FailedPreconditionError } from '@muster/sdk';
import { kindOf } from '@muster/sdk/contract';
import { formatResource, parseResources } from '../documents.ts';
import { CommandError, exitCodes } from '../exit-codes.ts';
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
  const { status, error } = spawnSync('/bin/sh', ['-c', `${editor} "$1"`, 'sh', file], { stdio: 'inherit' });
  if (error || status !== 0) throw new CommandError(`${editor} did not end well; your text is in ${file}`);
  const after = readFileSync(file, 'utf8');
  if (after === before) {
    rmSync(folder, { recursive: true });
    output.note('nothing was changed');
    return;
  }
  try {
    const [edited] = parseResources(after, file, name);
    if (!edited || edited.name !== name || (kindOf(edited.kind) ?? edited.kind) !== kind)
      throw new CommandError(
        'kind and name must stay; muster apply -f writes another resource',
        exitCodes.usage,
      );
    const settings = { ifGenerationMatch: current.generation, justification: flags.justification, signal };
    const written = await client.catalog.write(kind, name, edited.fields, settings);
    output.answer(written, () => output.line(`${kind}/${name} changed (generation ${written.generation})`));
  } catch (failure) {
    const why =
      failure instanceof FailedPreconditionError ? 'it was changed meanwhile' : (failure as Error).message;
    throw new CommandError(`${why}; your text is in ${file}`, exitCodes.conflict);
  }
  rmSync(folder, { recursive: true });
}

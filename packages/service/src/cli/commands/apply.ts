import { type CatalogResource, type MusterClient, NotFoundError } from '@muster/sdk';
import { secretFields } from '@muster/sdk/contract';
import { createTwoFilesPatch } from 'diff';
import { formatResource, type ResourceFile, readResourceFiles } from '../documents.ts';
import { CommandError, exitCodes } from '../exit-codes.ts';
import { exitCodeOf } from '../failure.ts';
import type { Invocation } from '../invocation.ts';
import type { Output } from '../output.ts';
import { diffStyle } from '../patch.ts';

interface Flags {
  readonly file: readonly string[];
  readonly dryRun?: boolean;
  readonly justification?: string;
}

export async function run({ flags, client: connect, output, signal }: Invocation<Flags>): Promise<void> {
  const files = await readResourceFiles(flags.file, signal);
  if (files.length === 0)
    throw new CommandError(`there is no resource in ${flags.file.join(', ')}`, exitCodes.usage);
  const client = connect();
  const results: Awaited<ReturnType<typeof applyOne>>[] = [];
  for (const file of files) {
    const what = `${file.kind}/${file.name}`;
    const applying = applyOne(client, file, flags, output, signal).catch((error: unknown) => {
      if (signal.aborted) throw error;
      throw new CommandError(`${file.from}: ${what}: ${(error as Error).message}`, exitCodeOf(error));
    });
    const count = files.length > 1 ? ` (${results.length + 1} of ${files.length})` : '';
    results.push(await output.waiting.during(`applying ${what}${count}`, applying));
  }
  output.answer(results, () => {});
}

async function applyOne(
  client: MusterClient,
  file: ResourceFile,
  flags: Flags,
  output: Output,
  signal: AbortSignal,
) {
  const { kind, name, fields } = file;
  const current = await readIfThere(client, kind, name, signal);
  const title = `${kind}/${name}`;
  const before = current ? formatResource(kind, name, current.document) : '';
  const after = formatResource(kind, name, fields);
  if (current && before === after) {
    if (output.form === 'table') output.line(`${title} is as it should be`);
    return { kind, name, action: 'unchanged', generation: current.generation };
  }
  if (output.form === 'table') showDiff(title, before, after, output);
  const action = current && current.generation !== '0' ? 'changed' : 'created';
  if (flags.dryRun) {
    if (output.form === 'table') output.line(`${title} would be ${action}`);
    return { kind, name, action: `would be ${action}`, generation: current?.generation ?? '0' };
  }
  const { document, generation } = await client.catalog.write(kind, name, fields, {
    ifGenerationMatch: current?.generation ?? '0',
    justification: flags.justification,
    signal,
  });
  const secretField = secretFields[kind];
  const secret = secretField === undefined ? undefined : document[secretField];
  if (output.form === 'table') {
    output.line(`${title} ${action} (generation ${generation})`);
    if (typeof secret === 'string') output.line(`${secretField}: ${secret}  (shown once)`);
  }
  return {
    kind,
    name,
    action,
    generation,
    ...(secretField && typeof secret === 'string' && { [secretField]: secret }),
  };
}

async function readIfThere(
  client: MusterClient,
  kind: string,
  name: string,
  signal: AbortSignal,
): Promise<CatalogResource<Record<string, unknown>> | undefined> {
  try {
    return await client.catalog.read(kind, name, { signal });
  } catch (error) {
    if (error instanceof NotFoundError) return undefined;
    throw error;
  }
}

function showDiff(title: string, before: string, after: string, output: Output): void {
  const patch = createTwoFilesPatch(title, title, before, after, 'stored', 'new', { context: 2 });
  for (const line of patch.split('\n').slice(1)) {
    if (line !== '') output.line(output.paint(diffStyle(line), line));
  }
}

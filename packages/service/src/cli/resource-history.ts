import { reasonOf } from '@muster/sdk';
import { clock, kindOf, kinds, kindTable, limits, proseOf } from '@muster/sdk/contract';
import type { Command } from 'commander';
import { applyOne } from './apply.ts';
import { addCommand, type Flags, type Invocation } from './command.ts';
import { CommandError, exitCodes, usageError } from './errors.ts';
import { justificationOption } from './input.ts';

export function addHistoryCommands(program: Command): void {
  const historyText = 'show who changed a resource, when and why, or print what it was at one generation';
  addCommand(program, 'history <kind> <name>', historyText, history).option(
    '--generation <number>',
    'print the resource as it was then',
  );
  const restoreText = 'write a resource again as it was at a generation; shows the changes first';
  addCommand(program, 'restore <kind> <name>', restoreText, restore)
    .requiredOption('--generation <number>', 'the generation to restore, from muster history')
    .option('--dry-run', 'only show what would change')
    .option(...justificationOption);
}

async function history(
  invocation: Invocation<Flags<'generation'>>,
  kindName: string,
  name: string,
): Promise<void> {
  const { flags, client, output, signal } = invocation;
  const kind = kindOf(kindName) ?? kindName;
  if (flags.generation !== undefined) {
    const entry = await generationOf(invocation, kind, name, flags.generation);
    const { formatResource } = await import('./resource-files.ts');
    output.answer(entry, ({ document, text }) =>
      output.line(formatResource(kind, name, document, text).trimEnd()),
    );
    return;
  }
  const entries = [];
  for await (const entry of client().catalog.historyAll(kind, name, { signal })) entries.push(entry);
  await output.table(
    entries,
    [
      { title: 'GENERATION', of: (entry) => entry.generation, isRight: true },
      { title: 'WHEN', of: (entry) => clock(entry.at) },
      { title: 'BY', of: (entry) => entry.by, isFlexible: true },
      { title: 'ACTION', of: (entry) => entry.action.toLowerCase() },
      { title: 'FIELDS', of: (entry) => entry.updateMask || 'all', isFlexible: true },
      { title: 'WHY', of: reasonOf, isFlexible: true },
    ],
    `${kind}/${name} has no history: it was never written`,
  );
}

/** The audit record of a write, with what it wrote. */
async function generationOf(
  { client, signal }: Pick<Invocation, 'client' | 'signal'>,
  kind: string,
  name: string,
  generation: string,
) {
  if (!/^[1-9]\d{0,15}$/.test(generation))
    throw usageError(`--generation: expected a whole number of 1 or more; got "${generation}"`);
  for await (const entry of client().catalog.historyAll(kind, name, { signal })) {
    if (entry.generation !== generation) continue;
    const { document, action } = entry;
    if (!document)
      throw new CommandError(
        action === 'DELETE'
          ? `generation ${generation} deleted ${kind}/${name}`
          : `the document of generation ${generation} is no longer kept: the history has those of the newest ${limits.historyDocuments}`,
        exitCodes.conflict,
      );
    return { kind, name, ...entry, document };
  }
  throw new CommandError(
    `${kind}/${name} has no generation ${generation}; muster history ${kind} ${name} lists them`,
    exitCodes.notFound,
  );
}

type RestoreFlags = Flags<'justification', 'dryRun'> & { readonly generation: string };

async function restore(invocation: Invocation<RestoreFlags>, kindName: string, name: string): Promise<void> {
  const { flags, client, output } = invocation;
  const kind = kindOf(kindName);
  if (!kind) throw usageError(`unknown kind "${kindName}"; expected one of ${kinds.join(', ')}`);
  if (kindTable[kind].isRestorable === false)
    throw usageError(`a ${kind} can't be restored: its history does not have its value`);
  const { document, text } = await generationOf(invocation, kind, name, flags.generation);
  const { formatResource, parseResources } = await import('./resource-files.ts');
  const from = `generation ${flags.generation}${proseOf(kind) === undefined ? '' : '.md'}`;
  const [file] = parseResources(formatResource(kind, name, document, text), from, name);
  if (!file) throw new CommandError(`generation ${flags.generation} of ${kind}/${name} is empty`);
  const restored = await applyOne(invocation, client().catalog, file, `${kind}/${name}`);
  output.answer(restored, () => {});
}

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type CatalogEntry, FailedPreconditionError, type Role } from '@muster/sdk';
import { clock, kindOf, kinds, kindTable, limits, proseOf } from '@muster/sdk/contract';
import { type Command, Option } from 'commander';
import { apply, noteWarnings, readIfExists } from './apply.ts';
import { addCommand, type Flags, type Invocation } from './command.ts';
import { CommandError, exitCodeOf, usageError } from './errors.ts';
import {
  ask,
  collect,
  durationMs,
  fileText,
  isConfirmed,
  justificationOption,
  pipedText,
  readTenant,
  yesOption,
} from './input.ts';
import type { Column } from './output.ts';

type JustificationFlag = Flags<'justification'>;

export function addCatalogCommands(program: Command): void {
  const applyText = 'create or change resources from YAML or Markdown files; shows the changes first';
  addCommand(program, 'apply', applyText, apply)
    .requiredOption(
      '-f, --file <path>',
      'a file, a folder, or - for standard input; may be repeated',
      collect,
    )
    .option('--dry-run', 'check the documents and show what would change; nothing is written')
    .option('--strict', 'refuse documents with warnings, such as misspelt fields')
    .option(...justificationOption);
  addCommand(program, 'get', 'list the resources of a kind, or print one of them as a file', get)
    .argument('<kind>', kinds.join(', '))
    .argument('[name]');
  addCommand(program, 'edit <kind> <name>', 'edit a resource in your editor ($VISUAL, $EDITOR)', edit).option(
    ...justificationOption,
  );
  addCommand(program, 'delete <kind> <name>', 'delete a resource', deleteResource)
    .option(...yesOption)
    .option(...justificationOption);

  const token = program.command('token').description('create and revoke API keys');
  addCommand(token, 'create <name>', 'create an API key and print it once', createToken)
    .addOption(
      new Option('--role <role>', 'what the key may do; member if not given').choices([
        'viewer',
        'member',
        'admin',
        'operator',
        'runner',
        'metrics',
      ]),
    )
    .option('--tenant <tenant>', 'for operators: the tenant of the key, such as codehost_app/acme')
    .option('--account <name>', "the key's account; yours if not given")
    .option('--pool <name>', 'for role runner: the pool that the runner serves')
    .option('--expires <duration>', 'expires after this long, such as 90d')
    .option(...justificationOption);
  addCommand(token, 'revoke <name>', 'revoke an API key', revokeToken).option(...justificationOption);

  const secret = program.command('secret').description('set the values of secrets');
  const setText = 'set the value of a secret, from standard input, a file or the terminal; it is never shown';
  addCommand(secret, 'set <name>', setText, setSecret)
    .option('-f, --file <path>', 'a file with the value, or - for standard input')
    .option(...justificationOption);
}

type Entry = CatalogEntry<Readonly<Record<string, unknown>>>;

const nameColumn: Column<Entry> = { title: 'NAME', of: (entry) => entry.name, isFlexible: true };

const generationColumn: Column<Entry> = {
  title: 'GENERATION',
  of: (entry) => (entry.builtin ? 'builtin' : entry.generation),
  isRight: true,
};

const updatedColumn: Column<Entry> = {
  title: 'UPDATED',
  of: ({ document }) => (typeof document.updatedAt === 'string' ? clock(document.updatedAt) : ''),
};

/** What the service sets is not cut to the width of the terminal: it is there to be copied. */
const fieldColumn = (title: string, field: string, isFlexible: boolean): Column<Entry> => ({
  title,
  of: ({ document }) => String(document[field] ?? ''),
  ...(isFlexible && { isFlexible }),
});

function columnsOf(kindName: string): Column<Entry>[] {
  const kind = kindOf(kindName);
  const { columns = {}, serverFields = [], writers = 'admins' } = kind ? kindTable[kind] : {};
  const own = Object.entries(columns).map(([title, field]) =>
    fieldColumn(title, field, !serverFields.includes(field)),
  );
  return writers === 'nobody'
    ? [nameColumn, updatedColumn, ...own]
    : [nameColumn, generationColumn, updatedColumn, fieldColumn('BY', 'updatedBy', true), ...own];
}

/** Lists the resources of a kind, or prints one of them. */
export async function get(
  { client, output, signal }: Invocation,
  kindName: string,
  name?: string,
): Promise<void> {
  const kind = kindOf(kindName) ?? kindName;
  if (name !== undefined) {
    const { formatResource, ownServerFields } = await import('./resource-files.ts');
    const found = await client().catalog.read(kind, name, { signal });
    output.answer(found, () => {
      // Comments, so that the text can be applied again.
      for (const [field, value] of Object.entries(ownServerFields(kind, found.document)))
        output.line(`# ${field}: ${value}`);
      output.line(formatResource(kind, name, found.document, found.text).trimEnd());
    });
    return;
  }
  const entries = [];
  for await (const entry of client().catalog.listAll(kind, { signal })) entries.push(entry);
  await output.table(entries, columnsOf(kind), `no resources of kind ${kind}${hintFor(kind)}`);
}

const hintFor = (kind: string): string => {
  if (kind === 'change-request') return '; open one with muster cr open <agent>';
  if (kind === 'token') return '; create one with muster token create <name>';
  return kind === 'secret' ? '; set one with muster secret set <name>' : '; create one with muster apply -f';
};

/** Never loses what was typed: when it can't be written, the file stays and the error names it. */
async function edit(
  { flags, client, output, env, signal }: Invocation<JustificationFlag>,
  kindName: string,
  name: string,
): Promise<void> {
  const { formatResource, parseResources } = await import('./resource-files.ts');
  const kind = kindOf(kindName) ?? kindName;
  const current = await client().catalog.read(kind, name, { signal });
  const folder = mkdtempSync(join(tmpdir(), 'muster-edit-'));
  const file = join(folder, `${name}.${proseOf(kind) === undefined ? 'yaml' : 'md'}`);
  const before = formatResource(kind, name, current.document, current.text);
  writeFileSync(file, before);
  const editor = env.VISUAL || env.EDITOR || 'vi';
  const exitCode = await runEditor(editor, file);
  if (exitCode !== 0)
    throw new CommandError(`${editor} failed (exit code ${exitCode}); your text is in ${file}`);
  const after = readFileSync(file, 'utf8');
  if (after === before) {
    rmSync(folder, { recursive: true });
    output.answer(current, () => output.note('no changes'));
    return;
  }
  try {
    const [edited] = parseResources(after, file, name);
    if (!edited || edited.name !== name || edited.kind !== kind)
      throw usageError('kind and name must not change (use muster apply -f to create another resource)');
    const written = await client().catalog.write(kind, name, edited.fields, {
      ifGenerationMatch: current.generation,
      text: edited.text,
      justification: flags.justification,
      signal,
    });
    noteWarnings(output, `${kind}/${name}`, written.warnings);
    output.answer(written, () => output.line(`${kind}/${name} changed (generation ${written.generation})`));
  } catch (error) {
    const reason =
      error instanceof FailedPreconditionError
        ? `someone else changed ${kind}/${name} meanwhile`
        : (error as Error).message;
    throw new CommandError(`${reason}; your text is in ${file}`, exitCodeOf(error));
  }
  rmSync(folder, { recursive: true });
}

/** While the editor runs, Ctrl-C is for the editor: neither this process nor the shell in between may end. */
async function runEditor(editor: string, file: string): Promise<number | null> {
  const listeners = process.rawListeners('SIGINT') as NodeJS.SignalsListener[];
  const ignore = (): void => {};
  process.removeAllListeners('SIGINT').on('SIGINT', ignore);
  try {
    const child = spawn('/bin/sh', ['-c', `trap : INT; ${editor} "$1"`, 'sh', file], { stdio: 'inherit' });
    const [exitCode] = (await once(child, 'close')) as [number | null];
    return exitCode;
  } finally {
    for (const listener of listeners) process.on('SIGINT', listener);
    process.off('SIGINT', ignore);
  }
}

async function deleteResource(
  { flags, client, output, signal }: Invocation<Flags<'justification', 'yes'>>,
  kindName: string,
  name: string,
): Promise<void> {
  const kind = kindOf(kindName) ?? kindName;
  const { generation } = await client().catalog.read(kind, name, { signal });
  if (!flags.yes) {
    output.note(`This deletes ${kind}/${name} (generation ${generation}).`);
    if (!(await isConfirmed(signal))) throw new CommandError(`${kind}/${name} was not deleted`);
  }
  const reply = await client().catalog.delete(kind, name, {
    ifGenerationMatch: generation,
    justification: flags.justification,
    signal,
  });
  output.answer(reply, () => output.line(`deleted ${kind}/${name}`));
}

type TokenFlags = Flags<'account' | 'pool' | 'expires' | 'justification' | 'tenant'> & {
  readonly role?: Role;
};

async function createToken(
  { flags, client, output, signal }: Invocation<TokenFlags>,
  name: string,
): Promise<void> {
  const { role, account, pool, expires, justification } = flags;
  const tenant = flags.tenant === undefined ? undefined : readTenant(flags.tenant);
  const expiry = expires === undefined ? undefined : new Date(Date.now() + durationMs(expires));
  const document = { role, account, pool, expiresAt: expiry?.toISOString() };
  const settings = { ifGenerationMatch: '0', justification, signal, tenant };
  const written = await client().catalog.write('token', name, document, settings);
  noteWarnings(output, `token/${name}`, written.warnings);
  output.answer(written, () => {
    output.line(String(written.document.key));
    output.note(`shown once; revoke it with muster token revoke ${name}`);
  });
}

async function revokeToken(
  { flags, client, output, signal }: Invocation<JustificationFlag>,
  name: string,
): Promise<void> {
  const reply = await client().catalog.delete('token', name, { justification: flags.justification, signal });
  output.answer(reply, () => output.line(`revoked ${name}; it stops working within 5 s`));
}

/** The value never is an argument, which other users of the machine and the history of the shell would see. */
async function setSecret(
  { flags, client, output, signal }: Invocation<Flags<'file' | 'justification'>>,
  name: string,
): Promise<void> {
  const value = withoutLastBreak(await givenValue(flags.file, name, signal));
  if (value === '') throw usageError('the value is empty');
  if (Buffer.byteLength(value) > limits.secretValueBytes)
    throw usageError(`the value has more than ${limits.secretValueBytes} bytes`);
  const { catalog } = client();
  const current = await readIfExists(catalog, 'secret', name, signal);
  const written = await catalog.write(
    'secret',
    name,
    { value },
    {
      ...(current ? { updateMask: 'value' } : { ifGenerationMatch: '0' }),
      justification: flags.justification,
      signal,
    },
  );
  output.answer(written, () => {
    const { fingerprint } = written.document;
    output.line(`secret/${name} set (generation ${written.generation}, fingerprint ${fingerprint})`);
  });
}

async function givenValue(file: string | undefined, name: string, signal: AbortSignal): Promise<string> {
  if (file !== undefined && file !== '-') return fileText(file);
  if (file === '-' || process.stdin.isTTY !== true) return pipedText(signal);
  return ask(`Value of ${name}: `, signal, { instead: 'use --file', isSecret: true });
}

/** The line break that ends a single line is not part of the value; a text of several lines is used as it is. */
const withoutLastBreak = (text: string): string => text.replace(/^([^\r\n]*)\r?\n$/, '$1');

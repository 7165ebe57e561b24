import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type CatalogClient, FailedPreconditionError, NotFoundError, type Role, reasonOf } from '@muster/sdk';
import { clock, type Kind, kindOf, kinds, limits, sealedFields, secretFields } from '@muster/sdk/contract';
import { type Command, Option } from 'commander';
import { addCommand, type Flags, type Invocation } from './command.ts';
import { CommandError, exitCodeOf, usageError } from './errors.ts';
import { ask, collect, durationMs, fileText, isConfirmed, pipedText, yesOption } from './input.ts';
import type { ResourceFile } from './resource-files.ts';

const justificationOption = [
  '--justification <text>',
  'reason for the audit record; required for operators',
] as const;

type JustificationFlag = Flags<'justification'>;

export function addCatalogCommands(program: Command): void {
  const applyText = 'create or change resources from YAML or Markdown files; shows the changes first';
  addCommand(program, 'apply', applyText, apply)
    .requiredOption(
      '-f, --file <path>',
      'a file, a folder, or - for standard input; may be repeated',
      collect,
    )
    .option('--dry-run', 'only show what would change')
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
  addCommand(program, 'history <kind> <name>', 'show who changed a resource, when and why', history);

  const token = program.command('token').description('create and revoke API keys');
  addCommand(token, 'create <name>', 'create an API key and print it once', createToken)
    .addOption(
      new Option('--role <role>', 'what the key may do')
        .choices(['viewer', 'member', 'admin', 'operator', 'runner'])
        .default('member'),
    )
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

type ApplyFlags = Flags<'justification', 'dryRun'> & { readonly file: readonly string[] };

async function apply(invocation: Invocation<ApplyFlags>): Promise<void> {
  const { flags, client, output, signal } = invocation;
  const { readResourceFiles } = await import('./resource-files.ts');
  const files = await readResourceFiles(flags.file, signal);
  if (files.length === 0) throw usageError(`no resources in ${flags.file.join(', ')}`);
  const { catalog } = client();
  const results: Awaited<ReturnType<typeof applyOne>>[] = [];
  for (const file of files) {
    const title = `${file.kind}/${file.name}`;
    const applying = applyOne(invocation, catalog, file, title).catch((error: unknown) => {
      if (signal.aborted) throw error;
      throw new CommandError(`${file.from}: ${title}: ${(error as Error).message}`, exitCodeOf(error));
    });
    const count = files.length > 1 ? ` (${results.length + 1} of ${files.length})` : '';
    results.push(await output.progress.during(`applying ${title}${count}`, applying));
  }
  output.answer(results, () => {});
}

async function applyOne(
  { flags, output, signal }: Invocation<ApplyFlags>,
  catalog: CatalogClient,
  { kind, name, fields }: ResourceFile,
  title: string,
) {
  const [{ formatResource }, { createTwoFilesPatch }] = await Promise.all([
    import('./resource-files.ts'),
    import('diff'),
  ]);
  const current = await readIfExists(catalog, kind, name, signal);
  const before = current ? formatResource(kind, name, current.document) : '';
  const after = formatResource(kind, name, shownFields(kind, fields));
  const isTable = output.format === 'table';
  if (current && before === after) {
    if (isTable) output.line(`${title} unchanged`);
    return { kind, name, action: 'unchanged', generation: current.generation };
  }
  if (isTable) {
    const patch = createTwoFilesPatch(title, title, before, after, 'stored', 'new', { context: 2 });
    output.diff(patch.slice(patch.indexOf('---')));
  }
  const result = current && current.generation !== '0' ? 'changed' : 'created';
  if (flags.dryRun) {
    if (isTable) output.line(`${title} would be ${result}`);
    return { kind, name, action: `would be ${result}`, generation: current?.generation ?? '0' };
  }
  const { document, generation } = await catalog.write(kind, name, fields, {
    ifGenerationMatch: current?.generation ?? '0',
    justification: flags.justification,
    signal,
  });
  const secretField = secretFields[kind] ?? '';
  const secret = document[secretField];
  const hasSecret = typeof secret === 'string';
  const { webhookUrl } = document;
  const isCalled = hasSecret && typeof webhookUrl === 'string';
  if (isTable) {
    output.line(`${title} ${result} (generation ${generation})`);
    if (isCalled) output.line(`webhookUrl: ${webhookUrl}`);
    if (hasSecret) output.line(`${secretField}: ${secret}  (shown once)`);
  }
  return {
    ...{ kind, name, action: result, generation },
    ...(isCalled && { webhookUrl }),
    ...(hasSecret && { [secretField]: secret }),
  };
}

/** Without the value of a secret, which differs from every stored document. */
function shownFields(kind: Kind, fields: ResourceFile['fields']): ResourceFile['fields'] {
  const sealed = sealedFields[kind];
  return sealed && fields[sealed] != null ? { ...fields, [sealed]: '***' } : fields;
}

async function readIfExists(catalog: CatalogClient, kind: string, name: string, signal: AbortSignal) {
  try {
    return await catalog.read(kind, name, { signal });
  } catch (error) {
    if (error instanceof NotFoundError) return undefined;
    throw error;
  }
}

const fingerprintOf = ({ document }: { readonly document: object }): string =>
  'fingerprint' in document ? String(document.fingerprint) : '';

async function get({ client, output, signal }: Invocation, kindName: string, name?: string): Promise<void> {
  const kind = kindOf(kindName) ?? kindName;
  if (name !== undefined) {
    const { formatResource } = await import('./resource-files.ts');
    const found = await client().catalog.read(kind, name, { signal });
    output.answer(found, () => output.line(formatResource(kind, name, found.document).trimEnd()));
    return;
  }
  const entries = [];
  for await (const entry of client().catalog.listAll(kind, { signal })) entries.push(entry);
  await output.table(
    entries,
    [
      { title: 'NAME', of: (entry) => entry.name, isFlexible: true },
      { title: 'GENERATION', of: (entry) => (entry.builtin ? 'builtin' : entry.generation), isRight: true },
      {
        title: 'UPDATED',
        of: ({ document }) => (typeof document.updatedAt === 'string' ? clock(document.updatedAt) : ''),
      },
      { title: 'BY', of: (entry) => String(entry.document.updatedBy ?? ''), isFlexible: true },
      ...(kind === 'secret' ? [{ title: 'FINGERPRINT', of: fingerprintOf }] : []),
    ],
    `no resources of kind ${kind}; create one with muster apply -f`,
  );
}

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
  const file = join(folder, `${name}.${kind === 'persona' ? 'md' : 'yaml'}`);
  const before = formatResource(kind, name, current.document);
  writeFileSync(file, before);
  const editor = env.VISUAL || env.EDITOR || 'vi';
  const exitCode = await runEditor(editor, file);
  if (exitCode !== 0)
    throw new CommandError(`${editor} failed (exit code ${exitCode}); your text is in ${file}`);
  const after = readFileSync(file, 'utf8');
  if (after === before) {
    rmSync(folder, { recursive: true });
    output.note('no changes');
    return;
  }
  try {
    const [edited] = parseResources(after, file, name);
    if (!edited || edited.name !== name || edited.kind !== kind)
      throw usageError('kind and name must not change (use muster apply -f to create another resource)');
    const settings = { ifGenerationMatch: current.generation, justification: flags.justification, signal };
    const written = await client().catalog.write(kind, name, edited.fields, settings);
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

async function history(
  { client, output, signal }: Invocation,
  kindName: string,
  name: string,
): Promise<void> {
  const kind = kindOf(kindName) ?? kindName;
  const entries = [];
  for await (const entry of client().catalog.historyAll(kind, name, { signal })) entries.push(entry);
  await output.table(
    entries,
    [
      { title: 'GENERATION', of: (entry) => entry.generation, isRight: true },
      { title: 'WHEN', of: (entry) => entry.at },
      { title: 'BY', of: (entry) => entry.by, isFlexible: true },
      { title: 'ACTION', of: (entry) => entry.action.toLowerCase() },
      { title: 'FIELDS', of: (entry) => entry.updateMask || 'all', isFlexible: true },
      { title: 'WHY', of: reasonOf, isFlexible: true },
    ],
    `${kind}/${name} has no history: it was never written`,
  );
}

type TokenFlags = Flags<'account' | 'pool' | 'expires' | 'justification'> & { readonly role?: Role };

async function createToken(
  { flags, client, output, signal }: Invocation<TokenFlags>,
  name: string,
): Promise<void> {
  const { role, account, pool, expires, justification } = flags;
  const expiry = expires === undefined ? undefined : new Date(Date.now() + durationMs(expires));
  const document = { role, account, pool, expiresAt: expiry?.toISOString() };
  const settings = { ifGenerationMatch: '0', justification, signal };
  const written = await client().catalog.write('token', name, document, settings);
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

import { type CatalogClient, NotFoundError } from '@muster/sdk';
import { type DocumentWarning, type Kind, sealedFieldOf, shownOnceFieldOf } from '@muster/sdk/contract';
import type { Flags, Invocation } from './command.ts';
import { CommandError, exitCodeOf, usageError } from './errors.ts';
import type { Output } from './output.ts';
import type { ResourceFile } from './resource-files.ts';

export type ApplyFlags = Flags<'justification', 'dryRun' | 'strict'> & { readonly file: readonly string[] };

interface CheckedFile {
  readonly file: ResourceFile;
  readonly title: string;
  readonly warnings: readonly DocumentWarning[];
}

/** Checks all documents with the service, then writes them one by one. */
export async function apply(invocation: Invocation<ApplyFlags>): Promise<void> {
  const { flags, client, output, signal } = invocation;
  const { readResourceFiles } = await import('./resource-files.ts');
  const files = await readResourceFiles(flags.file, signal);
  if (files.length === 0) throw usageError(`no resources in ${flags.file.join(', ')}`);
  const { catalog } = client();
  const checked = await checkAll(invocation, catalog, files);
  const results: Awaited<ReturnType<typeof applyOne>>[] = [];
  try {
    for (const { file, title, warnings } of checked) {
      const count = files.length > 1 ? ` (${results.length + 1} of ${files.length})` : '';
      const applying = applyOne(invocation, catalog, file, title).catch((error: unknown) => {
        throw signal.aborted ? error : fileError(file, title, error);
      });
      const result = await output.progress.during(`applying ${title}${count}`, applying);
      results.push({ ...result, ...(warnings.length > 0 && { warnings }) });
    }
  } finally {
    // Also when one fails, because those before it are written.
    output.answer(results, () => {
      if (files.length > 1) output.line(summaryOf(results, files.length));
    });
  }
}

/** Nothing is written unless every document is valid, and with --strict without a warning. */
async function checkAll(
  { flags, output, signal }: Invocation<ApplyFlags>,
  catalog: CatalogClient,
  files: readonly ResourceFile[],
): Promise<CheckedFile[]> {
  const titles = new Set(files.map(titleOf));
  const checked: CheckedFile[] = [];
  const errors: CommandError[] = [];
  let isChecking = true;
  const check = async (file: ResourceFile): Promise<readonly DocumentWarning[]> => {
    if (!isChecking) return [];
    const { justification } = flags;
    try {
      const { kind, name, fields, text } = file;
      return (await catalog.validate(kind, name, fields, { text, justification, signal })).warnings;
    } catch (error) {
      if (signal.aborted) throw error;
      // The route itself is unknown: a whole document needs no stored resource.
      if (error instanceof NotFoundError) {
        isChecking = false;
        output.note('muster: the service is older than this command and checks nothing before it writes');
      } else errors.push(fileError(file, titleOf(file), error));
      return [];
    }
  };
  for (const file of files) {
    const title = titleOf(file);
    const found = await output.progress.during(`checking ${title}`, check(file));
    const warnings = found.filter(({ missing }) => !titles.has(missing));
    noteWarnings(output, `${file.from}: ${title}`, warnings);
    checked.push({ file, title, warnings });
  }
  const [first] = errors;
  if (first && files.length === 1) throw first;
  if (first) {
    for (const { message } of errors) output.note(`muster: ${message}`);
    const rejected = `${errors.length} of ${files.length} documents ${errors.length === 1 ? 'is' : 'are'} rejected; nothing was written`;
    throw new CommandError(rejected, first.exitCode);
  }
  if (flags.strict && checked.some(({ warnings }) => warnings.length > 0))
    throw usageError('there are warnings, and --strict is set; nothing was written');
  return checked;
}

const titleOf = ({ kind, name }: ResourceFile): string => `${kind}/${name}`;

const fileError = ({ from }: ResourceFile, title: string, error: unknown): CommandError =>
  new CommandError(`${from}: ${title}: ${(error as Error).message}`, exitCodeOf(error));

/** What the service accepts but takes for a mistake. */
export function noteWarnings(output: Output, title: string, warnings: readonly DocumentWarning[]): void {
  for (const { field, description } of warnings)
    output.note(`warning: ${title}: ${field.replace(/^payload\./, '')} ${description}`);
}

function summaryOf(results: readonly { readonly action: string }[], wanted: number): string {
  const counts = new Map<string, number>();
  for (const { action } of results) counts.set(action, (counts.get(action) ?? 0) + 1);
  const parts = [...counts].map(([action, count]) => `${count} ${action}`);
  if (results.length < wanted) parts.push(`${wanted - results.length} not applied`);
  return parts.join(', ');
}

export async function applyOne(
  { flags, output, signal }: Invocation<Flags<'justification', 'dryRun'>>,
  catalog: CatalogClient,
  { kind, name, fields, text }: ResourceFile,
  title: string,
) {
  const [{ formatResource, ownServerFields }, { createTwoFilesPatch }] = await Promise.all([
    import('./resource-files.ts'),
    import('diff'),
  ]);
  const current = await readIfExists(catalog, kind, name, signal);
  const isSame =
    current &&
    formatResource(kind, name, current.document) === formatResource(kind, name, shownFields(kind, fields));
  const before = current ? formatResource(kind, name, current.document, current.text) : '';
  const after = formatResource(kind, name, shownFields(kind, fields), text);
  const isTable = output.format === 'table';
  if (isSame && (before === after || (!current.text && !hasComments(text)))) {
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
    text,
    justification: flags.justification,
    signal,
  });
  const secretField = shownOnceFieldOf(kind) ?? '';
  const secret = document[secretField];
  const hasSecret = typeof secret === 'string';
  const shown = hasSecret ? ownServerFields(kind, document) : {};
  if (isTable) {
    output.line(`${title} ${result} (generation ${generation})`);
    for (const [field, value] of Object.entries(shown)) output.line(`${field}: ${value}`);
    if (hasSecret) output.line(`${secretField}: ${secret}  (shown once)`);
  }
  return {
    ...{ kind, name, action: result, generation },
    ...shown,
    ...(hasSecret && { [secretField]: secret }),
  };
}

/** A text without comments says no more than its document. */
const hasComments = (text: string): boolean => /^\s*#|\s#/m.test(text);

/** Without the value of a secret, which differs from every stored document. */
function shownFields(kind: Kind, fields: ResourceFile['fields']): ResourceFile['fields'] {
  const sealed = sealedFieldOf(kind);
  return sealed && fields[sealed] != null ? { ...fields, [sealed]: '***' } : fields;
}

export async function readIfExists(catalog: CatalogClient, kind: string, name: string, signal: AbortSignal) {
  try {
    return await catalog.read(kind, name, { signal });
  } catch (error) {
    if (error instanceof NotFoundError) return undefined;
    throw error;
  }
}

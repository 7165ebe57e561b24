import {
  builtin,
  builtinNames,
  inputFormatOf,
  type Kind,
  kindOf,
  limits,
  type Resource,
} from '@muster/sdk/contract';
import { isRefusal, notFound, type Refusal } from '../../domain/refusal.ts';
import {
  type HistoryRow,
  listResources,
  type ResourceRow,
  readHistory,
  readResource,
} from '../../store/statements/resources.ts';
import type { Principal } from '../access/principal.ts';
import type { TenantInput } from '../agents/identify.ts';
import { boundedPage } from './bounded-page.ts';
import type { CatalogOptions } from './catalog-options.ts';
import { type Ref, refuseName } from './check-write.ts';
import { encodePayload } from './document.ts';
import { rulesOf } from './kinds.ts';

type Listed = Pick<ResourceRow, 'name' | 'generation' | 'document'>;

interface Place {
  readonly tenant: number;
  readonly kind: Kind;
}

/** The tenant and the kind of a request; a caller who may not see the tenant does not learn whether the kind exists. */
async function placeOf(
  { tenants }: CatalogOptions,
  caller: Principal,
  tenantInput: TenantInput,
  kindName: string,
  missing: string,
): Promise<Place | Refusal> {
  const kind = kindOf(kindName);
  const tenant = await tenants.named(tenantInput, caller);
  if (isRefusal(tenant)) return tenant;
  return kind ? { tenant, kind } : notFound(missing);
}

export async function readOne(
  options: CatalogOptions,
  caller: Principal,
  tenantInput: TenantInput,
  ref: Ref,
): Promise<Resource | Refusal> {
  const missing = `${kindOf(ref.kind) ?? ref.kind} "${ref.name}" not found`;
  const place =
    (kindOf(ref.kind) && refuseName(ref)) ?? (await placeOf(options, caller, tenantInput, ref.kind, missing));
  if (isRefusal(place)) return place;
  const found = await stored(options, place, ref.name);
  if (!found) return notFound(missing);
  const [shown = found] = await withState(options, place, [found]);
  return { kind: place.kind, text: found.text ?? '', ...shownOf(options, place.kind, shown) };
}

async function stored(
  options: CatalogOptions,
  place: Place,
  name: string,
): Promise<(Listed & { readonly text?: string | null }) | undefined> {
  const { tenant, kind } = place;
  const { database, tenants } = options;
  const { records } = rulesOf(kind);
  if (records) {
    const document = await records.read(database, tenant, await tenants.name(tenant), name);
    return document && { name, generation: 0, document };
  }
  const [row] = await readResource(database, tenant, kind, name);
  return row?.document ? row : builtinOf(kind, name);
}

function builtinOf(kind: Kind, name: string): Listed | undefined {
  const document = builtin(kind, name);
  return document && { name, generation: 0, document };
}

/** With what the kind shows beside its documents. */
async function withState(
  { database }: CatalogOptions,
  { kind, tenant }: Place,
  rows: readonly Listed[],
): Promise<readonly Listed[]> {
  const { state } = rulesOf(kind);
  if (!state) return rows;
  const shown = await state(database, tenant, new Map(rows.map((row) => [row.name, row.document ?? {}])));
  return rows.map((row) => ({ ...row, document: { ...row.document, ...shown.get(row.name) } }));
}

/** As replies show it. */
function shownOf({ publicUrl }: CatalogOptions, kind: Kind, { document, generation }: Listed) {
  const { onRead } = rulesOf(kind);
  const shown = document ?? {};
  return {
    payload: encodePayload(onRead ? onRead(shown, publicUrl()) : shown),
    inputFormat: inputFormatOf(kind),
    generation: String(generation),
  };
}

/** Rows of a kind behind this name. */
async function rowsAfter(
  { database, tenants }: CatalogOptions,
  { tenant, kind }: Place,
  after: string,
  count: number,
): Promise<Listed[]> {
  const { records } = rulesOf(kind);
  if (!records) return listResources(database, tenant, kind, after, count);
  const found = await records.list(database, tenant, await tenants.name(tenant), after, count);
  return found.map((row) => ({ ...row, generation: 0 }));
}

export async function listOfKind(
  options: CatalogOptions,
  caller: Principal,
  tenantInput: TenantInput,
  kindName: string,
  pageSize: number,
  pageToken: string,
) {
  const place = await placeOf(options, caller, tenantInput, kindName, `kind "${kindName}" not found`);
  if (isRefusal(place)) return place;
  const { kind, tenant } = place;
  const { pageTokens } = options;
  const list = `${kind}/${tenant}`;
  const after = pageToken && pageTokens.open(list, pageToken);
  if (isRefusal(after)) return after;
  const limit = Math.min(pageSize || limits.pageSize, limits.pageSize);
  const { rows, hasMore } = await boundedPage(limit, (last: Listed | undefined, count) =>
    rowsAfter(options, place, last?.name ?? after, count),
  );
  const all = withBuiltins(kind, rows, after, hasMore ? rows.at(-1)?.name : undefined);
  const entries = (await withState(options, place, all.slice(0, limit))).map((row) => ({
    kind,
    name: row.name,
    ...shownOf(options, kind, row),
    builtin: row.generation === 0 && !rulesOf(kind).records,
  }));
  const last = entries.at(-1)?.name ?? '';
  const isCut = hasMore || all.length > limit;
  return { entries, nextPageToken: isCut ? pageTokens.seal(list, last) : '' };
}

/** With the builtins that belong on a page between these names. */
function withBuiltins(kind: Kind, rows: readonly Listed[], after: string, end: string | undefined): Listed[] {
  const missing = builtinNames(kind)
    .filter((name) => name > after && (end === undefined || name < end))
    .filter((name) => !rows.some((row) => row.name === name))
    .flatMap((name) => builtinOf(kind, name) ?? []);
  return [...rows, ...missing].sort((a, b) => (a.name < b.name ? -1 : 1));
}

export async function historyOf(
  options: CatalogOptions,
  caller: Principal,
  tenantInput: TenantInput,
  ref: Ref,
  pageSize: number,
  pageToken: string,
) {
  const place =
    (kindOf(ref.kind) && refuseName(ref)) ??
    (await placeOf(options, caller, tenantInput, ref.kind, `kind "${ref.kind}" not found`));
  if (isRefusal(place)) return place;
  const { tenant, kind } = place;
  const limit = Math.min(pageSize || limits.pageSize, limits.pageSize);
  const { database, pageTokens } = options;
  const list = `${kind}/${tenant}/${ref.name}`;
  const opened = pageToken && pageTokens.open(list, pageToken);
  if (isRefusal(opened)) return opened;
  const before = opened ? Number(opened) : Number.MAX_SAFE_INTEGER;
  const { rows, hasMore } = await boundedPage(limit, (last: HistoryRow | undefined, count) =>
    readHistory(database, tenant, kind, ref.name, last?.generation ?? before, count),
  );
  if (rows.length === 0 && pageToken === '' && !builtin(kind, ref.name)) {
    return notFound(`${kind} "${ref.name}" not found`);
  }
  const entries = rows.map((row) => ({
    generation: String(row.generation),
    at: row.at,
    by: row.by,
    keyId: row.key_id,
    action: row.action,
    updateMask: row.update_mask,
    justification: row.justification,
    payload: row.document ? encodePayload(row.document) : '',
    text: row.text ?? '',
  }));
  const last = entries.at(-1)?.generation ?? '';
  return { entries, nextPageToken: hasMore ? pageTokens.seal(list, last) : '' };
}

import {
  builtin,
  builtinNames,
  type DocumentWarning,
  type Kind,
  limits,
  nearestName,
  type Reference,
  referencesIn,
  unknownFields,
} from '@muster/sdk/contract';
import type { Connection } from '../../store/connection.ts';
import { existingResources, resourceNames } from '../../store/statements/resources.ts';
import type { Document } from './document.ts';
import { rulesOf } from './kinds.ts';

/**
 * What a document says that is accepted but can't have the meant effect. Documents are open, and a name may be created
 * later, so these are warnings, never refusals.
 */
export async function documentWarnings(
  connection: Connection,
  tenant: number,
  kind: Kind,
  document: Document,
): Promise<DocumentWarning[]> {
  const found = [...unknownFields(kind, document), ...(rulesOf(kind).warnings?.(document) ?? [])];
  const missing = await missingResources(connection, tenant, referencesIn(kind, document));
  return [...found.map((warning) => ({ ...warning, missing: '' })), ...missing]
    .slice(0, limits.documentWarnings)
    .map((warning) => ({ ...warning, field: `payload.${warning.field}` }));
}

async function missingResources(
  connection: Connection,
  tenant: number,
  references: readonly Reference[],
): Promise<DocumentWarning[]> {
  const stored = references.filter(({ kind, name }) => !builtin(kind, name));
  if (stored.length === 0) return [];
  const rows = await existingResources(
    connection,
    tenant,
    stored.map(({ kind }) => kind),
    stored.map(({ name }) => name),
  );
  const existing = new Set(rows.map(({ n }) => n - 1));
  const missing = stored.filter((_, at) => !existing.has(at)).slice(0, limits.documentWarnings);
  const names = new Map<Kind, readonly string[]>();
  const warnings: DocumentWarning[] = [];
  for (const { field, kind, name } of missing) {
    if (!names.has(kind)) names.set(kind, await namesOf(connection, tenant, kind));
    const nearest = nearestName(name, names.get(kind) ?? []);
    const description = `names the ${kind} "${name.slice(0, 100)}", which does not exist`;
    const hint = nearest === undefined ? '' : `; did you mean "${nearest}"?`;
    warnings.push({ field, description: `${description}${hint}`, missing: `${kind}/${name.slice(0, 256)}` });
  }
  return warnings;
}

/** The names of a kind, builtin ones first, as far as a page has room. */
export async function namesOf(connection: Connection, tenant: number, kind: Kind): Promise<string[]> {
  const rows = await resourceNames(connection, tenant, kind, limits.pageSize);
  return [...builtinNames(kind), ...rows.map(({ name }) => name)];
}

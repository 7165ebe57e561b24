import {
  backendFacts,
  backendOfModel,
  backends,
  builtin,
  builtinNames,
  type DocumentWarning,
  type FieldWarning,
  type Kind,
  limits,
  nearestName,
  type OwnModels,
  type Reference,
  referencesIn,
  unknownFields,
} from '@muster/sdk/contract';
import type { Settings } from '../../domain/agent.ts';
import { forbidden } from '../../domain/policy.ts';
import type { Connection } from '../../store/connection.ts';
import { existingResources, readResources, resourceNames } from '../../store/statements/resources.ts';
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
  ownModels: OwnModels,
): Promise<DocumentWarning[]> {
  const found = [...unknownFields(kind, document), ...(rulesOf(kind).warnings?.(document) ?? [])];
  found.push(...modelWarnings(kind, document, ownModels));
  found.push(...(await policyWarnings(connection, tenant, kind, document)));
  const missing = await missingResources(connection, tenant, referencesIn(kind, document));
  return [...found.map((warning) => ({ ...warning, missing: '' })), ...missing]
    .slice(0, limits.documentWarnings)
    .map((warning) => ({ ...warning, field: `payload.${warning.field}` }));
}

/** Kinds whose documents set what agents run with. */
const settingKinds: readonly Kind[] = ['workspace', 'persona'];

/** A model that no backend has: its agents could not be spawned. */
function modelWarnings(kind: Kind, { model }: Document, ownModels: OwnModels): FieldWarning[] {
  if (!settingKinds.includes(kind) || typeof model !== 'string' || model === '') return [];
  if (backendOfModel(model, ownModels)) return [];
  const names = [
    ...Object.keys(ownModels),
    ...backends.flatMap((backend) => backendFacts[backend].shortNames),
  ];
  const nearest = nearestName(model, names);
  const known = backends.map((backend) => backendFacts[backend].modelNames).join(', ');
  const hint = nearest === undefined ? `; known are ${known}` : `; did you mean "${nearest}"?`;
  return [{ field: 'model', description: `"${model.slice(0, 100)}" is a model of no backend${hint}` }];
}

/** Settings that the policies of the tenant and of the workspace forbid: agents with them are refused. */
async function policyWarnings(
  connection: Connection,
  tenant: number,
  kind: Kind,
  document: Document,
): Promise<FieldWarning[]> {
  if (!settingKinds.includes(kind)) return [];
  const named = kind === 'workspace' && typeof document.policy === 'string' ? document.policy : '';
  const names = [...new Set(['default', named])].filter(Boolean);
  const rows = await readResources(
    connection,
    names.map(() => tenant),
    names.map(() => 'policy'),
    names,
  );
  return rows.flatMap(({ n, document: policy }) =>
    forbidden(document as Partial<Settings>, names[n - 1] ?? '', policy ?? {}).map(
      ({ setting, description }) => ({
        field: setting,
        description: `is refused: ${description.slice(0, 400)}`,
      }),
    ),
  );
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

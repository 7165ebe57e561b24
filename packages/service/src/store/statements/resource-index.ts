import { statement } from '../connection.ts';
import type { Document } from './resources.ts';

type Ref = [tenant: number, kind: string, name: string];

/** Records the size, creator and repositories of a document, if it still has this generation. A deleted one has none. */
export const describeResource = statement<
  [...Ref, generation: number, bytes: number | null, createdBy: string | null, repos: readonly string[]],
  never
>(
  'describe-resource',
  `WITH described AS (
     UPDATE resources SET bytes = $5, created_by = $6, indexed = $4
     WHERE tenant = $1 AND kind = $2 AND name = $3 AND generation = $4 RETURNING tenant, kind, name
   ), workspace AS (
     SELECT tenant, name FROM described WHERE kind = 'workspace'
   ), gone AS (
     DELETE FROM workspace_repositories r USING workspace w
     WHERE r.tenant = w.tenant AND r.workspace = w.name AND r.repo <> ALL ($7::text[])
   )
   INSERT INTO workspace_repositories (tenant, repo, workspace)
   SELECT w.tenant, n.repo, w.name FROM workspace w CROSS JOIN unnest($7::text[]) AS n (repo) ON CONFLICT DO NOTHING`,
);

/** As in the index that finds them. */
const undescribed = 'document IS NOT NULL AND generation - coalesce(indexed, 0)';

export interface UndescribedRow {
  tenant: number;
  kind: string;
  name: string;
  generation: number;
  document: Document;
  sealed_bytes: number;
}

/** Some documents that an earlier build wrote: of one tenant and kind, or of all. */
export const findUndescribed = statement<
  [tenant: number | null, kind: string | null, limit: number],
  UndescribedRow
>(
  'find-undescribed-resources',
  `SELECT tenant, kind, name, generation, document, coalesce(octet_length(sealed), 0) AS sealed_bytes FROM resources
   WHERE ${undescribed} > 0 AND ($1::int IS NULL OR tenant = $1) AND ($2::text IS NULL OR kind = $2) LIMIT $3`,
);

export interface KindUse {
  documents: number;
  bytes: number;
  own_documents: number;
  own_bytes: number;
}

/** The documents of a kind and their bytes, without those that are not described yet; and those of one creator. */
export const readKindUse = statement<[tenant: number, kind: string, createdBy: string], KindUse>(
  'read-kind-use',
  `SELECT count(*)::int AS documents, coalesce(sum(bytes), 0)::bigint AS bytes,
     count(*) FILTER (WHERE created_by = $3)::int AS own_documents,
     coalesce(sum(bytes) FILTER (WHERE created_by = $3), 0)::bigint AS own_bytes
   FROM resources WHERE ${undescribed} = 0 AND tenant = $1 AND kind = $2`,
);

/** Without the documents, which may be large. */
export const listGenerations = statement<
  [tenant: number, kind: string, after: string, limit: number],
  { name: string; generation: number }
>(
  'list-generations',
  `SELECT name, generation FROM resources
   WHERE tenant = $1 AND kind = $2 AND name > $3 AND document IS NOT NULL ORDER BY name LIMIT $4`,
);

/** The next workspaces that list one of these repositories. An earlier build may have deleted one. */
export const findWorkspaces = statement<
  [tenant: number, repos: readonly string[], after: string, limit: number],
  { name: string; document: Document | null }
>(
  'find-workspaces',
  `SELECT w.workspace AS name, r.document FROM (
     SELECT DISTINCT workspace FROM workspace_repositories
     WHERE tenant = $1 AND repo = ANY ($2::text[]) AND workspace > $3 ORDER BY workspace LIMIT $4
   ) w LEFT JOIN resources r ON r.tenant = $1 AND r.kind = 'workspace' AND r.name = w.workspace ORDER BY w.workspace`,
);

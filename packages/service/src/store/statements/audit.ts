import { type AuditAct, limits } from '@muster/sdk/contract';
import { mintId } from '../../lib/ids.ts';
import { type Connection, statement } from '../connection.ts';
import { namesOf, rowsOf } from '../tables.ts';
import type { Document } from './resources.ts';

/** Something on record that is not a catalog write. */
export type NewAuditRecord = AuditAct & {
  readonly tenant: number;
  /** `codehost_oauth/ada`: who did it, or tried to. */
  readonly actor: string;
  /** The key that was used; empty without one. */
  readonly keyId: string;
  /** What it was done to. */
  readonly name: string;
  readonly justification?: string;
  /** What else is known. Never a secret: all admins read it. */
  readonly details?: Readonly<Record<string, string>>;
};

const columns = {
  tenant: 'int',
  id: 'uuid',
  actor: 'text',
  key_id: 'text',
  kind: 'text',
  action: 'text',
  name: 'text',
  justification: 'text',
  details: 'json',
} as const;

const insertAudit = statement<[rows: string], never>(
  'insert-audit',
  `INSERT INTO audit (at, ${namesOf(columns)})
   SELECT date_trunc('milliseconds', clock_timestamp()), ${namesOf(columns, 'n')} FROM ${rowsOf(columns)}`,
);

/** Puts on record what somebody did. In the transaction that does it, so that neither is there without the other. */
export const recordAudit = (connection: Connection, records: readonly NewAuditRecord[]): Promise<unknown> =>
  insertAudit(connection, auditRows(records));

/** The same for what anyone can repeat without effect, as a sign-in: of one account, a limited number in an hour. */
export async function recordRepeatable(connection: Connection, record: NewAuditRecord): Promise<void> {
  const [found] = await countRecent(connection, record.tenant, record.actor);
  if ((found?.recent ?? 0) < limits.auditSignInsPerHour) await recordAudit(connection, [record]);
}

const countRecent = statement<[tenant: number, actor: string], { recent: number }>(
  'count-recent-audit',
  `SELECT count(*)::int AS recent FROM (
     SELECT FROM audit WHERE tenant = $1 AND actor = $2 AND at > now() - interval '1 hour'
     LIMIT ${limits.auditSignInsPerHour}) r`,
);

const cut = (text: string): string =>
  text.toWellFormed().replaceAll('\0', '').slice(0, limits.auditTextLength);

const auditRows = (records: readonly NewAuditRecord[]): string =>
  JSON.stringify(
    records.map(({ keyId, actor, name, justification = '', details = {}, ...record }) => ({
      ...record,
      id: mintId(),
      actor: cut(actor),
      key_id: keyId,
      name: cut(name),
      justification: cut(justification),
      details: Object.fromEntries(Object.entries(details).map(([field, value]) => [field, cut(value)])),
    })),
  );

/**
 * Where a page begins, in both tables: before these keys. `''` and 0 are less than every kind and generation, so a bound
 * with them has nothing of its own time.
 */
export interface AuditPlace {
  readonly audit: readonly [at: string, id: string];
  readonly history: readonly [at: string, kind: string, name: string, generation: number];
}

export interface AuditRow {
  at: string;
  /** Of a catalog write null. */
  id: string | null;
  actor: string;
  key_id: string;
  kind: string;
  action: string;
  name: string;
  justification: string;
  details: Record<string, string>;
  /** Of a catalog write; otherwise 0. */
  generation: number;
  update_mask: string;
  /** The last row that was looked at, if there may be more; the others are entries of the page. */
  is_last: boolean;
}

export interface AuditFilter {
  readonly actor: string | null;
  readonly kind: string | null;
  readonly name: string | null;
  readonly action: string | null;
  /** In lower case. */
  readonly text: string | null;
}

const shown = 'at, id, actor, key_id, kind, action, name, justification, details, generation, update_mask';
const order = 'at DESC, id DESC NULLS LAST, kind DESC, name DESC, generation DESC';

/**
 * Looks at the newest rows before a place, of both tables by their primary order, and returns those that match. So a page
 * takes the same time however many rows there are and however few match.
 */
const readAudit = statement<
  [
    tenant: number,
    from: string,
    ...AuditPlace['audit'],
    ...AuditPlace['history'],
    looked: number,
    actor: string | null,
    kind: string | null,
    name: string | null,
    action: string | null,
    text: string | null,
    limit: number,
    hasWrites: boolean,
    hasOthers: boolean,
  ],
  AuditRow
>(
  'read-audit',
  `WITH looked AS MATERIALIZED (
     SELECT ${shown} FROM (
       (SELECT at, id, actor, key_id, kind, action, name, justification, details::text AS details, 0::bigint AS generation,
          '' AS update_mask
        FROM audit WHERE $17 AND tenant = $1 AND at >= $2 AND (at, id) < ($3::timestamptz, $4::uuid)
        ORDER BY tenant DESC, at DESC, id DESC LIMIT $9)
       UNION ALL
       (SELECT at, NULL, by, key_id, kind, action, name, justification, '{}', generation, update_mask
        FROM resource_history
        WHERE $16 AND tenant = $1 AND at >= $2
          AND (at, kind, name, generation) < ($5::timestamptz, $6::text, $7::text, $8::bigint)
        ORDER BY tenant DESC, at DESC, kind DESC, name DESC, generation DESC LIMIT $9)
     ) recorded ORDER BY ${order} LIMIT $9
   ), found AS (
     SELECT ${shown} FROM looked
     WHERE ($10::text IS NULL OR actor = $10) AND ($11::text IS NULL OR kind = $11) AND ($12::text IS NULL OR name = $12)
       AND ($13::text IS NULL OR action = $13)
       AND ($14::text IS NULL
         OR strpos(lower(actor || ' ' || kind || ' ' || name || ' ' || justification || ' ' || details), $14) > 0)
     ORDER BY ${order} LIMIT $15
   )
   SELECT at, id, actor, key_id, kind, action, name, justification, details::json AS details, generation, update_mask,
     is_last
   FROM (
     SELECT ${shown}, false AS is_last FROM found
     UNION ALL
     (SELECT ${shown}, true FROM looked WHERE (SELECT count(*) FROM looked) = $9 ORDER BY at, id NULLS FIRST, kind, name, generation
      LIMIT 1)
   ) read ORDER BY is_last, ${order}`,
);

/** Up to `limit` entries, and the row after which the next page begins: null if there is none. */
export async function readAuditPage(
  connection: Connection,
  tenant: number,
  from: string,
  { audit, history }: AuditPlace,
  filter: AuditFilter,
  only: { readonly writes: boolean; readonly others: boolean },
  limit: number,
): Promise<{ entries: AuditRow[]; last: AuditRow | null }> {
  const { actor, kind, name, action, text } = filter;
  const isFiltered = [actor, kind, name, action, text].some((value) => value !== null);
  const looked = isFiltered ? limits.auditLookedAt : limit + 1;
  const rows = await readAudit(
    connection,
    ...([tenant, from, ...audit, ...history, looked] as const),
    ...([actor, kind, name, action, text, limit + 1, only.writes, only.others] as const),
  );
  const found = rows.filter((row) => !row.is_last);
  if (found.length > limit) return { entries: found.slice(0, limit), last: found[limit - 1] ?? null };
  return { entries: found, last: rows.find((row) => row.is_last) ?? null };
}

/** The place after a row. */
export const placeAfter = ({ at, id, kind, name, generation }: AuditRow): AuditPlace =>
  id === null
    ? { audit: [at, noId], history: [at, kind, name, generation] }
    : { audit: [at, id], history: [nextMs(at), '', '', 0] };

const noId = '00000000-0000-0000-0000-000000000000';
const nextMs = (at: string): string => new Date(Date.parse(at) + 1).toISOString();

/** Everything before this time. */
export const placeBefore = (at: string): AuditPlace => ({ audit: [at, noId], history: [at, '', '', 0] });

/** The documents of a generation and of the one before. */
export const readWrittenDocuments = statement<
  [tenant: number, kind: string, name: string, generation: number],
  { generation: number; document: Document }
>(
  'read-written-documents',
  `SELECT generation, document FROM resource_history
   WHERE tenant = $1 AND kind = $2 AND name = $3 AND generation IN ($4::bigint, $4::bigint - 1) AND document IS NOT NULL`,
);

export const deleteOldAudit = statement<[days: number, most: number], { deleted: number }>(
  'delete-old-audit',
  `WITH old AS (
     SELECT a.tenant, a.at, a.id FROM tenants t CROSS JOIN LATERAL (
       SELECT a.tenant, a.at, a.id FROM audit a
       WHERE a.tenant = t.id AND a.at < now() - make_interval(days => $1) ORDER BY a.at LIMIT $2
     ) a LIMIT $2
   ), deleted AS (
     DELETE FROM audit a USING old WHERE a.tenant = old.tenant AND a.at = old.at AND a.id = old.id RETURNING a.id
   )
   SELECT count(*)::int AS deleted FROM deleted`,
);

import { statement } from '../connection.ts';

type Account = [tenant: number, ownerProvider: string, account: string];

export interface UseRow {
  of_tenant: number;
  /** Null while the tenant uses less than the share of one account. */
  of_account: number | null;
  /** Other accounts may store something, too. */
  is_shared: boolean;
}

/** Who may store something has a key, or is an integration. */
const isShared = `(
       EXISTS (SELECT FROM keys k WHERE k.tenant = $1 AND k.role IN ('admin', 'member')
         AND (k.owner_provider, k.account) <> ($2, $3))
       OR EXISTS (SELECT FROM storage_use s WHERE s.tenant = $1 AND s.owner_provider = 'PROVIDER_SERVICE_PROFILE'
         AND (s.owner_provider, s.account) <> ($2, $3)))`;

/** Only beyond this number of bytes of the tenant is an account's part of them added up: before, it can't be too large. */
const readUse = (name: string, table: string, ofAccount: string) =>
  statement<[...Account, share: number], UseRow>(
    name,
    `WITH total AS MATERIALIZED (
       SELECT coalesce(sum(bytes), 0)::bigint AS bytes FROM ${table} WHERE tenant = $1
     )
     SELECT t.bytes AS of_tenant,
       CASE WHEN t.bytes > $4::bigint THEN (SELECT coalesce(sum(u.bytes), 0)::bigint FROM ${ofAccount}) END AS of_account,
       CASE WHEN t.bytes > $4::bigint THEN ${isShared} ELSE false END AS is_shared
     FROM total t`,
  );

const ofAgents = (table: string): string =>
  `${table} u JOIN agents a ON a.tenant = u.tenant AND a.id = u.agent
   WHERE u.tenant = $1 AND a.owner_provider = $2 AND a.account = $3`;

export const readStorageUse = readUse(
  'read-storage-use',
  'storage_use',
  'storage_use u WHERE u.tenant = $1 AND u.owner_provider = $2 AND u.account = $3',
);
export const readCheckpointUse = readUse('read-checkpoint-use', 'checkpoints', ofAgents('checkpoints'));
export const readAttachmentUse = readUse('read-attachment-use', 'attachments', ofAgents('attachments'));

export const readOwner = statement<
  [tenant: number, agent: string],
  { owner_provider: string; account: string }
>('read-owner', 'SELECT owner_provider, account FROM agents WHERE tenant = $1 AND id = $2');

/** Adds what accounts have stored, and what agents have stored for theirs. In order, so that nodes can't deadlock. */
export const addStorageUse = statement<
  [
    ...accounts: [tenants: number[], ownerProviders: string[], accounts: string[], bytes: number[]],
    ...agents: [tenants: number[], ids: string[], bytes: number[]],
  ],
  { tenant: number; owner_provider: string; account: string; bytes: number }
>(
  'add-storage-use',
  `INSERT INTO storage_use AS s (tenant, owner_provider, account, bytes)
   SELECT u.tenant, u.owner_provider, u.account, sum(u.bytes) FROM (
     SELECT tenant, owner_provider, account, bytes
     FROM unnest($1::int[], $2::text[], $3::text[], $4::bigint[]) AS q (tenant, owner_provider, account, bytes)
     UNION ALL
     SELECT a.tenant, a.owner_provider, a.account, q.bytes FROM unnest($5::int[], $6::uuid[], $7::bigint[]) AS q (tenant, id, bytes)
     JOIN agents a ON a.tenant = q.tenant AND a.id = q.id
   ) u GROUP BY u.tenant, u.owner_provider, u.account ORDER BY u.tenant, u.owner_provider, u.account
   ON CONFLICT (tenant, owner_provider, account) DO UPDATE SET bytes = s.bytes + excluded.bytes
   RETURNING s.tenant, s.owner_provider, s.account, s.bytes`,
);

/** Tenants whose storage was never counted, and those that seem to be nearly full, each at most once an hour. */
export const findTenantsToCount = statement<[bytesPerTenant: number], { tenant: number }>(
  'find-tenants-to-count',
  `SELECT t.id AS tenant FROM tenants t CROSS JOIN LATERAL (
     SELECT sum(s.bytes) AS bytes, max(s.bytes) AS most, max(s.counted_at) AS counted_at FROM storage_use s WHERE s.tenant = t.id
   ) s
   WHERE t.closed_at IS NULL AND CASE WHEN s.counted_at IS NULL
     THEN EXISTS (SELECT FROM agents a WHERE a.tenant = t.id)
     ELSE s.counted_at < now() - interval '1 hour' AND (s.bytes > $1::bigint * 0.8 OR s.most > $1::bigint * 0.4) END
   ORDER BY t.id`,
);

export interface CountedRow {
  owner_provider: string;
  account: string;
  bytes: number;
}

export const listStorageUse = statement<[tenant: number], CountedRow>(
  'list-storage-use',
  'SELECT owner_provider, account, bytes FROM storage_use WHERE tenant = $1',
);

/** As they are stored, without reading what is large. */
const size = (...columns: readonly string[]): string =>
  columns.map((column) => `coalesce(pg_column_size(${column}), 0)`).join(' + ');
const sumOf = (table: string, rowBytes: number, columns: readonly string[], where = ''): string =>
  `coalesce((SELECT sum(${rowBytes} + ${size(...columns)}) FROM ${table} p WHERE p.tenant = a.tenant AND p.agent = a.id ${where}), 0)`;

/** The next agents of a tenant, and what each has stored beside checkpoints and attachments, with a guess for each row. */
export const countAgents = statement<
  [tenant: number, after: string, limit: number],
  CountedRow & { id: string }
>(
  'count-agents',
  `SELECT a.id, a.owner_provider, a.account, (500
     + ${sumOf('agent_briefs', 100, ['p.description', 'p.expected_output', 'p.searched'])}
     + ${sumOf('agent_states', 100, ['p.settings', 'p.memory', 'p.result', 'p.response', 'p.structured_output', 'p.labels'])}
     + ${sumOf('checklists', 50, ['p.tasks'])}
     + ${sumOf('follow_ups', 200, ['p.description', 'p.change', 'p.tasks'])}
     + ${sumOf('runs', 300, ['p.response', 'p.structured_output', 'p.error'])}
     + ${sumOf('diffs', 100, ['p.text'])}
     + ${sumOf('thread_comments', 200, ['p.body'])}
     + ${sumOf('timeline', 100, ['p.text', 'p.data'], 'AND p.at >= a.created_at')}
   )::bigint AS bytes
   FROM (
     SELECT tenant, id, owner_provider, account, created_at FROM agents WHERE tenant = $1 AND id > $2 ORDER BY id LIMIT $3
   ) a ORDER BY a.id`,
);

/** The next records of a tenant's catalog, with who wrote them: `codehost_oauth/ada`. */
export const countHistory = statement<
  [tenant: number, kind: string, name: string, generation: number, limit: number],
  CountedRow & { kind: string; name: string; generation: number }
>(
  'count-history',
  `SELECT kind, name, generation, 'PROVIDER_' || upper(split_part(by, '/', 1)) AS owner_provider,
     substr(by, strpos(by, '/') + 1) AS account, (300 + ${size('document', 'text', 'justification', 'update_mask')})::bigint AS bytes
   FROM resource_history WHERE tenant = $1 AND (kind, name, generation) > ($2, $3, $4)
   ORDER BY kind, name, generation LIMIT $5`,
);

/** Replaces what was known before the count; what was added meanwhile stays. */
export const saveStorageUse = statement<
  [tenant: number, ownerProviders: string[], accounts: string[], bytes: number[], before: number[]],
  never
>(
  'save-storage-use',
  `INSERT INTO storage_use AS s (tenant, owner_provider, account, bytes, counted_at)
   SELECT $1, q.owner_provider, q.account, q.bytes, now()
   FROM unnest($2::text[], $3::text[], $4::bigint[], $5::bigint[]) AS q (owner_provider, account, bytes, before)
   ORDER BY q.owner_provider, q.account
   ON CONFLICT (tenant, owner_provider, account) DO UPDATE SET counted_at = excluded.counted_at,
     bytes = greatest(0, s.bytes + excluded.bytes - (
       SELECT q.before FROM unnest($2::text[], $3::text[], $5::bigint[]) AS q (owner_provider, account, before)
       WHERE q.owner_provider = s.owner_provider AND q.account = s.account))`,
);

export interface QuotaUseRow {
  quota: 'storage' | 'checkpoints' | 'attachments';
  /** Of the tenant that uses most. */
  largest: number;
  /** How many tenants use more than this number of bytes. */
  nearly_full: number;
}

const largestUse = (quota: QuotaUseRow['quota'], table: string, parameter: number): string =>
  `SELECT '${quota}' AS quota, coalesce(max(bytes), 0)::bigint AS largest,
     count(*) FILTER (WHERE bytes > $${parameter}::bigint)::int AS nearly_full
   FROM (SELECT sum(bytes) AS bytes FROM ${table} GROUP BY tenant) u`;

export const readQuotaUse = statement<
  [storage: number, checkpoints: number, attachments: number],
  QuotaUseRow
>(
  'read-quota-use',
  [
    largestUse('storage', 'storage_use', 1),
    largestUse('checkpoints', 'checkpoints', 2),
    largestUse('attachments', 'attachments', 3),
  ].join(' UNION ALL '),
);

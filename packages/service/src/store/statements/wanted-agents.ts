import type { Wanted } from '../agent-store.ts';

/** The parameters $1 to $6 of a statement that looks for agents by identity or by id. */
export type WantedParameters = [
  tenants: number[],
  providers: (string | null)[],
  accounts: (string | null)[],
  paths: (string | null)[],
  workspaces: (string | null)[],
  ids: (string | null)[],
];

export function wantedParameters(wanted: readonly Wanted[]): WantedParameters {
  const identities = wanted.map((w) => ('identity' in w ? w.identity : null));
  return [
    wanted.map((w) => ('identity' in w ? w.identity.tenant : w.key.tenant)),
    identities.map((i) => i?.ownerProvider ?? null),
    identities.map((i) => i?.account ?? null),
    identities.map((i) => i?.path.join('/') ?? null),
    identities.map((i) => i?.workspace ?? null),
    wanted.map((w) => ('key' in w ? w.key.id : null)),
  ];
}

/** What stands behind FROM: `q.n` counts the wanted from 1, `a` has these columns of what was found for each. */
export const wantedAgents = (columns: string): string =>
  `unnest($1::int[], $2::text[], $3::text[], $4::text[], $5::text[], $6::uuid[])
     WITH ORDINALITY AS q (tenant, provider, account, path, workspace, id, n)
   CROSS JOIN LATERAL (
     SELECT ${columns} FROM agents a
     WHERE q.id IS NULL AND a.tenant = q.tenant AND a.owner_provider = q.provider AND a.account = q.account
       AND a.path = q.path AND (q.workspace = '' OR a.workspace = q.workspace) AND a.current
     UNION ALL
     SELECT ${columns} FROM agents a WHERE a.tenant = q.tenant AND a.id = q.id
   ) a`;

import { statement } from '../connection.ts';

export interface WaitingRow {
  tenant: number;
  id: string;
  /** What it waits for. */
  awaits: string;
}

/** Agents whose home is this runner and that wait for a time that has not come. `tenant` 0 serves every tenant. */
const waitingOn = (
  reason: 'RETRYING' | 'PROVIDER_LIMIT',
  field: 'awaits' | 'limitAccount',
  how: string,
): string =>
  `SELECT a.tenant, a.id, s.memory ->> '${field}' AS awaits
   FROM agents a JOIN agent_states s ON s.tenant = a.tenant AND s.agent = a.id
   WHERE a.pool = $2 AND coalesce(a.home, '') = (SELECT name FROM runners WHERE id = $3::uuid)
     AND a.claimable_at > now() AND ($1::int = 0 OR a.tenant = $1)
     AND a.reason = '${reason}' AND s.memory ->> '${field}' ${how} ($4::text[])
   ORDER BY a.claimable_at LIMIT $5`;

type Parameters = [tenant: number, pool: string, runnerId: string, names: readonly string[], limit: number];

/** Those that wait for one of these providers or git hosts. */
export const findAwaiting = statement<Parameters, WaitingRow>(
  'find-awaiting',
  waitingOn('RETRYING', 'awaits', '= ANY'),
);

/** Those at the limit of an account that is none of these. */
export const findLimited = statement<Parameters, WaitingRow>(
  'find-limited',
  waitingOn('PROVIDER_LIMIT', 'limitAccount', '<> ALL'),
);

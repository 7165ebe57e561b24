import { statement } from '../connection.ts';

/** A run, and the runner that says it holds it. */
type Held = [tenant: number, agent: string, run: number, runnerId: string];

const held = `SELECT * FROM runs
  WHERE tenant = $1 AND agent = $2 AND number = $3 AND runner_id = $4 AND state <> 'ENDED'`;

/** Keeps the files of a session. No row: the run is not live, not this runner's, or a later one has saved already. */
export const saveSession = statement<[...Held, archive: Buffer], { run: number }>(
  'save-session',
  `INSERT INTO sessions (tenant, agent, run, archive, saved_at)
   SELECT r.tenant, r.agent, r.number, $5, now() FROM (${held}) r
   ON CONFLICT (tenant, agent) DO UPDATE
   SET run = excluded.run, archive = excluded.archive, saved_at = excluded.saved_at
   WHERE sessions.run <= excluded.run
   RETURNING run`,
);

/**
 * No row: the run is not live or not this runner's. Null: nothing was saved yet. The database does the encoding, which
 * would keep a node from its other callers.
 */
export const loadSession = statement<Held, { archive: string | null }>(
  'load-session',
  `SELECT (SELECT replace(encode(s.archive, 'base64'), E'\\n', '') FROM sessions s
           WHERE s.tenant = r.tenant AND s.agent = r.agent) AS archive
   FROM (${held}) r`,
);

import { limits } from '@muster/sdk/contract';
import { statement } from '../connection.ts';

/** A run, and the runner that says it holds it. */
type Held = [tenant: number, agent: string, run: number, runnerId: string];
type SavePart = [...Held, checkpoint: string, part: number, content: Buffer];
type Complete = [...Held, checkpoint: string, parts: number, final: boolean];

/** A runner has some minutes to save what a killed run left, unless the agent has a newer run. */
const heldWhere = `FROM runs
  WHERE tenant = $1 AND agent = $2 AND number = $3 AND runner_id = $4 AND (state <> 'ENDED' OR (
    outcome = 'KILLED' AND ended_at > now() - interval '5 minutes' AND NOT EXISTS (
      SELECT FROM runs n WHERE n.tenant = $1 AND n.agent = $2 AND n.number > $3)))`;
const held = `SELECT tenant, agent, number ${heldWhere}`;

/** A later run's are newer, whatever a server's clock said. */
const newestFirst = 'run DESC, completed_at DESC, id';

/**
 * Saves a part of a checkpoint, and drops what else of the agent was never completed. A part that is saved again
 * changes nothing; one that comes twice at the same time may count twice until the checkpoint is complete. No row: the
 * run is not live, or not this runner's. False: the checkpoint is complete without it.
 */
export const saveCheckpointPart = statement<SavePart, { is_saved: boolean }>(
  'save-checkpoint-part',
  `WITH held AS (${held}),
     others AS (
       DELETE FROM checkpoints c USING held r
       WHERE c.tenant = r.tenant AND c.agent = r.agent AND c.completed_at IS NULL AND c.id <> $5
     ),
     known AS (
       SELECT p.part FROM held r JOIN checkpoint_parts p
         ON p.tenant = r.tenant AND p.agent = r.agent AND p.checkpoint = $5 AND p.part = $6
     ),
     checkpoint AS (
       INSERT INTO checkpoints (tenant, agent, id, run, bytes)
       SELECT tenant, agent, $5, number, octet_length($7::bytea) FROM held WHERE NOT EXISTS (SELECT FROM known)
       ON CONFLICT (tenant, agent, id) DO UPDATE SET bytes = checkpoints.bytes + excluded.bytes
       WHERE checkpoints.completed_at IS NULL
       RETURNING tenant, agent, id
     ),
     part AS (
       INSERT INTO checkpoint_parts (tenant, agent, checkpoint, part, content)
       SELECT tenant, agent, id, $6, $7 FROM checkpoint ON CONFLICT DO NOTHING
     )
     SELECT EXISTS (SELECT FROM known) OR EXISTS (SELECT FROM checkpoint) AS is_saved FROM held`,
);

/**
 * Makes a checkpoint count, and drops all but the newest of the agent. One that is complete may only become final. No
 * row: the run is not live, or not this runner's. False: it has other parts than these.
 */
export const completeCheckpoint = statement<Complete, { is_complete: boolean }>(
  'complete-checkpoint',
  `WITH held AS (${held}),
     whole AS (
       SELECT c.tenant, c.agent, c.id FROM held r
       JOIN checkpoints c ON c.tenant = r.tenant AND c.agent = r.agent AND c.id = $5
       WHERE CASE WHEN c.completed_at IS NOT NULL THEN c.parts = $6 ELSE (
         SELECT count(*) = $6 AND max(p.part) = $6 - 1 FROM checkpoint_parts p
         WHERE p.tenant = c.tenant AND p.agent = c.agent AND p.checkpoint = c.id
       ) END
     ),
     completed AS (
       UPDATE checkpoints c SET parts = $6, final = c.final OR $7,
         completed_at = coalesce(c.completed_at, clock_timestamp()),
         bytes = (SELECT sum(octet_length(p.content)) FROM checkpoint_parts p
                  WHERE p.tenant = c.tenant AND p.agent = c.agent AND p.checkpoint = c.id)
       FROM whole w WHERE c.tenant = w.tenant AND c.agent = w.agent AND c.id = w.id
     ),
     surplus AS (
       DELETE FROM checkpoints c USING whole w
       WHERE c.tenant = w.tenant AND c.agent = w.agent AND c.id <> w.id AND c.id NOT IN (
         SELECT k.id FROM checkpoints k
         WHERE k.tenant = $1 AND k.agent = $2 AND k.id <> $5 AND k.completed_at IS NOT NULL
         ORDER BY ${newestFirst} LIMIT ${limits.checkpointsPerAgent - 1})
     )
     SELECT EXISTS (SELECT FROM whole) AS is_complete FROM held`,
);

export interface CheckpointRow {
  id: string;
  run: number;
  final: boolean;
  parts: number;
  bytes: number;
  completed_at: string;
}

/** The complete ones of an agent, newest first. */
export const readCheckpoints = statement<[tenant: number, agent: string], CheckpointRow>(
  'read-checkpoints',
  `SELECT id, run, final, parts, bytes, completed_at FROM checkpoints
   WHERE tenant = $1 AND agent = $2 AND completed_at IS NOT NULL ORDER BY ${newestFirst}`,
);

export const readCheckpointPart = statement<
  [tenant: number, agent: string, checkpoint: string, part: number],
  { content: Buffer }
>(
  'read-checkpoint-part',
  `SELECT content FROM checkpoint_parts p JOIN checkpoints c
     ON c.tenant = p.tenant AND c.agent = p.agent AND c.id = p.checkpoint
   WHERE p.tenant = $1 AND p.agent = $2 AND p.checkpoint = $3 AND p.part = $4 AND c.completed_at IS NOT NULL`,
);

/** No row: the run is not live, or not this runner's. */
export const isHeld = statement<Held, { number: number }>('is-held', `SELECT number ${heldWhere}`);

import { limits } from '@muster/sdk/contract';
import { statement } from '../connection.ts';

/** A run, and the runner that says it holds it. */
type Held = [tenant: number, agent: string, run: number, runnerId: string];

const held = `SELECT * FROM runs
  WHERE tenant = $1 AND agent = $2 AND number = $3 AND runner_id = $4 AND state <> 'ENDED'`;

/**
 * Saves a part of a checkpoint, and drops whatever else of the agent was never completed. A part that is saved again
 * changes nothing. No row: the run is not live, or not this runner's. `bytes_of_tenant` is without this part.
 */
export const saveCheckpointPart = statement<
  [...Held, checkpoint: string, part: number, content: Buffer],
  { is_saved: boolean; bytes_of_tenant: number }
>(
  'save-checkpoint-part',
  `WITH held AS (${held}),
   total AS (SELECT coalesce(sum(c.bytes), 0)::bigint AS bytes FROM checkpoints c, held r WHERE c.tenant = r.tenant),
   fits AS (
     SELECT r.* FROM held r, total
     WHERE total.bytes + octet_length($7::bytea) <= ${limits.checkpointBytesPerTenant}
   ),
   others AS (
     DELETE FROM checkpoints c USING held r
     WHERE c.tenant = r.tenant AND c.agent = r.agent AND c.completed_at IS NULL AND c.id <> $5
   ),
   checkpoint AS (
     INSERT INTO checkpoints (tenant, agent, id, run, bytes)
     SELECT tenant, agent, $5, number, octet_length($7::bytea) FROM fits
     ON CONFLICT (tenant, agent, id) DO UPDATE SET bytes = checkpoints.bytes + excluded.bytes
     WHERE checkpoints.completed_at IS NULL AND NOT EXISTS (
       SELECT FROM checkpoint_parts p WHERE p.tenant = $1 AND p.agent = $2 AND p.checkpoint = $5 AND p.part = $6)
     RETURNING tenant, agent, id
   ),
   part AS (
     INSERT INTO checkpoint_parts (tenant, agent, checkpoint, part, content)
     SELECT tenant, agent, id, $6, $7 FROM checkpoint ON CONFLICT DO NOTHING
   )
   SELECT EXISTS (SELECT FROM fits) AS is_saved, total.bytes AS bytes_of_tenant FROM held, total`,
);

/** Makes a checkpoint count, and drops all but the newest of the agent. No row: not held. False: parts are missing. */
export const completeCheckpoint = statement<
  [...Held, checkpoint: string, parts: number, final: boolean],
  { is_complete: boolean }
>(
  'complete-checkpoint',
  `WITH held AS (${held}),
   whole AS (
     SELECT r.tenant, r.agent FROM held r
     WHERE (SELECT count(*) FROM checkpoint_parts p
            WHERE p.tenant = r.tenant AND p.agent = r.agent AND p.checkpoint = $5 AND p.part < $6) = $6
   ),
   completed AS (
     UPDATE checkpoints c SET parts = $6, final = $7, completed_at = coalesce(c.completed_at, now())
     FROM whole w WHERE c.tenant = w.tenant AND c.agent = w.agent AND c.id = $5
   ),
   surplus AS (
     DELETE FROM checkpoints c USING whole w
     WHERE c.tenant = w.tenant AND c.agent = w.agent AND c.id <> $5 AND c.id NOT IN (
       SELECT k.id FROM checkpoints k
       WHERE k.tenant = $1 AND k.agent = $2 AND k.id <> $5 AND k.completed_at IS NOT NULL
       ORDER BY k.completed_at DESC, k.id LIMIT ${limits.checkpointsPerAgent - 1})
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
   WHERE tenant = $1 AND agent = $2 AND completed_at IS NOT NULL ORDER BY completed_at DESC, id`,
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
export const isHeld = statement<Held, { number: number }>('is-held', held.replace('*', 'number'));

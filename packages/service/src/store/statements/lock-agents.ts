import { statement } from '../connection.ts';
import { type WantedParameters, wantedAgents } from './wanted-agents.ts';

export interface LockedRow {
  /** Which of the wanted it answers, counted from 1. */
  n: number;
  tenant: number;
  id: string;
  parent: string | null;
  root: string;
  /** False: another node holds it right now. */
  locked: boolean;
}

/**
 * Finds agents by identity (an empty workspace matches any) or by id, and locks those that no other node holds.
 * Nobody waits for a lock here, so nobody can deadlock: what was held goes into the next batch.
 */
export const lockAgents = statement<WantedParameters, LockedRow>(
  'lock-agents',
  `WITH wanted AS MATERIALIZED (
     SELECT q.n, a.tenant, a.id, a.parent, a.root
     FROM ${wantedAgents('a.tenant, a.id, a.parent, a.root')}
   ), locked AS MATERIALIZED (
     SELECT a.id FROM wanted w
     CROSS JOIN LATERAL (
       SELECT a.id FROM agents a WHERE a.tenant = w.tenant AND a.id = w.id FOR UPDATE SKIP LOCKED
     ) a
   )
   SELECT w.n::int, w.tenant, w.id, w.parent, w.root, w.id = ANY (ARRAY(SELECT id FROM locked)) AS locked
   FROM wanted w`,
);

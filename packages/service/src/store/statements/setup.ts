import { statement } from '../connection.ts';
import type { RunnerRow } from './runners.ts';

export interface SetupRow {
  /** The live runners that do more than rehearse. */
  runners: Pick<RunnerRow, 'tenant' | 'accounts'>[];
  has_repository: boolean;
  has_agent: boolean;
  has_sign_in: boolean;
  has_notification: boolean;
  is_dismissed: boolean;
}

/** What is set up in a tenant: each fact is one look into an index. It has no paths on a runner's machine: these are looked up in the documents. */
export const readSetup = statement<[tenant: number, check: string], SetupRow>(
  'read-setup',
  `SELECT t.setup_dismissed AS is_dismissed,
     (SELECT coalesce(json_agg(r), '[]') FROM (
       SELECT r.tenant, r.accounts FROM runners r
       WHERE r.tenant IN (0, $1) AND r.lease_until > now() AND NOT r.rehearses LIMIT 100
     ) r) AS runners,
     EXISTS (SELECT FROM workspace_repositories w WHERE w.tenant = $1) OR EXISTS (
       SELECT FROM (
         SELECT r.document -> 'repos' AS repos FROM resources r
         WHERE r.tenant = $1 AND r.kind = 'workspace' AND r.document IS NOT NULL LIMIT 100
       ) w
       WHERE CASE json_typeof(w.repos) WHEN 'array' THEN json_array_length(w.repos) > 0 ELSE false END
     ) AS has_repository,
     EXISTS (SELECT FROM agents a WHERE a.tenant = $1 AND a.path <> $2) AS has_agent,
     EXISTS (SELECT FROM resources r WHERE r.tenant = $1 AND r.kind = 'sign-in' AND r.document IS NOT NULL) AS has_sign_in,
     EXISTS (SELECT FROM notification_targets n WHERE n.tenant = $1) AS has_notification
   FROM tenants t WHERE t.id = $1`,
);

export const dismissSetup = statement<[tenant: number, isDismissed: boolean], never>(
  'dismiss-setup',
  'UPDATE tenants SET setup_dismissed = $2 WHERE id = $1 AND setup_dismissed <> $2',
);

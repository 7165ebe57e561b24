import { statement } from '../connection.ts';
import { dueRows } from './due-rows.ts';

export interface PushedBranch {
  tenant: number;
  /** The URL of the repository, without credentials. */
  repo: string;
  branch: string;
  agent: string;
}

/** The branches of a run that has ended: whether a change request is opened is considered now. */
export const duePushedBranches = dueRows<PushedBranch>('pushed-branches', {
  table: 'pushed_branches',
  key: ['tenant', 'repo', 'branch'],
  columns: ['tenant', 'repo', 'branch', 'agent'],
});

type Key = [tenant: number, repo: string, branch: string];

/** Unless another run has ended since it was claimed: then it is due now. */
export const settlePushedBranch = statement<Key, never>(
  'settle-pushed-branch',
  `UPDATE pushed_branches SET next_at = NULL
   WHERE tenant = $1 AND repo = $2 AND branch = $3 AND next_at > now()`,
);

export const postponePushedBranch = statement<[...Key, delayMs: number], never>(
  'postpone-pushed-branch',
  `UPDATE pushed_branches SET next_at = now() + make_interval(secs => $4 / 1000.0)
   WHERE tenant = $1 AND repo = $2 AND branch = $3`,
);

/** Who pushed a branch to one of these URLs, which are in lower case. */
export const findPushedBranch = statement<
  [tenant: number, repos: readonly string[], branch: string],
  PushedBranch
>(
  'find-pushed-branch',
  `SELECT tenant, repo, branch, agent FROM pushed_branches
   WHERE tenant = $1 AND lower(repo) = ANY($2) AND branch = $3 LIMIT 1`,
);

export const branchesOf = statement<[tenant: number, agent: string], PushedBranch>(
  'branches-of-agent',
  'SELECT tenant, repo, branch, agent FROM pushed_branches WHERE tenant = $1 AND agent = $2 ORDER BY repo, branch',
);

/** Branches of agents from which no change request is known to be open, of the newest agents. */
export const branchesWithoutRequest = statement<[tenant: number, most: number], PushedBranch>(
  'branches-without-change-request',
  `SELECT p.tenant, p.repo, p.branch, p.agent
   FROM pushed_branches p JOIN agents a ON a.tenant = p.tenant AND a.id = p.agent
   WHERE p.tenant = $1 AND a.phase <> 'PHASE_CANCELED' AND NOT EXISTS (SELECT FROM change_requests c
     WHERE c.tenant = p.tenant AND c.agent = p.agent AND c.branch = p.branch AND c.state IN ('OPEN', 'DRAFT'))
   ORDER BY a.created_at DESC, p.repo, p.branch LIMIT $2`,
);

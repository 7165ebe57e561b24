import type { AgentChange } from '../../domain/loaded-agents.ts';
import type { Log } from '../../lib/log.ts';
import type { Metrics } from '../../lib/metrics.ts';

/** Counts and logs the runs that began and ended with a commit. */
export function noteRuns(changes: readonly AgentChange[], metrics: Metrics, log: Log): void {
  for (const { before, after } of changes) {
    const { agent, run } = after;
    if (!run) continue;
    const fields = { agent: agent.id, run: run.number, runner: run.runner, pool: agent.pool };
    const isNew = run.number !== before?.run?.number;
    if (isNew) {
      const waitMs = msBetween(before?.agent.claimableAt ?? run.startedAt, run.startedAt);
      metrics.add('muster_runs_started_total', { backend: agent.backend });
      metrics.observe('muster_claim_wait_seconds', {}, waitMs / 1_000);
      log.info({ ...fields, backend: agent.backend, waitMs }, 'run started');
    }
    if (run.state !== 'ENDED' || (!isNew && before?.run?.state === 'ENDED')) continue;
    const ms = msBetween(run.startedAt, run.endedAt ?? run.startedAt);
    const { outcome } = run;
    metrics.observe('muster_run_seconds', { outcome }, ms / 1_000);
    const { phase, reason } = agent;
    log.info({ ...fields, outcome, ms, phase, reason, error: agent.result.error?.code }, 'run ended');
  }
}

const msBetween = (from: string, to: string): number => Math.max(0, Date.parse(to) - Date.parse(from));

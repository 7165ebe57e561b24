import type { Tracer } from '../../lib/traces/tracer.ts';
import type { accountNames } from '../accounts/accounts.ts';
import type { Harnesses } from '../harnesses.ts';
import type { LateReports } from '../late-reports.ts';
import type { LiveOutput } from '../live-output.ts';
import type { Outages } from '../outages.ts';
import type { PrepareContext } from './prepare-run.ts';

/** What a runner gives to each of its runs. */
export interface RunContext extends PrepareContext {
  readonly url: string;
  readonly harnesses: Harnesses;
  readonly limits: RunLimits;
  readonly mayAct: () => boolean;
  readonly renewLease: (sentAt: number, leaseMs: number) => void;
  readonly live: LiveOutput;
  readonly outages: Outages;
  readonly accountNames: ReturnType<typeof accountNames>;
  /** Undefined where no traces are sent. */
  readonly tracer?: Tracer | undefined;
  readonly late: LateReports;
}

export interface RunLimits {
  readonly remindersPerRun: number;
  readonly reportItems: number;
  readonly reportedTextLength: number;
  /** How long a run that is handed back, or over its time limit, may take before its session is killed. */
  readonly handBackMs: number;
  /** The maximum length of a turn, if the service does not name one. */
  readonly turnMinutes: number;
}

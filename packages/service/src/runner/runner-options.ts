import type { RehearsalOptions } from '../harness/rehearsal/rehearsal.ts';
import type { HostRule } from '../lib/host-rules.ts';
import type { DiskReserveOptions } from './disk-reserve.ts';
import type { GatewayLimits, GatewayOptions } from './gateway/gateway.ts';
import type { Abilities } from './harnesses.ts';
import type { RunContext, RunLimits } from './run/run-context.ts';

export interface RunnerOptions
  extends Pick<
      RunContext,
      'url' | 'dataFolder' | 'checkpointMs' | 'sandbox' | 'environment' | 'tenantAllow' | 'log' | 'tracer'
    >,
    Pick<Abilities, 'harnesses' | 'providers' | 'rehearses'>,
    Pick<GatewayOptions, 'prices'>,
    Pick<GatewayLimits, 'stallMs' | 'limitWaitMs'>,
    Pick<DiskReserveOptions, 'diskReserveGb' | 'spaceOf'>,
    RehearsalOptions {
  readonly apiKey: string;
  /** Stable across restarts: agents return to the runner with this name. */
  readonly name: string;
  /** The pool to serve; the service refuses the runner if its key belongs to another pool. */
  readonly pool?: string | undefined;
  /** Hosts of integrations that may have an address of an internal network. */
  readonly innerHosts: readonly HostRule[];
  /** How long the folders of an agent are kept after its end. */
  readonly keepFoldersDays: number;
  readonly limits?: Partial<RunnerLimits>;
  readonly build: string;
  /** How long live runs may go on after the runner began to drain, before it hands them back. */
  readonly drainMs?: number;
  /** Ends when it had no run for this long. */
  readonly idleExitMs?: number | undefined;
  /** Ends after this many runs. */
  readonly maxRuns?: number | undefined;
}

export interface RunnerLimits extends RunLimits {
  readonly runsPerRunner: number;
  readonly rehearsedRunsPerRunner: number;
}

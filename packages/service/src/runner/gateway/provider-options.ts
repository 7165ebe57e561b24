import type { Credit, HarnessListener, ProviderAccess } from '../../harness/harness.ts';
import type { RunnerLog } from '../../lib/log.ts';
import type { ProviderAccounts } from '../accounts/provider-accounts.ts';
import type { Observed } from '../observed.ts';
import type { RunTrace } from '../run/run-trace.ts';
import type { Capacity } from './capacity.ts';
import type { Prices } from './prices.ts';
import type { ProviderFailure } from './provider-errors.ts';
import type { RequestChecker } from './request-body.ts';

/** What the runs of a runner share. */
export interface SharedOptions {
  readonly prices: Prices;
  /** The name of the runner in errors that its operator has to fix. */
  readonly runnerName?: string;
  readonly log: RunnerLog;
  readonly observed: Pick<Observed, 'add'>;
  /** Bytes of requests that all runs together may have in memory. */
  readonly memory: Capacity;
  readonly checker: RequestChecker;
  /** How long a provider may send nothing. A model may think for minutes before it answers. */
  readonly stallMs: number;
  /** How long the gateway waits in total for the rate limits of one request. */
  readonly limitWaitMs: number;
  /** How long a client may take to send a request to a provider. Elsewhere it may send nothing for twice as long. */
  readonly receiveMs: number;
}

export interface ProviderListener extends Pick<HarnessListener, 'usage' | 'item' | 'action'> {
  /** The account that the run uses from now on. */
  account?(id: string): void;
}

/** Why a run can't go on with its provider: because of the provider, or because a budget is spent. */
export type EndpointFailure = ProviderFailure | { readonly type: 'budget'; readonly message: string };

export interface ProviderEndpointOptions extends ProviderAccess, SharedOptions {
  /** Undefined when the runner has none for the provider. */
  readonly accounts: ProviderAccounts | undefined;
  /** The account that the agent stays with, if the runner has it. */
  readonly usualAccount?: string | undefined;
  /** A person has retried the agent. */
  readonly isRetried?: boolean | undefined;
  /** The run's token, which is never forwarded. */
  readonly token: string;
  readonly listener: ProviderListener;
  /** What the run may spend. */
  readonly credit: Credit;
  readonly onFailure: (failure: EndpointFailure) => void;
  /** Records a request to a model, where traces are sent. */
  readonly trace?: Pick<RunTrace, 'chat'> | undefined;
  /** The provider has accepted a request to a model. */
  readonly onAccepted: () => void;
}

import type { RouteName } from '@muster/sdk/contract';
import type { Principal } from '../access/principal.ts';
import type { Attachments } from '../agents/attachments.ts';
import type { Operation } from '../operation.ts';
import type { LiveOutputRelay } from '../watching/live-output-relay.ts';
import type { Checkpoints } from './checkpoints.ts';
import type { RunCredits } from './run-credits.ts';
import type { Runners } from './runners.ts';

export interface RunnerOperationsOptions {
  readonly runners: Runners;
  readonly checkpoints: Checkpoints;
  readonly attachments: Attachments;
  readonly live: LiveOutputRelay;
  readonly credits: RunCredits;
}

type Registered = Exclude<Extract<RouteName, `runner${string}`>, 'runnerPoll' | 'runnerGitCredential'>;

type Operations = { readonly [N in Registered]: Operation<N> };

/** The operations of a runner that has polled: the caller's token must be the one that registered the runner. */
export function runnerOperations({
  runners,
  checkpoints,
  attachments,
  live,
  credits,
}: RunnerOperationsOptions): Operations {
  const operations: Operations = {
    runnerReport: (caller, request) => runners.report(caller, request),
    runnerCredit: (caller, request) => credits.reserve(caller, request),
    runnerPartials: (_, request) => live.receive(request),
    runnerSaveCheckpoint: (caller, request) => checkpoints.save(caller, request),
    runnerCompleteCheckpoint: (caller, request) => checkpoints.complete(caller, request),
    runnerCheckpoints: (caller, request) => checkpoints.list(caller, request),
    runnerLoadCheckpoint: (caller, request) => checkpoints.load(caller, request),
    runnerAttachment: (caller, request) => attachments.load(caller, request),
    runnerSaveAttachment: (caller, request) => attachments.save(caller, request),
    runnerEndedAgents: (_, request) => runners.ended(request),
  };
  const registered = Object.entries(operations).map(([name, operation]) => [
    name,
    async (caller: Principal, request: { readonly runnerId: string }) =>
      (await runners.registry.refuse(caller, request.runnerId)) ??
      (operation as Operation<Registered>)(caller, request as never),
  ]);
  return Object.fromEntries(registered);
}

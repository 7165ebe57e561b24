import { randomUUID } from 'node:crypto';
import { InvariantError } from '../../lib/errors.ts';
import type { Log } from '../../lib/log.ts';
import type { AgentKey } from '../../store/agent-store.ts';
import type { Transact } from '../batches/transact.ts';

/** `runId` is null while the agent has no live run. */
export interface Subject {
  readonly key: AgentKey;
  readonly runId: number | null;
}

/**
 * Works on one agent. If its stored state makes the work fail, which would happen again each time, the agent is blocked
 * with an incident number and the result is null; undefined if even that could not be stored. So other agents and the
 * runner are not affected. Any other error is thrown.
 */
export type BlockOnStateError = <R>(
  subject: Subject,
  work: () => Promise<R>,
) => Promise<R | null | undefined>;

export const blockOnStateError =
  (transact: Transact, log: Log): BlockOnStateError =>
  async ({ key, runId }, work) => {
    try {
      return await work();
    } catch (error) {
      if (!isStateFault(error)) throw error;
      const incident = randomUUID();
      log.error({ err: error, incident, agent: key.id, run: runId }, 'agent state unusable');
      const message = `the service can't work with the stored state of this agent (incident ${incident})`;
      return transact.command({ key }, { type: 'block', runId, message }).then(
        () => null,
        (err) => {
          log.error({ err, incident, agent: key.id }, 'agent not blocked');
          return undefined;
        },
      );
    }
  };

/** Constraint violations, invalid values, and exceptions that a trigger raised. */
const stateFaultCodes = /^(22|23|P0)/;

/** Errors that come from what is stored, so that the same command would fail again; not those of a lost connection. */
const isStateFault = (error: unknown): boolean =>
  error instanceof InvariantError ||
  error instanceof TypeError ||
  error instanceof RangeError ||
  stateFaultCodes.test((error as { code?: string }).code ?? '');

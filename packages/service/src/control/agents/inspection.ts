import { invalid, isRefusal } from '../../domain/refusal.ts';
import type { Operation } from '../operation.ts';
import type { Checkpoints } from '../runners/checkpoints.ts';
import type { Attachments } from './attachments.ts';
import type { OwnRuns } from './own-runs.ts';
import type { Reads } from './read.ts';
import type { Targets } from './targets.ts';

/** Lines around each change, as in git. */
const defaultContext = 3;

export interface InspectionOptions {
  readonly targets: Targets;
  readonly reads: Reads;
  readonly ownRuns: OwnRuns;
  readonly attachments: Attachments;
  readonly checkpoints: Checkpoints;
}

/** What one agent is doing, and what it did. */
export class Inspection {
  readonly #options: InspectionOptions;

  constructor(options: InspectionOptions) {
    this.#options = options;
  }

  readonly status: Operation<'status'> = async (caller, { agentId }) => {
    const { targets, reads, ownRuns } = this.#options;
    const wanted = await targets.read(caller, agentId);
    const status = isRefusal(wanted) ? wanted : await reads.status(wanted);
    if (!isRefusal(status)) await ownRuns.acknowledge(caller, status);
    return status;
  };

  readonly timeline: Operation<'timeline'> = async (caller, request) => {
    const { targets, reads } = this.#options;
    const after = sequenceIn(request.afterSequence);
    const before = sequenceIn(request.beforeSequence);
    if (after !== null && before !== null)
      return invalid('beforeSequence', 'may not be combined with afterSequence');
    if (after !== null && after < 0) return invalid('afterSequence', `must be 0 or more; got ${after}`);
    if (before !== null && before < 0) return invalid('beforeSequence', `must be 0 or more; got ${before}`);
    const agent = await targets.find(caller, request.agentId);
    if (isRefusal(agent)) return agent;
    const range = before === null ? { after: after ?? 0 } : { before };
    return reads.timeline(agent, range, request.limit ?? 1000, request);
  };

  readonly runs: Operation<'runs'> = async (caller, { agentId, runId, beforeRunId, limit = 100 }) => {
    const { targets, reads } = this.#options;
    const agent = await targets.find(caller, agentId);
    if (isRefusal(agent)) return agent;
    if (runId !== undefined) {
      const run = await reads.run(agent, runNumber(runId));
      return isRefusal(run) ? run : { runs: [run], more: false };
    }
    const before = runNumber(beforeRunId ?? maxRunNumber);
    if (before < 0) return invalid('beforeRunId', `must be 0 or more; got ${before}`);
    return reads.runs(agent, before, limit);
  };

  readonly diff: Operation<'diff'> = async (caller, { agentId, context = defaultContext }) => {
    const agent = await this.#options.targets.find(caller, agentId);
    return isRefusal(agent) ? agent : this.#options.reads.diff(agent, context);
  };

  readonly attachment: Operation<'attachment'> = async (caller, { agentId, attachmentId }) => {
    if (!attachmentId) return invalid('attachmentId', 'is required: the id that the upload returned');
    const agent = await this.#options.targets.find(caller, agentId);
    return isRefusal(agent) ? agent : this.#options.attachments.read(agent, attachmentId);
  };

  /** One part of the newest checkpoint. It holds the agent's files and conversation, so reading it requires `command`. */
  readonly checkpoint: Operation<'checkpoint'> = async (caller, request) => {
    const agent = await this.#options.targets.commandable(caller, request.agentId, 'others');
    return isRefusal(agent) ? agent : this.#options.checkpoints.download(agent, request);
  };
}

/** Past the whole numbers that are safe, every sequence is behind every entry. */
const sequenceIn = (value: string | number | undefined): number | null =>
  value === undefined ? null : Math.min(Number(value), Number.MAX_SAFE_INTEGER);

/** The largest run number that the database can store. */
const maxRunNumber = 2 ** 31 - 1;

/** Numbers outside the range of the database name a run that does not exist, so they need not differ. */
export const runNumber = (runId: string | number): number =>
  Math.max(-maxRunNumber, Math.min(Number(runId), maxRunNumber));

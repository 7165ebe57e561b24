import type { AgentStatus } from '@muster/sdk/contract';
import { type ExitCode, exitCodes } from './exit-codes.ts';

/** The exit code that tells how an agent came to rest. */
export function exitCodeFor({ phase, phaseReason }: Pick<AgentStatus, 'phase' | 'phaseReason'>): ExitCode {
  switch (phase) {
    case 'PHASE_FAILED':
      return exitCodes.agentFailed;
    case 'PHASE_CANCELED':
      return exitCodes.agentCanceled;
    default:
      break;
  }
  switch (phaseReason) {
    case 'QUESTION':
      return exitCodes.agentAsks;
    case 'TASKS_UNFINISHED':
      return exitCodes.agentTasksUnfinished;
    case 'BLOCKED':
      return exitCodes.agentBlocked;
    case 'INTERRUPTED':
      return exitCodes.agentInterrupted;
    default:
      return exitCodes.ok;
  }
}

import type { AgentStatus, PhaseReason } from '@muster/sdk/contract';
import type { Style } from './output.ts';

const styles: Readonly<Partial<Record<PhaseReason, Style>>> = {
  QUESTION: 'yellow',
  TASKS_UNFINISHED: 'yellow',
  PROVIDER_LIMIT: 'yellow',
  NO_RUNNER: 'yellow',
  WORKING: 'cyan',
  STARTING: 'cyan',
  BLOCKED: 'red',
  ERROR: 'red',
  FINISHED: 'green',
  KILLED: 'dim',
  PARENT_KILLED: 'dim',
};

export const styleOf = ({ phaseReason }: Pick<AgentStatus, 'phaseReason'>): Style | undefined =>
  styles[phaseReason];

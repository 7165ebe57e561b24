import type { AgentStatus } from '@muster/sdk';
import type { PlanStep } from '@muster/sdk/contract';
import { Age } from '../../../parts/times.tsx';
import { type TaskState, taskStateTexts } from '../model/tasks.ts';
import { Panel } from './panel.tsx';
import { TaskIcon } from './task-row.tsx';

const states: Readonly<Record<PlanStep['status'], TaskState>> = {
  PENDING: 'todo',
  IN_PROGRESS: 'working',
  COMPLETED: 'done',
};

/** The plan that the agent keeps for itself. Nobody else can change it, unlike the checklist. */
export function Plan({ status: { plan } }: { readonly status: AgentStatus }) {
  if (plan === null) return null;
  const { steps, updatedAt } = plan;
  const done = steps.filter((step) => step.status === 'COMPLETED').length;
  const summary = `${done} of ${steps.length}`;
  return (
    <Panel title="Agent’s plan" summary={summary} isOpenAtFirst>
      <progress max={steps.length} value={done} aria-label={`${summary} steps done`} />
      <PlanSteps steps={steps} />
      <small>
        The agent’s own steps, updated <Age since={updatedAt} /> ago
      </small>
    </Panel>
  );
}

export const PlanSteps = ({ steps }: { readonly steps: readonly PlanStep[] }) => (
  <ol className="checklist plan-steps">
    {steps.map(({ text, status }, index) => {
      const state = states[status];
      return (
        // biome-ignore lint/suspicious/noArrayIndexKey: a step has nothing else that names it.
        <li key={index} className="task-row" data-state={state}>
          <div className="task-line">
            <TaskIcon state={state} />
            <span className="task-subject">{text}</span>
            <span className="task-state secondary">{taskStateTexts[state]}</span>
          </div>
        </li>
      );
    })}
  </ol>
);

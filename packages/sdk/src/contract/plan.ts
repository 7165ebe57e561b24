import { limits } from './limits.ts';
import { type Infer, int64, list, reply, text, timestamp } from './schema.ts';

/** The plan that the agent's harness keeps for itself: Claude Code's todo list, Codex's plan. It is apart from the checklist. */
export const planStatuses = ['PENDING', 'IN_PROGRESS', 'COMPLETED'] as const;
export type PlanStatus = (typeof planStatuses)[number];

const planStep = reply('PlanStep', {
  text,
  status: { title: 'PlanStepStatus', type: 'string', enum: planStatuses },
});
export type PlanStep = Infer<typeof planStep>;

export const plan = reply('AgentPlan', { steps: list(planStep), updatedAt: timestamp });

export const contextUse = reply('ContextUse', {
  usedTokens: { ...int64, description: 'Tokens of the last request to the model and of its answer.' },
  windowTokens: { ...int64, description: "The size of the model's context; 0 if it is not known." },
});

/** The steps in the data of a PLAN entry. What is not a step is left out. */
export function planStepsIn({ steps }: Readonly<Record<string, unknown>>): PlanStep[] {
  return (Array.isArray(steps) ? steps : []).slice(0, limits.planSteps).flatMap((step: unknown) => {
    const { text: stepText, status } = Object(step) as Partial<PlanStep>;
    return typeof stepText === 'string' && status && planStatuses.includes(status)
      ? [{ text: stepText, status }]
      : [];
  });
}

/** `1 of 3 steps done; now: Write the test`. */
export function planSummary(steps: readonly PlanStep[]): string {
  if (steps.length === 0) return 'no steps';
  const done = steps.filter(({ status }) => status === 'COMPLETED').length;
  const current = steps.find(({ status }) => status === 'IN_PROGRESS');
  const count = `${done} of ${steps.length} ${steps.length === 1 ? 'step' : 'steps'} done`;
  return current ? `${count}; now: ${current.text}` : count;
}

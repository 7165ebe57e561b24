import type { AgentEntry, Task } from '@muster/sdk';
import { agentPage } from '@muster/sdk/contract';

export const agentEntryNow = Date.parse('2026-03-01T12:00:00.000Z');
export const secondsAgo = (seconds: number): string => new Date(agentEntryNow - seconds * 1000).toISOString();

/** An entry of a list as the service sends it, with the address of its page; idle unless the fields say otherwise. */
export function agentEntry(
  path: string,
  fields: Partial<AgentEntry> = {},
  who: Partial<AgentEntry['agentId']> = {},
): readonly [page: string, AgentEntry] {
  const entry: AgentEntry = {
    agentId: {
      tenant: { provider: 'PROVIDER_CODEHOST_APP', org: 'acme' },
      ownerProvider: 'PROVIDER_CODEHOST_OAUTH',
      account: 'ada',
      workspace: 'default',
      agent: path.split('/'),
      ...who,
    },
    phase: 'PHASE_WAITING_FOR_INPUT',
    phaseReason: 'RESTING',
    phaseSince: secondsAgo(100),
    progressAt: secondsAgo(100),
    createdAt: secondsAgo(1000),
    needsInput: '',
    wakesAt: null,
    description: '',
    error: '',
    model: 'model-a',
    persona: 'default',
    rehearsed: false,
    sandboxed: true,
    queued: 0,
    childCount: 0,
    news: '',
    currentAction: '',
    taskCount: 0,
    tasksDone: 0,
    cost: 0,
    treeCost: 0,
    runCount: '1',
    sequence: '5',
    seen: '0',
    pinned: false,
    inputTokens: '0',
    cachedInputTokens: '0',
    outputTokens: '0',
    totalTokens: '0',
    repos: [],
    changeRequests: [],
    budgets: [],
    unpushed: null,
    checkpointAt: null,
    labels: {},
    dashboardUrl: '',
    ...fields,
  };
  return [agentPage(entry.agentId), entry];
}

export const sampleTask = (id: string, more: Partial<Task> = {}): Task => ({
  id,
  subject: id,
  description: '',
  status: 'TASK_STATUS_PENDING',
  blocks: [],
  blockedBy: [],
  activation: null,
  persona: '',
  dedupKey: '',
  ephemeral: false,
  ...more,
});

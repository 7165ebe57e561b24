import type { Kind, NotificationEvent } from '@muster/sdk/contract';
import type { EventType } from '../store/statements/events.ts';

interface EventText {
  /** Of one event. */
  readonly title: (name: string) => string;
  /** In a digest, after a number. */
  readonly several: readonly [one: string, more: string];
  /** The kind of the document that it is about, if there is one with that name. */
  readonly kind?: Kind;
}

/** How events are called. */
export const eventTexts: Readonly<Record<EventType, EventText>> = {
  'agent.needs_input': {
    title: (name) => `${name} needs input`,
    several: ['agent needs input', 'agents need input'],
  },
  'agent.blocked': {
    title: (name) => `${name} is blocked`,
    several: ['agent is blocked', 'agents are blocked'],
  },
  'agent.budget': {
    title: (name) => `${name} is out of budget`,
    several: ['agent is out of budget', 'agents are out of budget'],
  },
  'agent.completed': {
    title: (name) => `${name} has finished`,
    several: ['agent has finished', 'agents have finished'],
  },
  'agent.failed': { title: (name) => `${name} failed`, several: ['agent failed', 'agents failed'] },
  'agent.idle': { title: (name) => `${name} is idle`, several: ['agent is idle', 'agents are idle'] },
  'agent.resumed': {
    title: (name) => `${name} no longer needs anybody`,
    several: ['agent continues', 'agents continue'],
  },
  'change_request.opened': {
    title: (name) => `Change request ${name} was opened`,
    several: ['change request was opened', 'change requests were opened'],
  },
  'change_request.merged': {
    title: (name) => `Change request ${name} was merged`,
    several: ['change request was merged', 'change requests were merged'],
  },
  'change_request.closed': {
    title: (name) => `Change request ${name} was closed`,
    several: ['change request was closed', 'change requests were closed'],
  },
  'change_request.paused': {
    title: (name) => `Change request ${name} is paused`,
    several: ['change request is paused', 'change requests are paused'],
  },
  'budget.warned': {
    title: (name) => `Budget ${name} is nearly spent`,
    several: ['budget is nearly spent', 'budgets are nearly spent'],
    kind: 'budget',
  },
  'budget.spent': {
    title: (name) => `Budget ${name} is spent`,
    several: ['budget is spent', 'budgets are spent'],
    kind: 'budget',
  },
  'schedule.paused': {
    title: (name) => `Schedule ${name} is paused`,
    several: ['schedule is paused', 'schedules are paused'],
    kind: 'schedule',
  },
  'trigger.paused': {
    title: (name) => `Trigger ${name} is paused`,
    several: ['trigger is paused', 'triggers are paused'],
    kind: 'trigger',
  },
  'runner.lost': {
    title: (name) => `Runner ${name} was lost`,
    several: ['runner was lost', 'runners were lost'],
  },
  'account.resting': {
    title: (name) => `Account ${name} is paused`,
    several: ['account is paused', 'accounts are paused'],
  },
};

/** `3 agents need input, 1 agent failed`. */
export const digestTitle = (counts: readonly (readonly [type: NotificationEvent, count: number])[]): string =>
  counts
    .map(([type, count]) => {
      const [one, more] = eventTexts[type].several;
      return `${count} ${count === 1 ? one : more}`;
    })
    .join(', ');

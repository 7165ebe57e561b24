import { agentOperations } from './operations/agents.ts';
import { callerOperations } from './operations/caller.ts';
import { catalogOperations } from './operations/catalog.ts';
import { codeHostOperations } from './operations/code-hosts.ts';
import { memberOperations } from './operations/members.ts';
import { messageOperations } from './operations/messages.ts';
import { notificationOperations } from './operations/notifications.ts';
import type { Operation, Operations } from './operations/operation.ts';
import { poolRunnerOperations } from './operations/pool-runners.ts';
import { pushOperations } from './operations/push.ts';
import { reviewOperations } from './operations/reviews.ts';
import { runnerOperations } from './operations/runner.ts';
import { runOperations } from './operations/runs.ts';
import { scheduleOperations } from './operations/schedules.ts';
import { signInOperations } from './operations/sign-in.ts';
import { taskOperations } from './operations/tasks.ts';
import { triggerOperations } from './operations/triggers.ts';
import { usageOperations } from './operations/usage.ts';
import { paths } from './paths.ts';
import type { Infer } from './schema.ts';

export { type Access, needsKey } from './operations/operation.ts';

/** The chapters of the API, in reading order. */
export const chapters: Readonly<Record<string, { readonly about: string; readonly operations: Operations }>> =
  {
    agents: {
      about: 'Spawn agents, see their status, wait for them, end them.',
      operations: agentOperations,
    },
    messages: { about: 'Follow-ups: more work and answers, now or later.', operations: messageOperations },
    runs: {
      about: 'The turns of an agent: what happened in them, and how to stop one.',
      operations: runOperations,
    },
    tasks: { about: "An agent's checklist.", operations: taskOperations },
    reviews: {
      about: "Review threads: comments on an agent's changes, and its answers.",
      operations: reviewOperations,
    },
    catalog: {
      about: 'Versioned documents: workspaces, personas, environments, pools, keys.',
      operations: catalogOperations,
    },
    'code hosts': {
      about:
        'Integrations with GitHub, GitLab and Forgejo: change requests of agents, and deliveries of webhooks.',
      operations: codeHostOperations,
    },
    notifications: {
      about: 'What was sent to the targets of notifications, and whether it arrived.',
      operations: notificationOperations,
    },
    schedules: {
      about: 'Work at certain times: what fired, and what did not.',
      operations: scheduleOperations,
    },
    triggers: {
      about: 'Requests of other systems that spawn agents or are messages to one.',
      operations: triggerOperations,
    },
    'browser notifications': {
      about: 'The browsers of a person that show notifications, also while no page is open (Web Push).',
      operations: pushOperations,
    },
    usage: { about: 'What agents used, and what it cost.', operations: usageOperations },
    'sign-in': {
      about: 'The providers that people sign in with, and what came of it.',
      operations: signInOperations,
    },
    caller: { about: 'Who a key belongs to, and how a browser signs in.', operations: callerOperations },
    members: {
      about: 'The people of a tenant, what they may do, and what is left to set up.',
      operations: memberOperations,
    },
    pools: {
      about: 'Runners of a pool: how many it needs, and how one ends without losing work.',
      operations: poolRunnerOperations,
    },
    runner: { about: 'The protocol between the service and its runners.', operations: runnerOperations },
  };

const operations = {
  ...agentOperations,
  ...messageOperations,
  ...runOperations,
  ...taskOperations,
  ...reviewOperations,
  ...catalogOperations,
  ...codeHostOperations,
  ...notificationOperations,
  ...scheduleOperations,
  ...triggerOperations,
  ...pushOperations,
  ...usageOperations,
  ...signInOperations,
  ...callerOperations,
  ...memberOperations,
  ...poolRunnerOperations,
  ...runnerOperations,
} satisfies { readonly [N in keyof typeof paths]: Operation };

export type RouteName = keyof typeof paths;

export interface Route extends Operation {
  readonly method: 'GET' | 'POST' | 'DELETE';
  readonly path: string;
}

/** The route table, in the order of the paths. */
export const routes = Object.fromEntries(
  Object.entries(paths).map(([name, path]) => [name, { ...path, ...operations[name as RouteName] }]),
) as { readonly [N in RouteName]: (typeof paths)[N] & (typeof operations)[N] };

export type BodyOf<N extends RouteName> = (typeof routes)[N] extends { readonly body: infer B }
  ? Infer<B>
  : undefined;
/** Whole numbers in a query become numbers. */
export type QueryOf<N extends RouteName> = (typeof routes)[N] extends { readonly query: infer Q }
  ? Infer<Q>
  : Readonly<Record<string, string>>;
export type ReplyOf<N extends RouteName> = Infer<(typeof routes)[N]['reply']>;

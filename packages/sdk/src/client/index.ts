export type {
  AgentEntry,
  AgentStatus,
  ListRequest,
  Phase,
  PhaseReason,
  SpawnReply,
  SpawnRequest,
} from '../contract/agent.ts';
export type { ErrorDetail, ErrorEnvelope, StatusName } from '../contract/errors.ts';
export type { FollowUpState, PendingFollowUp } from '../contract/follow-up.ts';
export type { AgentId, AgentIdInput, Caller, Provider, Role, Tenant } from '../contract/identity.ts';
export type { Kind } from '../contract/resource.ts';
export type { BodyOf, ReplyOf, RouteName } from '../contract/routes.ts';
export type { CurrentRun, Run, RunOutcome, RunState, StopMode } from '../contract/run.ts';
export type { BrowserSession, SignedIn, SignInCode } from '../contract/sign-in.ts';
export type { Task, TaskInput, TaskStatus } from '../contract/task.ts';
export type { EntryType, TimelineEntry } from '../contract/timeline.ts';
export { type AgentRef, agentIdOf } from './agent-ref.ts';
export type { CallSettings, ClientOptions } from './caller.ts';
export * from './catalog.ts';
export * from './errors.ts';
export * from './inputs.ts';
export * from './int64.ts';
export { mintId } from './mint-id.ts';
export * from './muster-client.ts';
export type { Page } from './pages.ts';
export type { Retry, RetryLimits } from './persistence.ts';
export * from './sign-in.ts';

export type {
  AgentEntry,
  AgentStatus,
  ListRequest,
  SpawnReply,
  SpawnRequest,
} from '../contract/agent.ts';
export type { Attachment, AttachmentContent, ImageType } from '../contract/attachment.ts';
export type { AgentBudget, BudgetState } from '../contract/budget.ts';
export type { ChangeRequest, Delivery } from '../contract/code-host.ts';
export type { PendingLogin, PolledLogin, StartedLogin } from '../contract/device-login.ts';
export type { ErrorDetail, ErrorEnvelope, StatusName } from '../contract/errors.ts';
export type { FollowUpState, PendingFollowUp } from '../contract/follow-up.ts';
export type {
  AgentId,
  AgentIdInput,
  BrowserSession,
  Caller,
  Provider,
  Role,
  SignedIn,
  SignInCode,
  Tenant,
} from '../contract/identity.ts';
export type { ListedKey } from '../contract/keys.ts';
export type { Kind } from '../contract/kinds.ts';
export type { Member } from '../contract/member.ts';
export type { NotificationDelivery } from '../contract/notification.ts';
export type { Phase, PhaseReason } from '../contract/phases.ts';
export type { PushSubscription } from '../contract/push.ts';
export type { BodyOf, ReplyOf, RouteName } from '../contract/routes.ts';
export type { CurrentRun, Run, RunOutcome, RunState, StopMode } from '../contract/run.ts';
export type { ScheduleFire } from '../contract/schedule.ts';
export type { Setup, SetupStep } from '../contract/setup.ts';
export type {
  SignInAttempt,
  SignInOutcome,
  SignInProvider,
  SignInTest,
} from '../contract/sign-in.ts';
export type { Task, TaskInput, TaskStatus } from '../contract/task.ts';
export type { ReviewComment, Thread, ThreadAnswer, ThreadComment, ThreadState } from '../contract/thread.ts';
export type { EntryType, TimelineEntry, TimelinePartial } from '../contract/timeline.ts';
export type { TriggerDelivery } from '../contract/trigger.ts';
export type { UsageInterval, UsageKey, UsageRow } from '../contract/usage.ts';
export type { AuditInput, AuditRecord } from './access.ts';
export * from './attachments.ts';
export type { CallSettings, ClientOptions, Page } from './caller.ts';
export * from './catalog.ts';
export { pollLogin, type SignInSettings, signIn, startLogin } from './connection.ts';
export * from './errors.ts';
export * from './inputs.ts';
export { type LiveText, LiveTexts } from './live-texts.ts';
export * from './muster-client.ts';
export { NotificationClient } from './notifications.ts';
export type { Retry, RetryLimits } from './retries.ts';
export { ScheduleClient } from './schedules.ts';
export { SignInClient, signInProviders } from './sign-ins.ts';
export { TriggerClient } from './triggers.ts';
export type { UsageInput } from './usage.ts';
export {
  type AgentRef,
  agentIdOf,
  compareInt64,
  type Int64,
  type Int64Input,
  mintId,
} from './values.ts';

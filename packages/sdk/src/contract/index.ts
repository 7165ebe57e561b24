export * from './agent.ts';
export * from './attachment.ts';
export * from './audit.ts';
export * from './backend.ts';
export * from './budget.ts';
export * from './code-host.ts';
export { type Cron, cronProblem, parseCron } from './cron.ts';
export { lastTimes, nextTimes } from './cron-times.ts';
export { cronInWords } from './cron-words.ts';
export * from './device-login.ts';
export * from './display-text.ts';
export * from './document-edit.ts';
export * from './document-warnings.ts';
export * from './errors.ts';
export * from './faults.ts';
export * from './follow-up.ts';
export * from './git-credential.ts';
export { globProblem, matchingGlobs } from './glob.ts';
export * from './identity.ts';
export * from './keys.ts';
export type { BudgetDocument } from './kinds/budget.ts';
export type { EnvironmentDocument } from './kinds/environment.ts';
export { changeRequestModes, type IntegrationDocument } from './kinds/integration.ts';
export { type FormField, type KindEntry, type KindGroup, kindGroups } from './kinds/kind.ts';
export type { NotificationDocument } from './kinds/notification.ts';
export type { PersonaDocument } from './kinds/persona.ts';
export type { PolicyDocument } from './kinds/policy.ts';
export type { PoolDocument } from './kinds/pool.ts';
export type { ScheduleDocument } from './kinds/schedule.ts';
export type { ShareLinkDocument } from './kinds/share-link.ts';
export { ruleFields, type SignInDocument } from './kinds/sign-in.ts';
export type { TokenDocument } from './kinds/token.ts';
export { type TriggerAuth, type TriggerDocument, triggerAuths } from './kinds/trigger.ts';
export {
  type GivenText,
  type McpServerDocument,
  type WorkspaceDocument,
  type WorkspaceTool,
  workspaceTools,
} from './kinds/workspace.ts';
export * from './kinds.ts';
export * from './limits.ts';
export * from './member.ts';
export * from './notification.ts';
export { openApiDocument } from './openapi.ts';
export * from './paths.ts';
export { matchesPattern } from './pattern.ts';
export * from './phases.ts';
export * from './plan.ts';
export * from './pool-runners.ts';
export * from './provider-account.ts';
export type { PushSubscription } from './push.ts';
export * from './resource.ts';
export * from './resource-text.ts';
export * from './routes.ts';
export * from './run.ts';
export * from './runner.ts';
export * from './runner-report.ts';
export * from './schedule.ts';
export * from './schema.ts';
export * from './setup.ts';
export * from './sign-in.ts';
export * from './task.ts';
export * from './thread.ts';
export * from './timeline.ts';
export * from './trigger.ts';
export * from './usage.ts';
export { usageCsv } from './usage-csv.ts';
export * from './zone.ts';

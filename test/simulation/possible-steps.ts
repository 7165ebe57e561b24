import { isTerminal } from '@muster/sdk/contract';
import type { FollowUp } from '../../packages/service/src/domain/agent.ts';
import type { QueueFollowUp } from '../../packages/service/src/domain/commands/queue-follow-up.ts';
import type { SpawnAgent } from '../../packages/service/src/domain/commands/spawn-agent.ts';
import type { AgentCommand } from '../../packages/service/src/domain/decide.ts';
import type { AgentHistory } from './history.ts';
import { claimingRunner, ended, followUp, report, settingId, spawn, task } from './samples.ts';

const minuteMs = 60_000;
const runner = 'runner-1';

/** A possible next step; a failing sequence is printed by these names. */
export interface PossibleStep {
  readonly name: string;
  readonly act: Act;
}

export type Act =
  | { readonly type: 'command'; readonly agent: string; readonly command: AgentCommand }
  | { readonly type: 'spawn'; readonly command: SpawnAgent }
  | { readonly type: 'pass'; readonly ms: number };

/** Every command on one agent, with ids and numbers that match and that do not. */
export function stepsFor(history: AgentHistory, nowMs: number): PossibleStep[] {
  const { agent, entries, checklist } = history;
  const run = history.runs.at(-1) ?? null;
  const label = agent.path.join('/');
  // The number of entries is new after each change, and equal after equal sequences.
  const fresh = `${entries.length}`;
  const later = new Date(nowMs + minuteMs).toISOString();
  const undelivered = [...history.followUps.values()]
    .filter((f) => f.state === 'QUEUED' || f.state === 'DEFERRED')
    .sort((a, b) => a.position - b.position);
  const queued = undelivered.filter((f) => f.state === 'QUEUED').map((f) => f.id);
  const delivered = [...history.followUps.values()].findLast((f) => f.state === 'DELIVERED');
  const runId = run?.number ?? 0;
  const next = (run?.reports ?? 0) + 1;
  const unpushed = { commits: runId, files: next, isSaved: next % 2 === 0 };
  const reportOf = (fields: Parameters<typeof report>[3]) =>
    report(run?.runnerId ?? runner, runId, next, { unpushed, ...fields });
  const steers = undelivered
    .filter((f) => f.steerBatch !== null)
    .map((f) => ({ followUpId: f.id, sequence: f.position, taken: true }));
  const [steered = null] = steers;
  const lastSteered = steers.at(-1) ?? null;
  const commands: [string, AgentCommand | null][] = [
    ['queue', followUp(`plain-${fresh}`)],
    ['preempt', followUp(`preempt-${fresh}`, { preempt: true })],
    ['defer', followUp(`later-${fresh}`, { deliverAt: later })],
    ['queue with a setting', followUp(settingId(fresh))],
    ['queue with a task', followUp(`task-${fresh}`, { tasks: [task(`t-${fresh}`, { ephemeral: true })] })],
    ['steer', followUp(`steer-${fresh}`, { steer: true, tasks: [task(`t-${fresh}`, { ephemeral: true })] })],
    ['steer taken', steered && reportOf({ steers: [{ ...steered, taken: true }] })],
    ['steer refused', steered && reportOf({ steers: [{ ...steered, taken: false }] })],
    [
      'last steer taken at the end',
      lastSteered && reportOf({ steers: [lastSteered], end: ended('COMPLETED') }),
    ],
    ['queue again', repeatNewest(history)],
    ['queue other content under a known id', repeatNewest(history, 'other')],
    ['replace the first', replace(undelivered[0], { digest: fresh })],
    ['replace the first by a deferred one', replace(undelivered[0], { digest: fresh, deliverAt: later })],
    ['replace a delivered one', replace(delivered, { digest: fresh })],
    ['remove the first', { type: 'remove', followUpId: undelivered[0]?.id ?? 'none' }],
    ['remove the last', last(undelivered.map((f) => f.id))],
    ['reverse the queue', { type: 'order', followUpIds: queued.toReversed() }],
    ['order another queue', { type: 'order', followUpIds: queued.slice(1) }],
    ['clear', { type: 'clear' }],
    ['interrupt', { type: 'stop', runId, kind: 'INTERRUPT' }],
    ['stop-kill', { type: 'stop', runId, kind: 'KILL' }],
    ['stale interrupt', { type: 'stop', runId: runId - 1, kind: 'INTERRUPT' }],
    ['stale stop-kill', { type: 'stop', runId: runId - 1, kind: 'KILL' }],
    ['early stop-kill', { type: 'stop', runId: runId + 1, kind: 'KILL' }],
    ['kill', { type: 'kill' }],
    ['claim', claimingRunner(runner, 'home')],
    ['started', reportOf({ started: true })],
    ['ask', { type: 'ask', runId, question: 'which?' }],
    ['finish', { type: 'finish', runId, text: '' }],
    ['stale ask', { type: 'ask', runId: runId - 1, question: 'which?' }],
    ['stale finish', { type: 'finish', runId: runId - 1, text: 'no' }],
    ['completed', reportOf({ end: ended('COMPLETED') })],
    ['asked', reportOf({ end: ended('COMPLETED', { question: 'which?' }) })],
    ['finished', reportOf({ end: ended('COMPLETED', { finished: true }) })],
    ['interrupted', reportOf({ end: ended('INTERRUPTED') })],
    ['declare failed', { type: 'fail', runId, message: 'no way' }],
    ['failed for good', reportOf({ end: failed('REHEARSED_FAILURE') })],
    ['failed for now', reportOf({ end: failed('GIT_UNREACHABLE', { awaits: 'git:host' }) })],
    ['failed', reportOf({ end: failed('PROVIDER_KEY_REFUSED') })],
    ['retry', { type: 'retry' }],
    ['reopen', { type: 'reopen' }],
    ['parked', reportOf({ end: ended('PARKED', { limitUntil: later, limitAccount: 'anthropic/1' }) })],
    ['its git host is reached', { type: 'resume', reached: ['git:host'], accounts: [] }],
    [
      'another host is reached',
      { type: 'resume', reached: ['git:other'], accounts: ['anthropic/1', 'openai/2'] },
    ],
    [
      'its runner has another account',
      { type: 'resume', reached: [], accounts: ['anthropic/1', 'anthropic/2'] },
    ],
    ['handed back', reportOf({ end: ended('HANDED_BACK') })],
    ['repeated report', { ...reportOf({ started: true, end: ended('FAILED') }), report: next - 1 }],
    ['stale report', { ...reportOf({ started: true, end: ended('FAILED') }), runId: runId - 1 }],
    [
      'report of another runner',
      { ...reportOf({ started: true, end: ended('FAILED'), gone: true }), runnerId: 'x' },
    ],
    ['gone', reportOf({ gone: true })],
    ['lose', { type: 'lose', runId }],
    ['stale lose', { type: 'lose', runId: runId - 1 }],
    ['due', { type: 'due' }],
    ['create a task', { type: 'createTasks', tasks: [task(`t-${fresh}`)] }],
    ['complete a task', updateFirst(checklist, 'TASK_STATUS_COMPLETED')],
    ['delete a task', updateFirst(checklist, 'TASK_STATUS_DELETED')],
    // An agent is spawned with the label that this removes.
    ['label', { type: 'label', labels: { team: 'web', spawned: '' } }],
    [
      'acknowledgeChild',
      agent.memory.unseenChildren[0]
        ? { type: 'acknowledgeChild', child: agent.memory.unseenChildren[0] }
        : null,
    ],
  ];
  return commands.flatMap(([name, command]) =>
    command ? [{ name: `${name} ${label}`, act: { type: 'command', agent: agent.id, command } }] : [],
  );
}

const failed = (code: string, more: Parameters<typeof ended>[1] = {}) =>
  ended('FAILED', { error: { code, message: 'no' }, ...more });

/** Repeats the newest message, as a client does that got no reply. */
function repeatNewest(history: AgentHistory, digest?: string): AgentCommand | null {
  const newest = [...history.followUps.values()].at(-1);
  if (!newest) return null;
  const same = followUp(newest.id, { deliverAt: newest.deliverAt, digest: digest ?? newest.digest });
  const { steerBatch, tasks, id } = newest;
  return { ...same, tasks, preempt: id.startsWith('preempt-'), ...(steerBatch !== null && { steer: true }) };
}

const replace = (known: FollowUp | undefined, fields: Partial<QueueFollowUp>): AgentCommand | null =>
  known ? followUp(known.id, { replace: true, ...fields }) : null;

const last = (all: readonly string[]): AgentCommand | null =>
  all.length > 1 ? { type: 'remove', followUpId: all.at(-1) ?? '' } : null;

function updateFirst(
  checklist: AgentHistory['checklist'],
  status: 'TASK_STATUS_COMPLETED' | 'TASK_STATUS_DELETED',
): AgentCommand | null {
  const open = checklist.find((t) => t.status === 'TASK_STATUS_PENDING');
  if (!open) return null;
  return { type: 'updateTask', id: open.id, status };
}

/** The steps that are not commands on an existing agent. */
export function otherSteps(root: AgentHistory, children: readonly AgentHistory[]): PossibleStep[] {
  const id = `child-${children.length}`;
  const child = spawn(id, [...root.agent.path, 'c'], [task('once', { ephemeral: true })]);
  const isHeld = children.some(({ agent }) => !isTerminal(agent.phase));
  const steps: PossibleStep[] = [{ name: 'time passes', act: { type: 'pass', ms: 2 * minuteMs } }];
  return isHeld && children.length > 1
    ? steps
    : [...steps, { name: 'spawn the child', act: { type: 'spawn', command: child } }];
}

import {
  type AgentIdInput,
  nameExpected,
  namePattern,
  type ScheduleDocument,
  type SpawnRequest,
} from '@muster/sdk/contract';
import type pg from 'pg';
import { invalid, isRefusal, type Refusal } from '../../domain/refusal.ts';
import { digestOf } from '../../lib/token.ts';
import { type BusyRow, readBusy } from '../../store/statements/schedules.ts';
import type { Principal } from '../access/principal.ts';
import type { Reads } from '../agents/read.ts';
import type { Spawns } from '../agents/spawn.ts';
import type { Targets } from '../agents/targets.ts';
import type { Transact } from '../batches/transact.ts';
import type { Document } from '../catalog/document.ts';
import type { Operation } from '../operation.ts';
import { dateIn, mostReadable, spawnPath } from './spawn-path.ts';

export interface StartOptions {
  readonly database: pg.Pool;
  readonly reads: Reads;
  readonly targets: Targets;
  readonly transact: Transact;
  readonly spawns: Spawns;
  readonly queue: Operation<'queue'>;
}

/** One fire of a schedule. */
export interface Fire {
  readonly tenant: number;
  readonly name: string;
  readonly document: Document;
  readonly scheduledMs: number;
  /** The id of the agent that it spawns, and its number. */
  readonly spawnId: string;
  readonly n: number;
  readonly lastAgent: string | null;
  readonly lastFollowUp: string;
}

export type Started =
  | { readonly type: 'fired'; readonly agent: string; readonly followUpId: string }
  | { readonly type: 'skipped'; readonly reason: string }
  /** The agent of the fire before is busy: it is to be tried again. */
  | { readonly type: 'waits'; readonly reason: string };

const skipped = (reason: string): Started => ({ type: 'skipped', reason });

/**
 * Does what a schedule is for. It may be repeated after a crash: the message and the agent have the same id in every
 * attempt, and are looked for first.
 */
export function startWork(options: StartOptions, caller: Principal, fire: Fire): Promise<Started | Refusal> {
  return fire.document.spawn ? spawn(options, caller, fire) : tell(options, caller, fire);
}

const isBusy = ({ phase }: BusyRow): boolean => phase === 'PHASE_RUNNING' || phase === 'PHASE_PENDING';
/** It waits for money or for a provider, and its schedule waits with it. */
const isParked = ({ reason }: BusyRow): boolean => reason === 'BUDGET' || reason === 'PROVIDER_LIMIT';

async function tell(options: StartOptions, caller: Principal, fire: Fire): Promise<Started | Refusal> {
  const { database, reads, targets, transact, queue } = options;
  const { agentId, message = '', overlap = 'queue' } = fire.document as ScheduleDocument;
  const identity = await targets.command(caller, agentId);
  const agent = isRefusal(identity) ? identity : await reads.find({ identity });
  if (isRefusal(agent)) return agent;
  const followUpId = followUpIdOf(fire);
  const fired: Started = { type: 'fired', agent: agent.id, followUpId };
  const [busy] = await readBusy(database, fire.tenant, agent.id, fire.lastFollowUp, followUpId);
  if (!busy || busy.is_told) return fired;
  const waits = busy.follow_up === 'QUEUED' || busy.follow_up === 'DEFERRED';
  if (waits && (overlap === 'queue' || overlap === 'skip'))
    return skipped('the message of an earlier time still waits');
  if (overlap === 'skip' && isBusy(busy) && !isParked(busy)) return skipped('the agent is still busy');
  const key = { tenant: fire.tenant, id: agent.id };
  if (overlap === 'replace' && waits)
    await transact.command({ key }, { type: 'remove', followUpId: fire.lastFollowUp });
  if (overlap === 'replace') await stopTurn(options, key, busy);
  const queued = await queue(caller, { agentId, followUpId, description: message });
  return isRefusal(queued) ? queued : fired;
}

async function spawn(options: StartOptions, caller: Principal, fire: Fire): Promise<Started | Refusal> {
  const { database, reads, spawns } = options;
  const { spawn: template = {}, overlap = 'queue' } = fire.document as ScheduleDocument;
  const { tenant, spawnId, lastAgent } = fire;
  const fired: Started = { type: 'fired', agent: spawnId, followUpId: '' };
  if (await reads.phase({ tenant, id: spawnId })) return fired;
  const [busy] = lastAgent ? await readBusy(database, tenant, lastAgent, '', '') : [];
  if (busy && isBusy(busy) && lastAgent) {
    const reason = 'the agent of an earlier time is still busy';
    if (overlap === 'skip' && !isParked(busy)) return skipped(reason);
    if (overlap === 'queue' || overlap === 'skip') return { type: 'waits', reason };
    if (overlap === 'replace') await stopTurn(options, { tenant, id: lastAgent }, busy);
  }
  const agentId = spawnedAgent(fire);
  if (isRefusal(agentId)) return agentId;
  const spawned = await spawns.spawn(caller, { ...(template as SpawnRequest), agentId }, '', { id: spawnId });
  if (!isRefusal(spawned)) return fired;
  // Another node may have been faster.
  return (await reads.phase({ tenant, id: spawnId })) ? fired : spawned;
}

/** Nothing that was asked for is lost: messages stay queued, and the agent keeps its state. */
async function stopTurn({ transact }: StartOptions, key: { tenant: number; id: string }, busy: BusyRow) {
  if (busy.phase !== 'PHASE_RUNNING') return;
  // Refused if that turn has just ended.
  await transact.command({ key }, { type: 'stop', runId: busy.run_count, kind: 'INTERRUPT' });
}

/** Names the schedule and the time, and is the same for both. */
function followUpIdOf({ name, scheduledMs }: Fire): string {
  const shown = name.length > mostReadable ? digestOf(name) : name;
  return `schedule/${shown}/${new Date(scheduledMs).toISOString()}`;
}

const nameForm = new RegExp(namePattern);

/** The agent that a fire spawns. */
function spawnedAgent(fire: Fire): AgentIdInput | Refusal {
  const { spawn: { agentId } = {}, zone = '' } = fire.document as ScheduleDocument;
  const path = spawnPath(agentId?.agent, fire.name, dateIn(zone || 'UTC', fire.scheduledMs), fire.n);
  const bad = path.find((part) => !nameForm.test(part));
  if (bad !== undefined)
    return invalid('spawn.agentId.agent', `must be names of ${nameExpected}; got "${bad.slice(0, 200)}"`);
  return { ...agentId, agent: path };
}

import { createHash } from 'node:crypto';
import type { AgentHistory, Histories } from './history.ts';

/**
 * The state of all agents without what no later command can distinguish: times become "past" or a rank in the future,
 * ids and run numbers become indexes, and what has ended is dropped. Two states with the same canonical state have the
 * same future, so only one of them is explored.
 */
export function canonicalStateOf(histories: Histories, now: string): string {
  const times = futureTimes(histories, now);
  const agents = [...histories.values()].map((history) => canonicalAgent(history, histories, times));
  return createHash('md5').update(agents.sort().join('\n')).digest('base64');
}

type Times = (time: string | null) => string;

function futureTimes(histories: Histories, now: string): Times {
  const future = new Set<string>();
  for (const { agent, followUps } of histories.values()) {
    for (const time of [agent.claimableAt, agent.memory.limitUntil, agent.memory.retryAt])
      if (time && time > now) future.add(time);
    for (const { state, deliverAt } of followUps.values())
      if (state === 'DEFERRED' && deliverAt && deliverAt > now) future.add(deliverAt);
  }
  const ranks = new Map([...future].sort().map((time, i) => [time, String(i + 1)]));
  return (time) => (time === null ? '-' : (ranks.get(time) ?? '0'));
}

function canonicalAgent(history: AgentHistory, histories: Histories, times: Times): string {
  const { agent, checklist } = history;
  const { memory } = agent;
  const run = history.runs.at(-1) ?? null;
  const undelivered = [...history.followUps.values()]
    .filter((f) => f.state === 'QUEUED' || f.state === 'DEFERRED')
    .sort((a, b) => a.position - b.position || (times(a.deliverAt) < times(b.deliverAt) ? -1 : 1));
  const taskPlaces = new Map(checklist.map((t, i) => [t.id, i]));
  const children = [...histories.values()].filter((h) => h.agent.parent === agent.id);
  return JSON.stringify([
    agent.current ? agent.path : `${agent.path} ${agent.id}`,
    agent.phase,
    agent.reason,
    times(agent.claimableAt),
    agent.settings.fastMode,
    agent.deferral,
    undelivered.map((f) => [
      f.state,
      times(f.deliverAt),
      f.change !== null,
      f.tasks.length,
      f.steerBatch === null,
      f.steerBatch === memory.batch?.id,
    ]),
    [...history.followUps.values()].length > 0,
    [...history.followUps.values()].at(-1)?.state ?? '',
    undelivered.findIndex((f) => f.id === memory.preemptedBy),
    memory.preemptedBy !== null,
    checklist.map((t) => [t.status, t.ephemeral]),
    run && [run.state, run.outcome, run.stop, run.goneAt === null, run.reports > 0],
    memory.batch && [
      memory.batch.spawn,
      memory.batch.followUpIds.length,
      memory.batch.ephemeralTaskIds.map((id) => taskPlaces.get(id) ?? -1),
    ],
    [memory.spawnDue, memory.prefaceDue, memory.lostInARow, times(memory.limitUntil)],
    [memory.interrupted, memory.question, memory.finished, memory.wasFinished ?? false, memory.failure],
    // The number of faults changes only the length of a delay.
    [
      memory.blocked !== '',
      memory.passingFaults > 0,
      times(memory.retryAt),
      memory.awaits ?? '',
      memory.limitAccount,
    ],
    memory.unseenChildren.map((id) => children.findIndex((h) => h.agent.id === id)),
    children.map((h) => memory.claimedAt === null || h.agent.since > memory.claimedAt),
  ]);
}

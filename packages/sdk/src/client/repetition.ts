import type { RouteName } from '../contract/routes.ts';

/**
 * Whether an operation is sent again when its reply was lost and nobody knows whether it acted.
 *
 *   safe     twice is once: a read, or a mutation that its id, key, generation or run number makes so
 *   unsent   only when the request surely had no effect: nobody took the connection, or a rate limit refused it (429)
 *   held     stays open for as long as it takes, and is opened again without end: only the caller's signal ends it
 *
 * A conditional write or delete of the catalog is safe too; see catalog.ts.
 */
export type Repetition = 'safe' | 'unsent' | 'held';

export const repetition = {
  whoami: 'safe',
  service: 'safe',
  /** Another code; the one that was lost expires unknown. */
  signInCode: 'safe',
  session: 'safe',
  listSessions: 'safe',
  /** What has ended stays ended. */
  signOut: 'safe',
  revokeSession: 'safe',
  status: 'safe',
  list: 'safe',
  timeline: 'safe',
  runs: 'safe',
  diff: 'safe',
  checkpoint: 'safe',
  tasks: 'safe',
  listFollowUps: 'safe',
  followUp: 'safe',
  readResource: 'safe',
  listResources: 'safe',
  resourceHistory: 'safe',

  wait: 'held',
  waitMany: 'held',
  listStream: 'held',
  timelineStream: 'held',

  /** One `Idempotency-Key` for all tries: the later ones get the first reply. */
  spawn: 'safe',
  /** One `followUpId` for all tries: it stays one message, preempts once and replaces once. */
  queue: 'safe',
  /** What is removed stays removed. Only the reply differs: a repeated one says `removed: false`. */
  removeFollowUp: 'safe',
  /** Names its run: it never hits a newer one. That it is refused when it comes twice is taken for done. */
  stopTurn: 'safe',
  /** What has ended stays ended. */
  kill: 'safe',
  /** A second retry finds the agent running and is refused, so the client can't tell whether its first one succeeded. */
  retry: 'unsent',
  /** On a live agent it changes nothing. */
  reopen: 'safe',
  /** Sets fields to values. */
  updateTask: 'safe',
  labels: 'safe',
  /** The same question, and the same declaration, change nothing. */
  ask: 'safe',
  finish: 'safe',
  fail: 'safe',

  /** Would also discard what was queued since. */
  clearFollowUps: 'unsent',
  /** Would add them again, or be refused for their ids. */
  createTasks: 'unsent',
  /** Without a generation it would overwrite, or delete, what others wrote since. */
  writeResource: 'unsent',
  deleteResource: 'unsent',
} as const satisfies Record<Operation, Repetition>;

/**
 * What the client has a method for. The runner protocol has its own rules, and is reached by `call`; who signs in has
 * no client yet; the streams by GET are for EventSource.
 */
export type Operation = Exclude<RouteName, `runner${string}` | `${string}ByGet` | 'signIn'>;

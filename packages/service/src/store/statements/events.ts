import type { NotificationEvent, Phase, PhaseReason } from '@muster/sdk/contract';
import { type Connection, statement } from '../connection.ts';
import { rowsOf } from '../tables.ts';

/** The agent no longer needs anybody: what a browser shows of it is withdrawn. No other target gets this. */
export const resumed = 'agent.resumed';

export type EventType = NotificationEvent | typeof resumed;

/** What people may want to be notified of. */
export interface NewEvent {
  readonly tenant: number;
  readonly type: EventType;
  /** The agent that it is about; events of one agent are sent in order. */
  readonly agent?: string | null;
  /** Of an event that is not about an agent: where it belongs. Absent: it concerns the whole tenant. */
  readonly workspace?: string;
  /** As `ownerName` has it, or without the provider. */
  readonly account?: string;
  /** When it happened; by default now. */
  readonly at?: string;
  readonly data: EventData;
}

export interface EventData {
  /** Of an event that is not only about an agent: the name of the document, runner or account that it is about. */
  readonly name?: string;
  /** What happened, in a sentence. */
  readonly text?: string;
  /** A page of another site about it. */
  readonly url?: string;
  /** Of the phase of an agent, which began when it happened. */
  readonly phase?: Phase;
  readonly reason?: PhaseReason;
}

const columns = {
  tenant: 'int',
  type: 'text',
  agent: 'uuid',
  workspace: 'text',
  account: 'text',
  at: 'timestamptz',
  data: 'json',
  place: 'int',
} as const;

/**
 * Inserts events from rows with these columns, as a part of the statement that causes them. Of a tenant in which nobody
 * wants to know it, nothing is written.
 */
export const insertEventsOf = (rows: string): string =>
  `INSERT INTO events (tenant, type, agent, workspace, account, at, data)
   SELECT n.tenant, n.type, n.agent, coalesce(n.workspace, ''), coalesce(n.account, ''),
     coalesce(n.at, date_trunc('milliseconds', clock_timestamp())), n.data
   FROM ${rows}
   WHERE EXISTS (SELECT FROM notification_targets t WHERE t.tenant = n.tenant AND NOT t.paused AND n.type = ANY (t.events))`;

export const insertEvents = statement<[rows: string], never>(
  'insert-events',
  `${insertEventsOf(rowsOf(columns))} ORDER BY n.place`,
);

/** Records what happened, in the transaction that causes it, if anybody in the tenant wants to know. */
export const recordEvents = async (connection: Connection, events: readonly NewEvent[]): Promise<void> => {
  if (events.length > 0) {
    const rows = events.map((event, place) => ({ ...event, place }));
    await insertEvents(connection, JSON.stringify(rows));
  }
};

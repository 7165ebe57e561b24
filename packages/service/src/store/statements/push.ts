import type { Provider } from '@muster/sdk/contract';
import { statement } from '../connection.ts';
import { isLive, sessionWithKey } from './browser-sessions.ts';
import { passingEvents } from './notifications.ts';

/** What is needed to push to a browser, in the settings of its target. */
export interface PushSettings {
  readonly endpoint: string;
  readonly p256dh: string;
  readonly auth: string;
  /** The service secret that made the key for which the browser subscribed. */
  readonly secret: string;
  readonly quietHours?: { readonly from: string; readonly to: string; readonly zone: string };
}

type Session = [tenant: number, session: string];

/** The target of a session; there is one at most. */
export const pushTarget = (session: string): string => `browser/${session}`;
export const sessionOf = (target: string): string => target.slice(target.indexOf('/') + 1);

export interface SubscriptionRow {
  session: string;
  account: string;
  settings: PushSettings;
  user_agent: string;
  created_at: string;
}

/** The browsers of an account, the newest first. */
export const listSubscriptions = statement<
  [tenant: number, provider: Provider, account: string],
  SubscriptionRow
>(
  'list-push-subscriptions',
  `SELECT t.session, t.account, t.settings, s.user_agent, s.created_at
   FROM ${sessionWithKey} JOIN notification_targets t ON t.tenant = s.tenant AND t.session = s.id
   WHERE ${isLive} AND s.tenant = $1 AND k.owner_provider = $2 AND k.account = $3 ORDER BY s.id DESC`,
);

/** No row: the session has ended. */
export const saveSubscription = statement<
  [...Session, events: readonly string[], account: string, settings: string],
  { name: string }
>(
  'save-push-subscription',
  `INSERT INTO notification_targets AS t
     (tenant, name, type, session, events, workspace, account, labels, paused, settings)
   SELECT s.tenant, 'browser/' || s.id, 'browser', s.id, $3::text[], '', $4, '{}', false, $5::json
   FROM browser_sessions s WHERE s.tenant = $1 AND s.id = $2
   ON CONFLICT (tenant, name) DO UPDATE SET events = excluded.events, account = excluded.account,
     settings = excluded.settings, claims = 0, asked = t.asked + 1,
     next_at = CASE WHEN t.is_claimed THEN t.next_at ELSE now() END
   RETURNING t.name`,
);

/**
 * Whether the person has seen what an agent did until a time, which is that of a change of its phase; the entry about that
 * may be a little later. No row: the session has ended.
 */
export const readReader = statement<[...Session, agent: string | null, at: string], { is_seen: boolean }>(
  'read-push-reader',
  `SELECT coalesce(m.seen, 0) > 0 AND NOT EXISTS (
     SELECT FROM (
       SELECT e.at FROM timeline e WHERE e.tenant = m.tenant AND e.agent = m.agent AND e.sequence > m.seen
       ORDER BY e.sequence LIMIT 1
     ) e WHERE e.at <= $4::timestamptz + interval '1 second'
   ) AS is_seen
   FROM ${sessionWithKey} LEFT JOIN agent_marks m ON m.tenant = s.tenant AND m.agent = $3::uuid
     AND m.owner_provider = k.owner_provider AND m.account = k.account
   WHERE ${isLive} AND s.tenant = $1 AND s.id = $2`,
);

/** Whether the newest message about an agent asks for somebody. */
export const isAsking = statement<[tenant: number, target: string, agent: string], { is_asking: boolean }>(
  'is-push-asking',
  `SELECT d.type = ANY ('{${passingEvents.join(',')}}') AS is_asking FROM notification_deliveries d
   WHERE d.tenant = $1 AND d.target = $2 AND d.agent = $3 AND d.state = 'SENT' AND d.at > now() - interval '2 days'
   ORDER BY d.id DESC LIMIT 1`,
);

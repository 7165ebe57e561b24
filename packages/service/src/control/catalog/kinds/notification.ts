import { type NotificationDocument, usualEvents } from '@muster/sdk/contract';
import { denied } from '../../../domain/refusal.ts';
import type { Violation } from '../../../lib/validator.ts';
import { isZone, zoneProblem } from '../../../lib/zone.ts';
import { deleteTarget, saveTarget } from '../../../store/statements/notifications.ts';
import { refuseNotification } from '../../access/permit.ts';
import { nameOf } from '../../access/principal.ts';
import { saveSigningKey } from '../signing-keys.ts';
import { type KindRules, nothingKept } from './rules.ts';

/** What is needed to send it; the url and the addresses depend on the type. */
export type NotificationSettings = Pick<NotificationDocument, 'url' | 'to' | 'quietHours'>;

export const notificationType = ({ type, to }: NotificationDocument): 'webhook' | 'slack' | 'email' =>
  type ?? (to && to.length > 0 ? 'email' : 'webhook');

export const notificationRules: KindRules = {
  check: (document) => {
    const { url, quietHours } = document as NotificationDocument;
    const wrongUrl =
      typeof url === 'string' && url !== '' && urlProblem(document as NotificationDocument, url);
    return wrongUrl || (quietHours ? quietProblem(quietHours) : null);
  },
  warnings: (document) => {
    const { url, to } = document as NotificationDocument;
    const type = notificationType(document as NotificationDocument);
    if (type === 'email' && !to?.length)
      return [{ field: 'to', description: 'is not set: there is no address to send it to' }];
    if (type !== 'email' && !url)
      return [{ field: 'url', description: 'is not set: there is no address to send it to' }];
    return type === 'slack' && typeof url === 'string'
      ? [{ field: 'url', description: 'everybody who may read it can post there: keep it in a secret' }]
      : [];
  },
  complete: (caller, _, document, stored) => {
    const { pausedReason, ...rest } = document;
    const kept = document.paused === true && pausedReason !== undefined ? document : rest;
    if (caller.role !== 'member') return kept;
    const account = document.account || nameOf(caller);
    if (refuseNotification(caller, { account }))
      return denied(
        `account: a member may only be notified about its own account, "${nameOf(caller)}"; got "${account}"`,
      );
    // Otherwise a member could make the service call any URL that is kept as a secret.
    if (secretOf(document) !== undefined && secretOf(document) !== secretOf(stored ?? {}))
      return denied('url: only an admin may take it from a secret');
    return { ...kept, account };
  },
  refuse: (caller, _, stored) => refuseNotification(caller, stored),
  onWrite: async (transaction, document) => {
    const { connection, tenant, write } = transaction;
    const { url, to, quietHours, events, workspace, account, labels, paused } =
      document as NotificationDocument;
    const type = notificationType(document as NotificationDocument);
    const settings: NotificationSettings = { url, to, quietHours };
    await saveTarget(
      connection,
      ...([tenant, write.name, type, events ?? usualEvents, workspace ?? '', account ?? ''] as const),
      ...([JSON.stringify(labels ?? {}), paused === true, JSON.stringify(settings)] as const),
    );
    const { nonce, secret_id } = transaction.row;
    const kept = { ...nothingKept, nonce, secret_id };
    return { document, ...(type === 'webhook' ? saveSigningKey(transaction) : { kept }) };
  },
  onDelete: async (connection, tenant, { name }) => {
    await deleteTarget(connection, tenant, name);
  },
};

const secretOf = ({ url }: Record<string, unknown>): string | undefined =>
  (url as { fromSecret?: string } | undefined)?.fromSecret;

/** The value may have a password, so it is not repeated. */
function urlProblem(document: NotificationDocument, url: string): Violation | null {
  const parsed = URL.canParse(url) ? new URL(url) : null;
  const isSlack = notificationType(document) === 'slack';
  const schemes = isSlack ? 'https://' : 'https:// or http://';
  const isHttp = parsed?.protocol === 'https:' || (parsed?.protocol === 'http:' && !isSlack);
  if (!parsed || !isHttp || !/^https?:\/\//i.test(url))
    return { field: 'url', description: `expected a URL that begins with ${schemes}` };
  return parsed.username || parsed.password
    ? { field: 'url', description: 'expected a URL without a user name and password; a secret may have them' }
    : null;
}

function quietProblem({
  from,
  to,
  zone = 'UTC',
}: NonNullable<NotificationDocument['quietHours']>): Violation | null {
  const missing = from === undefined ? 'from' : to === undefined ? 'to' : null;
  if (missing)
    return { field: `quietHours.${missing}`, description: 'is required: a time of day such as 22:00' };
  if (from === to) return { field: 'quietHours.to', description: `must differ from \`from\`; got "${to}"` };
  return isZone(zone) ? null : { field: 'quietHours.zone', description: zoneProblem(zone) };
}

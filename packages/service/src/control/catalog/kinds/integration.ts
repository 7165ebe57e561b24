import { randomBytes } from 'node:crypto';
import { hostUrlProblem } from '../../../lib/host-url.ts';
import { askByIntegration } from '../../../store/statements/change-requests.ts';
import { deleteHook, saveHook } from '../../../store/statements/deliveries.ts';
import { releaseItems } from '../../../store/statements/outbox.ts';
import { saveSigningKey } from '../signing-keys.ts';
import type { KindRules } from './rules.ts';

export const integrationRules: KindRules = {
  check: ({ type, url }) => {
    const description = url ? hostUrlProblem(type, String(url)) : null;
    return description === null ? null : { field: 'url', description };
  },
  onWrite: async (transaction, document) => {
    const { connection, tenant, write, publicUrl } = transaction;
    const [hook] = await saveHook(connection, tenant, write.name, randomBytes(24).toString('base64url'));
    // It may have been paused, or unusable: what came meanwhile is found now.
    await askByIntegration(connection, tenant, write.name);
    await releaseItems(connection, tenant, write.name, null);
    const webhookUrl = webhookUrlOf(publicUrl(), hook?.id ?? '');
    return { document: { ...document, webhookUrl }, ...saveSigningKey(transaction) };
  },
  onDelete: async (connection, tenant, { name }) => {
    await deleteHook(connection, tenant, name);
  },
  /** With the address that the service has now. */
  onRead: (document, publicUrl) =>
    typeof document.webhookUrl === 'string'
      ? { ...document, webhookUrl: webhookUrlOf(publicUrl, document.webhookUrl) }
      : document,
};

/**
 * Where a code host sends its deliveries: below the address of the service, an id that nobody can guess and that never
 * changes. Older documents have a whole URL instead of the id, with the address that the service had then.
 */
export const webhookUrlOf = (publicUrl: string, idOrUrl: string): string =>
  `${publicUrl}/hooks/${idOrUrl.slice(idOrUrl.lastIndexOf('/') + 1)}`;

import { hostUrlProblem } from '../../../lib/host-url.ts';
import { askByIntegration } from '../../../store/statements/change-requests.ts';
import { deleteHook, saveHook } from '../../../store/statements/deliveries.ts';
import { releaseItems } from '../../../store/statements/outbox.ts';
import { saveSigningKey } from '../signing-keys.ts';
import { hookUrl, newHookId } from './hooks.ts';
import type { KindRules } from './rules.ts';

export const integrationRules: KindRules = {
  check: ({ type, url }) => {
    const description = url ? hostUrlProblem(type, String(url)) : null;
    return description === null ? null : { field: 'url', description };
  },
  onWrite: async (transaction, document) => {
    const { connection, tenant, write, publicUrl } = transaction;
    const [hook] = await saveHook(connection, tenant, write.name, newHookId());
    // It may have been paused, or unusable: what came meanwhile is found now.
    await askByIntegration(connection, tenant, write.name);
    await releaseItems(connection, tenant, write.name, null);
    const webhookUrl = hookUrl(publicUrl(), hook?.id ?? '');
    return { document: { ...document, webhookUrl }, ...saveSigningKey(transaction) };
  },
  onDelete: async (connection, tenant, { name }) => {
    await deleteHook(connection, tenant, name);
  },
  /** With the address that the service has now. */
  onRead: (document, publicUrl) =>
    typeof document.webhookUrl === 'string'
      ? { ...document, webhookUrl: hookUrl(publicUrl, document.webhookUrl) }
      : document,
};

import { limits, type TriggerAuth, type TriggerDocument } from '@muster/sdk/contract';
import type { Catalog } from '../control/catalog/catalog.ts';
import type { FindRecipient } from '../deliveries/receive.ts';
import { hmacCheck, type SignatureCheck, standardCheck, tokenCheck } from '../deliveries/signatures.ts';
import { isSecretHeader } from '../lib/request-template.ts';
import type { Headers } from '../work/host-error.ts';
import { queryHeader } from './read-request.ts';

/** Triggers as recipients of deliveries. */
export const findTrigger =
  (catalog: Catalog): FindRecipient =>
  async (tenant, name) => {
    const document = (await catalog.document(tenant, 'trigger', name)) as TriggerDocument | undefined;
    if (!document) return null;
    const { signatureHeader, webhookSecret } = document;
    const auth = document.auth ?? 'standard-webhooks';
    const secrets = await secretsOf(catalog, tenant, name, webhookSecret?.fromSecret);
    const header = (signatureHeader || defaultHeaders[auth]).toLowerCase();
    return {
      mostBytes: limits.triggerRequestBytes,
      signature: (headers) => checks[auth](headers, secrets, header),
      /** Only Standard Webhooks sign the id: of the others, one that is sent again under another id is the same. */
      identify: (headers, digest) => ({
        id: auth === 'standard-webhooks' ? (headers['webhook-id'] ?? digest) : digest,
        event: '',
      }),
      describe: (headers, query) => described(headers, query, header),
    };
  };

async function secretsOf(
  { secrets }: Catalog,
  tenant: number,
  name: string,
  fromSecret: string | undefined,
): Promise<readonly string[]> {
  if (fromSecret === undefined) return secrets.signingKeys(tenant, 'trigger', name);
  const found = await secrets.value(tenant, fromSecret);
  return 'value' in found ? [found.value.trim()] : [];
}

const defaultHeaders: Readonly<Record<TriggerAuth, string>> = {
  'standard-webhooks': 'webhook-signature',
  'hmac-sha256': 'x-hub-signature-256',
  bearer: 'authorization',
};

type Check = (headers: Headers, secrets: readonly string[], header: string) => SignatureCheck | null;

const checks: Readonly<Record<TriggerAuth, Check>> = {
  'standard-webhooks': standardCheck,
  'hmac-sha256': (headers, secrets, header) => {
    const [, hex] = /^(?:sha256=)?([0-9a-f]{64})$/i.exec(headers[header] ?? '') ?? [];
    return hex === undefined ? null : hmacCheck(secrets, [Buffer.from(hex, 'hex')]);
  },
  bearer: (headers, secrets, header) =>
    tokenCheck((headers[header] ?? '').replace(/^bearer +/i, ''), secrets),
};

const mostHeaders = 100;
const mostValueLength = 1024;

function described(headers: Headers, query: string, signatureHeader: string): Record<string, string> {
  const shown = Object.entries(headers)
    .filter(([name, value]) => value !== undefined && name !== signatureHeader && !isSecretHeader(name))
    .slice(0, mostHeaders)
    .map(([name, value]) => [name, value?.slice(0, mostValueLength)]);
  return { ...Object.fromEntries(shown), ...(query && { [queryHeader]: query.slice(0, mostQueryLength) }) };
}

const mostQueryLength = 4 * 1024;

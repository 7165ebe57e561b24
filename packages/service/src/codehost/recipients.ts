import { type IntegrationDocument, limits } from '@muster/sdk/contract';
import type { Catalog } from '../control/catalog/catalog.ts';
import type { FindRecipient } from '../deliveries/receive.ts';
import type { Headers } from '../work/host-error.ts';
import { readers } from './hosts.ts';
import { typeOf } from './integrations.ts';

/** Integrations as recipients of deliveries. */
export const findIntegration =
  (catalog: Catalog): FindRecipient =>
  async (tenant, name) => {
    const document = (await catalog.document(tenant, 'integration', name)) as IntegrationDocument | undefined;
    const type = document && typeOf(document);
    if (!type) return null;
    const secrets = await secretsOf(catalog, tenant, name, document);
    const { signature, identify } = readers[type];
    return {
      mostBytes: limits.deliveryBytes,
      signature: (headers) => signature(headers, secrets),
      identify,
      describe: describing,
    };
  };

/** The keys that the host may sign with. A host that makes its own key signs with that one only. */
async function secretsOf(
  { secrets }: Catalog,
  tenant: number,
  name: string,
  { webhookSecret }: IntegrationDocument,
): Promise<readonly string[]> {
  if (!webhookSecret) return secrets.signingKeys(tenant, 'integration', name);
  const found = await secrets.value(tenant, webhookSecret.fromSecret);
  return 'value' in found ? [found.value.trim()] : [];
}

const describingName =
  /^(content-type|webhook-id|idempotency-key|x-(github|gitlab|gitea|forgejo|gogs)-[a-z-]+)$/;
const secretName = /token|signature/;

/** The headers that say what a delivery is. Those with its signature or a secret are not stored. */
const describing = (headers: Headers): Record<string, string> =>
  Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) =>
      value !== undefined && describingName.test(name) && !secretName.test(name)
        ? [[name, value.slice(0, 1024)]]
        : [],
    ),
  );

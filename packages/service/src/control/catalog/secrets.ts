import { randomBytes } from 'node:crypto';
import type { AgentIdInput, Kind, Provider, Role, Tenant } from '@muster/sdk/contract';
import type { ServiceSecret, ServiceSecrets } from '../../lib/service-secret.ts';
import { formatKey, hashSecret, type KeyParts, mintKey } from '../../lib/token.ts';
import type { Connection } from '../../store/connection.ts';
import { saveHook } from '../../store/statements/deliveries.ts';
import { findAgents } from '../../store/statements/find-agents.ts';
import { deleteKeys, findKeyOf, type NewKey, upsertKey } from '../../store/statements/keys.ts';
import { wantedParameters } from '../../store/statements/load-agents.ts';
import type { SealedRow } from '../../store/statements/secrets.ts';
import { type CheckedWrite, unstoredFields } from './decide-write.ts';
import type { Document } from './document.ts';
import { sealValue } from './sealed-values.ts';

/**
 * Kinds with a secret: a token's key, a share link's URL, an integration's signing key. Only the reply to the write that
 * creates a secret shows it: a key is stored as its hash, and a signing key is derived from the service's own secret and
 * a stored nonce. The value of a `secret` comes from the caller; it is sealed, and no reply shows it.
 */
export interface SecretContext {
  readonly connection: Connection;
  readonly tenantId: number;
  /** Of this write. */
  readonly generation: number;
  readonly secrets: ServiceSecrets;
  readonly publicUrl: () => string;
  /** Used instead of a generated one; only the first start sets it. */
  readonly givenKey: KeyParts | undefined;
}

export interface SecretResult {
  /** With the fields that the server fills in. */
  readonly document: Document;
  /** For the reply only. */
  readonly revealed: Document;
  readonly kept: SealedRow;
}

const nothing: SealedRow = { nonce: null, sealed: null, secret_id: null };

/** Writes the key behind a token or a link. A new secret is made when there is none yet, or on `rotate`. */
export async function saveSecret(
  context: SecretContext,
  write: CheckedWrite,
  document: Document,
  stored: StoredSecret,
): Promise<SecretResult> {
  const { kind, name, rotate } = write;
  if (!unstoredFields[kind]) return { document, revealed: {}, kept: nothing };
  if (kind === 'integration') {
    const { connection, tenantId, publicUrl } = context;
    const [hook] = await saveHook(connection, tenantId, name, randomBytes(24).toString('base64url'));
    const webhookUrl = webhookUrlOf(publicUrl(), hook?.id ?? '');
    return signingKey(context.secrets, write, { ...document, webhookUrl }, stored);
  }
  if (kind === 'secret') return sealedValue(context.secrets, write, document, stored);
  const { connection, tenantId } = context;
  const [existing] = await findKeyOf(connection, tenantId, kind, name);
  const fresh = existing && !rotate ? null : (context.givenKey ?? mintKey());
  const keyId = fresh?.keyId ?? existing?.key_id ?? '';
  const hash = fresh ? hashSecret(fresh.secret) : (existing?.hash ?? Buffer.alloc(0));
  await deleteKeys(connection, tenantId, kind, name, keyId);
  const row: NewKey = {
    tenant: tenantId,
    key_id: keyId,
    hash: `\\x${hash.toString('hex')}`,
    kind,
    name,
    created: existing?.created ?? context.generation,
    expires_at: (document.expiresAt as string | null | undefined) ?? null,
    ...(kind === 'token' ? tokenKey(document) : await shareKey(context, document)),
  };
  await upsertKey(connection, JSON.stringify([row]));
  return {
    document: { ...document, keyId },
    revealed: fresh ? reveal(kind, context.publicUrl(), fresh) : {},
    kept: nothing,
  };
}

type KeyOwner = Pick<NewKey, 'role' | 'owner_provider' | 'account' | 'pool' | 'agent'>;

const tokenKey = (document: Document): KeyOwner => ({
  role: document.role as Role,
  owner_provider: document.ownerProvider as Provider,
  account: document.account as string,
  pool: (document.pool as string | undefined) ?? '',
  agent: null,
});

/** A link is bound to the agent that has the name now; to the name if there is none yet. */
async function shareKey({ connection, tenantId }: SecretContext, document: Document): Promise<KeyOwner> {
  const agentId = document.agentId as (AgentIdInput & { agent: string[] }) | undefined;
  const ownerProvider = agentId?.ownerProvider || 'PROVIDER_UNSPECIFIED';
  const { account = '', workspace = '', agent: path = [] } = agentId ?? {};
  const identity = { tenant: tenantId, ownerProvider, account, workspace, path };
  const holders = await findAgents(connection, ...wantedParameters([{ identity }]));
  const id = holders.length === 1 ? holders[0]?.id : undefined;
  return {
    role: 'share',
    owner_provider: ownerProvider,
    account,
    pool: '',
    agent: agentId ? { ownerProvider, account, workspace, path, ...(id && { id }) } : null,
  };
}

const reveal = (kind: Kind, publicUrl: string, fresh: KeyParts): Document =>
  kind === 'token' ? { key: formatKey(fresh) } : { url: `${publicUrl}/share#${formatKey(fresh)}` };

/**
 * Where a code host sends its deliveries: its id, which nobody can guess and which stays the same, below the address of
 * the service. The address in an earlier form is one of an earlier address of the service.
 */
export const webhookUrlOf = (publicUrl: string, idOrUrl: string): string =>
  `${publicUrl}/hooks/${idOrUrl.slice(idOrUrl.lastIndexOf('/') + 1)}`;

type StoredSecret = SealedRow & { readonly document: Document | null };

function signingKey(
  { current }: ServiceSecrets,
  { tenant, name, rotate }: CheckedWrite,
  document: Document,
  { nonce, secret_id }: StoredSecret,
): SecretResult {
  if (nonce && !rotate) return { document, revealed: {}, kept: { ...nothing, nonce, secret_id } };
  const fresh = randomBytes(24).toString('base64url');
  return {
    document,
    revealed: { signingKey: signingKeyOf(current, tenant, name, fresh) },
    kept: { ...nothing, nonce: fresh, secret_id: current.id },
  };
}

const signingKeyOf = (secret: ServiceSecret, tenant: Tenant, name: string, nonce: string): string =>
  secret.hmac('integration', tenant.provider, tenant.org, name, nonce);

/** The keys that a caller may sign with. Several only if it is not recorded which service secret made the key. */
export function signingKeys(
  secrets: ServiceSecrets,
  tenant: Tenant,
  name: string,
  { nonce, secret_id }: SealedRow,
): string[] {
  if (!nonce) return [];
  const makers = secret_id === null ? secrets.all : secrets.all.filter(({ id }) => id === secret_id);
  return makers.map((secret) => signingKeyOf(secret, tenant, name, nonce));
}

/** A write without a value keeps the stored one, so that a document can be read, changed and written back. */
function sealedValue(
  secrets: ServiceSecrets,
  write: CheckedWrite,
  document: Document,
  { sealed, secret_id, document: before }: StoredSecret,
): SecretResult {
  const { value } = write;
  if (value === null) return { document, revealed: {}, kept: nothing };
  if (value === undefined) {
    const fingerprint = sealed ? { fingerprint: before?.fingerprint } : {};
    return {
      document: { ...document, ...fingerprint },
      revealed: {},
      kept: { ...nothing, sealed, secret_id },
    };
  }
  const stored = sealed && secret_id ? { sealed, secretId: secret_id } : null;
  const { fingerprint, ...fresh } = sealValue(secrets, write, value, stored);
  return {
    document: { ...document, fingerprint },
    revealed: {},
    kept: { ...nothing, sealed: fresh.sealed, secret_id: fresh.secretId },
  };
}

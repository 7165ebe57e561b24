import { randomBytes } from 'node:crypto';
import type { AgentIdInput, Kind, Provider, Role } from '@muster/sdk/contract';
import { formatKey, hashSecret, hmac, type KeyParts, mintKey } from '../../lib/token.ts';
import type { Connection } from '../../store/connection.ts';
import { findAgents } from '../../store/statements/find-agents.ts';
import { deleteKeys, findKeyOf, type NewKey, upsertKey } from '../../store/statements/keys.ts';
import { wantedParameters } from '../../store/statements/load-agents.ts';
import { type CheckedWrite, unstoredFields } from './decide-write.ts';
import type { Document } from './document.ts';

/**
 * Kinds with a secret: a token's key, a share link's URL, an integration's signing key. Only the reply to the write that
 * creates a secret shows it: a key is stored as its hash, and a signing key is derived from the service's own secret and
 * a stored nonce.
 */
export interface SecretContext {
  readonly connection: Connection;
  readonly tenantId: number;
  /** Of this write. */
  readonly generation: number;
  readonly secret: string;
  readonly publicUrl: () => string;
  /** Used instead of a generated one; only the first start sets it. */
  readonly givenKey: KeyParts | undefined;
}

export interface SecretResult {
  /** With the fields that the server fills in. */
  readonly document: Document;
  /** For the reply only. */
  readonly revealed: Document;
  readonly nonce: string | null;
}

/** Writes the key behind a token or a link. A new secret is made when there is none yet, or on `rotate`. */
export async function saveSecret(
  context: SecretContext,
  write: CheckedWrite,
  document: Document,
  nonce: string | null,
): Promise<SecretResult> {
  const { kind, name, rotate } = write;
  if (!unstoredFields[kind]) return { document, revealed: {}, nonce: null };
  if (kind === 'integration') return signingKey(context.secret, write, document, nonce);
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
    nonce: null,
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

function signingKey(
  secret: string,
  { tenant, name, rotate }: CheckedWrite,
  document: Document,
  nonce: string | null,
): SecretResult {
  if (nonce && !rotate) return { document, revealed: {}, nonce };
  const fresh = randomBytes(24).toString('base64url');
  const key = hmac(secret, 'integration', tenant.provider, tenant.org, name, fresh);
  return { document, revealed: { signingKey: key }, nonce: fresh };
}

import { randomBytes } from 'node:crypto';
import type { AgentIdInput, Kind, Provider, Role } from '@muster/sdk/contract';
import { formatKey, hashSecret, hmac, type KeyParts, mintKey } from '../../lib/token.ts';
import type { Connection } from '../../store/connection.ts';
import { findAgents } from '../../store/statements/find-agents.ts';
import { deleteKeys, findKeyOf, type NewKey, upsertKey } from '../../store/statements/keys.ts';
import type { Principal } from '../principal.ts';
import type { Document } from './document.ts';

/**
 * Kinds with a secret: a token's key, a share link's URL, an integration's signing key. Only the reply to the write that
 * creates a secret shows it: a key is stored as its hash, and a signing key is derived from the service's own secret and
 * a stored nonce.
 */
export interface SecretContext {
  readonly connection: Connection;
  readonly caller: Principal;
  readonly tenant: { readonly id: number; readonly provider: Provider; readonly org: string };
  readonly kind: Kind;
  readonly name: string;
  /** Of this write. */
  readonly generation: number;
  readonly serviceSecret: string;
  readonly publicUrl: string;
  /** Used instead of a generated one; only the first start sets it. */
  readonly givenKey?: KeyParts;
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
  document: Document,
  rotate: boolean,
  nonce: string | null,
): Promise<SecretResult> {
  const { kind } = context;
  if (kind === 'integration') return signingKey(context, document, rotate, nonce);
  const { connection, tenant, name } = context;
  const [existing] = await findKeyOf(connection, tenant.id, kind, name);
  const fresh = existing && !rotate ? null : (context.givenKey ?? mintKey());
  const keyId = fresh?.keyId ?? existing?.key_id ?? '';
  const hash = fresh ? hashSecret(fresh.secret) : (existing?.hash ?? Buffer.alloc(0));
  await deleteKeys(connection, tenant.id, kind, name, keyId);
  const row: NewKey = {
    tenant: tenant.id,
    key_id: keyId,
    hash: `\\x${hash.toString('hex')}`,
    kind,
    name,
    created: existing?.created ?? context.generation,
    expires_at: (document.expiresAt as string | null | undefined) ?? null,
    ...(kind === 'token' ? tokenKey(document) : await shareKey(context, document)),
  };
  await upsertKey(connection, JSON.stringify(row));
  return { document: { ...document, keyId }, revealed: fresh ? reveal(context, fresh) : {}, nonce: null };
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
async function shareKey({ connection, tenant }: SecretContext, document: Document): Promise<KeyOwner> {
  const agentId = document.agentId as (AgentIdInput & { agent: string[] }) | undefined;
  const ownerProvider = agentId?.ownerProvider || 'PROVIDER_UNSPECIFIED';
  const { account = '', workspace = '', agent: path = [] } = agentId ?? {};
  const holders = await findAgents(
    connection,
    [tenant.id],
    [ownerProvider],
    [account],
    [path.join('/')],
    [workspace],
  );
  const id = holders.length === 1 ? holders[0]?.id : undefined;
  return {
    role: 'share',
    owner_provider: ownerProvider,
    account,
    pool: '',
    agent: agentId ? { ownerProvider, account, workspace, path, ...(id && { id }) } : null,
  };
}

const reveal = ({ kind, publicUrl }: SecretContext, fresh: KeyParts): Document =>
  kind === 'token' ? { key: formatKey(fresh) } : { url: `${publicUrl}/share#${formatKey(fresh)}` };

function signingKey(
  { serviceSecret, tenant, name }: SecretContext,
  document: Document,
  rotate: boolean,
  nonce: string | null,
): SecretResult {
  if (nonce && !rotate) return { document, revealed: {}, nonce };
  const fresh = randomBytes(24).toString('base64url');
  const key = hmac(serviceSecret, 'integration', tenant.provider, tenant.org, name, fresh);
  return { document, revealed: { signingKey: key }, nonce: fresh };
}

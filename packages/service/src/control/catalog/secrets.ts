import { randomBytes } from 'node:crypto';
import type {
  AgentIdInput,
  Kind,
  Provider,
  Role,
  ShareLinkDocument,
  TokenDocument,
} from '@muster/sdk/contract';
import { invalid, type Refusal } from '../../domain/refusal.ts';
import { formatKey, hashSecret, hmac, type KeyParts, mintKey } from '../../lib/token.ts';
import type { Connection } from '../../store/connection.ts';
import { findAgents } from '../../store/statements/find-agents.ts';
import { deleteKeys, findKeyOf, type NewKey, upsertKey } from '../../store/statements/keys.ts';
import { nameAgent } from '../identify.ts';
import { refuseAgent } from '../permit.ts';
import type { Principal } from '../principal.ts';
import type { Document } from './document.ts';

/**
 * Kinds that come with a secret: a token's key, a share link's address, an integration's signing key. The secret is in
 * the reply to the write that made it and nowhere else: a key is stored as its hash, and a signing key is made again
 * from the service's own secret and a stored nonce.
 */
export interface SecretContext {
  readonly connection: Connection;
  readonly caller: Principal;
  readonly tenant: { readonly id: number; readonly provider: Provider; readonly org: string };
  readonly kind: Kind;
  readonly name: string;
  /** The generation that this write makes. */
  readonly generation: number;
  readonly serviceSecret: string;
  readonly publicUrl: string;
  /** The given key instead of a minted one; only the first start uses it. */
  readonly givenKey?: KeyParts;
}

export interface SecretResult {
  /** With the fields that the server fills in. */
  readonly document: Document;
  /** For the reply only. */
  readonly revealed: Document;
  readonly nonce: string | null;
}

/** Fields that a client may send back but that are never stored. */
export const unstoredFields: Readonly<Partial<Record<Kind, readonly string[]>>> = {
  token: ['key', 'rotate'],
  'share-link': ['url', 'rotate'],
  integration: ['signingKey', 'rotate'],
};

/** Fills in a token: by default it has the role member and is for the account of its maker. */
export function completeToken(caller: Principal, document: Document): Document | Refusal {
  const { role, ownerProvider, account, pool } = document as TokenDocument;
  if (role === 'agent' || role === 'share')
    return invalid('payload.role', `a key of role ${role} can't be made`);
  return {
    ...document,
    role: role ?? 'member',
    ownerProvider:
      ownerProvider && ownerProvider !== 'PROVIDER_UNSPECIFIED' ? ownerProvider : caller.ownerProvider,
    account: account || caller.account,
    ...(role === 'runner' && { pool: pool || 'default' }),
  };
}

/** Fills in whose agent a link shows; a member may only share its own agents. */
export function completeShareLink(
  caller: Principal,
  tenant: SecretContext['tenant'],
  document: Document,
): Document | Refusal {
  const { agentId } = document as ShareLinkDocument;
  if (!agentId) return document;
  const named = nameAgent(agentId as AgentIdInput, { ...caller, tenant });
  if (named.tenant.provider !== tenant.provider || named.tenant.org !== tenant.org) {
    return invalid('payload.agentId.tenant', 'a link shows an agent of its own tenant');
  }
  if (caller.role === 'member') {
    const refused = refuseAgent({ ...caller, tenant }, 'command', named);
    if (refused) return refused;
  }
  const { path, ...rest } = named;
  return { ...document, agentId: { ...rest, agent: [...path] } };
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

/** A link is bound to the agent that holds the name now; where nobody does yet, to the name. */
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

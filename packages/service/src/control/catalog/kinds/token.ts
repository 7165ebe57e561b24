import { type Provider, type Role, roles, type TokenDocument } from '@muster/sdk/contract';
import { invalid } from '../../../domain/refusal.ts';
import { formatKey } from '../../../lib/token.ts';
import { refuseToken } from '../../access/permit.ts';
import { deleteKey, saveKey } from './keys.ts';
import type { KindRules } from './rules.ts';

type Token = Parameters<typeof refuseToken>[1];

/** The service makes keys of these roles itself: for a run, and for a share link. */
const ownRoles: readonly string[] = ['agent', 'share'];
const givenRoles = roles.filter((role) => !ownRoles.includes(role));

export const tokenRules: KindRules = {
  createsTenant: true,
  /** By default a token has the role member and is for the account of its creator. */
  complete: (caller, _, document) => {
    const { ownerProvider, account, pool, ...given } = document as TokenDocument;
    const role = given.role ?? 'member';
    if (ownRoles.includes(role))
      return invalid('payload.role', `must be one of ${givenRoles.join(', ')}; got "${role}"`);
    const token = {
      ...document,
      role,
      ownerProvider:
        ownerProvider && ownerProvider !== 'PROVIDER_UNSPECIFIED' ? ownerProvider : caller.ownerProvider,
      account: account || caller.account,
      ...(role === 'runner' && { pool: pool || 'default' }),
    };
    return refuseToken(caller, token) ?? token;
  },
  refuse: (caller, _, stored) => refuseToken(caller, stored as unknown as Token),
  onWrite: (transaction, document) => {
    const owner = {
      role: document.role as Role,
      owner_provider: document.ownerProvider as Provider,
      account: document.account as string,
      pool: (document.pool as string | undefined) ?? '',
      agent: null,
    };
    return saveKey(transaction, document, owner, (key) => ({ key: formatKey(key) }));
  },
  onDelete: deleteKey,
};

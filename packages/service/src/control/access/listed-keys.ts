import { type ListedKey, limits, mayGiveRole } from '@muster/sdk/contract';
import { denied, isRefusal, notFound } from '../../domain/refusal.ts';
import { inTransaction } from '../../store/connection.ts';
import { recordAudit } from '../../store/statements/audit.ts';
import { deleteKeyById, findKey, type ListedKeyRow, listKeys } from '../../store/statements/keys.ts';
import { accountScope } from '../agents/identify.ts';
import type { Catalog } from '../catalog/catalog.ts';
import type { Operation } from '../operation.ts';
import { type AuditOptions, recordOf } from './audit.ts';
import type { Keys } from './keys.ts';
import { isAdmin, isOwner } from './permit.ts';
import { ownerName, type Principal } from './principal.ts';

export interface ListedKeysOptions extends AuditOptions {
  readonly keys: Keys;
  readonly catalog: Catalog;
}

/** The keys of people, and how one ends before its time. */
export class ListedKeys {
  readonly #options: ListedKeysOptions;

  constructor(options: ListedKeysOptions) {
    this.#options = options;
  }

  readonly listKeys: Operation<'listKeys'> = async (caller, request) => {
    const { database, tenants, pageTokens } = this.#options;
    const tenant = await tenants.named(request.tenant, caller);
    if (isRefusal(tenant)) return tenant;
    const owner = accountScope(request.account, caller);
    if (isRefusal(owner)) return owner;
    const isOwn = owner?.ownerProvider === caller.ownerProvider && owner.account === caller.account;
    if (!isOwn && !isAdmin(caller)) return denied('only an admin may list the keys of other accounts');
    const list = `keys/${tenant}`;
    const after = request.pageToken ? pageTokens.open(list, request.pageToken) : '';
    if (isRefusal(after)) return after;
    const limit = request.pageSize || limits.pageSize;
    const { ownerProvider = null, account = null } = owner ?? {};
    const rows = await listKeys(database, tenant, ownerProvider, account, after, limit + 1);
    const page = rows.slice(0, limit);
    const last = page.at(-1)?.key_id ?? '';
    return {
      entries: page.map((row) => viewOf(row, caller)),
      nextPageToken: rows.length > limit ? pageTokens.seal(list, last) : '',
    };
  };

  /** A token is a resource, so it is deleted from the catalog, with the rules and the record of that. */
  readonly revokeKey: Operation<'revokeKey'> = async (
    caller,
    { tenant: input, keyId, justification = '' },
  ) => {
    const { database, tenants, catalog, keys } = this.#options;
    const tenant = await tenants.named(input, caller);
    if (isRefusal(tenant)) return tenant;
    const [row] = await findKey(database, tenant, keyId);
    const isOwn =
      row !== undefined &&
      tenant === caller.tenant.id &&
      isOwner(caller, { ownerProvider: row.owner_provider, account: row.account });
    if (!isOwn && !isAdmin(caller)) return denied('only an admin may revoke the keys of other accounts');
    if (!row) return notFound(`key "${keyId}" not found`);
    if (row.kind === 'token') {
      const deleted = await catalog.delete(
        caller,
        input,
        { kind: 'token', name: row.name },
        undefined,
        justification,
      );
      return isRefusal(deleted) ? deleted : {};
    }
    if (!isOwn && !mayGiveRole(caller.role, row.role))
      return denied(`a ${caller.role} may not revoke a key of role ${row.role}`);
    await inTransaction(database, async (client) => {
      const [deleted] = await deleteKeyById(client, tenant, keyId);
      const account = ownerName(row.owner_provider, row.account);
      const details = { account, kind: row.kind, client: row.client ?? '' };
      const record = { tenant, kind: 'key', action: 'REVOKE', name: keyId, justification, details } as const;
      if (deleted) await recordAudit(client, [recordOf(caller, record)]);
    });
    await keys.forget();
    return {};
  };
}

const viewOf = (row: ListedKeyRow, { keyId }: Principal): ListedKey => ({
  keyId: row.key_id,
  kind: row.kind,
  name: row.kind === 'login' ? '' : row.name,
  ownerProvider: row.owner_provider,
  account: row.account,
  role: row.role,
  client: row.client ?? '',
  createdAt: row.created_at,
  lastUsedAt: row.used_at,
  expiresAt: row.expires_at,
  isCurrent: row.key_id === keyId,
});

import { type BodyOf, limits, type Member, mayGiveRole, providerName } from '@muster/sdk/contract';
import type pg from 'pg';
import {
  denied,
  invalid,
  isRefusal,
  notFound,
  precondition,
  type Refusal,
  tenantClosed,
} from '../../domain/refusal.ts';
import { inTransaction } from '../../store/connection.ts';
import { type NewAuditRecord, recordAudit } from '../../store/statements/audit.ts';
import {
  decideMember,
  endSessionsOf,
  listMembers,
  lockMembers,
  type MemberPowersRow,
  type MemberRow,
  readMember,
  readMemberPowers,
} from '../../store/statements/members.ts';
import type { PageTokens } from '../agents/page-tokens.ts';
import { TenantTurns } from '../batches/tenant-limits.ts';
import type { Operation } from '../operation.ts';
import type { Wakes } from '../watching/wakes.ts';
import { recordOf } from './audit.ts';
import type { Keys } from './keys.ts';
import { isAdmin } from './permit.ts';
import type { Principal } from './principal.ts';
import type { Tenants } from './tenants.ts';

export interface MembersOptions {
  readonly database: pg.Pool;
  readonly keys: Keys;
  readonly pageTokens: PageTokens;
  readonly tenants: Tenants;
  readonly wakes: Pick<Wakes, 'revoked'>;
}

type Update = BodyOf<'updateMember'>;

/** The accounts of a tenant, and what admins decide about them. */
export class Members {
  readonly #options: MembersOptions;
  /** A page adds up what its accounts spent, which takes a while in a large tenant. */
  readonly #turns = new TenantTurns(2, 'requests for members');

  constructor(options: MembersOptions) {
    this.#options = options;
  }

  readonly listMembers: Operation<'listMembers'> = async (caller, request) => {
    const { database, pageTokens, tenants } = this.#options;
    const refused = refuseOthers(caller);
    if (refused) return refused;
    const tenant = await tenants.named(request.tenant, caller);
    if (isRefusal(tenant)) return tenant;
    const list = `members/${tenant}`;
    const place = request.pageToken ? pageTokens.open(list, request.pageToken) : '["",""]';
    if (isRefusal(place)) return place;
    const [provider, account] = JSON.parse(place);
    const limit = request.pageSize || limits.pageSize;
    const text = (request.text ?? '').toLowerCase();
    const rows = await this.#turns.run(tenant, () =>
      listMembers(database, tenant, provider, account, text, limit + 1),
    );
    const shown = rows.slice(0, limit);
    const last = shown.at(-1);
    const next = last && JSON.stringify([last.owner_provider, last.account]);
    return {
      entries: shown.map(viewOf),
      nextPageToken: next && rows.length > limit ? pageTokens.seal(list, next) : '',
    };
  };

  readonly updateMember: Operation<'updateMember'> = async (caller, request) => {
    const { database, keys, tenants, wakes } = this.#options;
    const refused = refuseOthers(caller) ?? refuseSelf(caller, request);
    if (refused) return refused;
    if (caller.role === 'operator' && !request.justification?.trim())
      return invalid('justification', "is required for an operator's write");
    const tenant = await tenants.named(request.tenant, caller);
    if (isRefusal(tenant)) return tenant;
    const reply = await inTransaction(database, (client) => update(client, caller, tenant, request));
    if (isRefusal(reply)) return reply;
    await keys.forget();
    // On other nodes the next ticks find them.
    for (const id of reply.ended) wakes.revoked(id);
    return reply.member;
  };
}

const refuseOthers = (caller: Principal): Refusal | null =>
  isAdmin(caller) ? null : denied('only an admin may see and change the members of a tenant');

/** Another admin has to do it: who disables or demotes itself by mistake can't undo that. */
function refuseSelf(caller: Principal, { tenant, ownerProvider, account, disabled, role }: Update) {
  const isSelf =
    ownerProvider === caller.ownerProvider &&
    account === caller.account &&
    (!tenant?.org || tenant.org === caller.tenant.org) &&
    (!tenant?.provider || tenant.provider === caller.tenant.provider);
  if (!isSelf || (!disabled && (role === undefined || role === caller.role))) return null;
  const text = `${disabled ? 'you can not disable your own account' : 'you can not change your own role'}: ask another admin`;
  return precondition('OWN_ACCOUNT', account, text);
}

async function update(
  client: pg.PoolClient,
  caller: Principal,
  tenant: number,
  request: Update,
): Promise<{ readonly member: Member; readonly ended: readonly string[] } | Refusal> {
  const key = [tenant, request.ownerProvider, request.account] as const;
  const [locked] = await lockMembers(client, tenant);
  if (!locked) return tenantClosed();
  const [powers] = await readMemberPowers(client, ...key);
  const refused = refuseUpdate(caller, request, powers);
  if (refused) return refused;
  const { disabled = null, role = null } = request;
  if (disabled !== null || role !== null) await decideMember(client, ...key, disabled, role);
  const records = recordsOf(caller, tenant, request);
  if (records.length > 0) await recordAudit(client, records);
  const ended = disabled ? (await endSessionsOf(client, ...key)).map(({ id }) => id) : [];
  const [row] = await readMember(client, ...key);
  if (!row) throw new Error('the member was not read');
  return { member: viewOf(row), ended };
}

/** One for each thing that the request decides. */
function recordsOf(caller: Principal, tenant: number, request: Update): NewAuditRecord[] {
  const { ownerProvider, account, disabled, role, justification = '' } = request;
  const about = {
    tenant,
    kind: 'member',
    name: `${providerName(ownerProvider)}/${account}`,
    justification,
  } as const;
  const records: NewAuditRecord[] = [];
  if (disabled !== undefined)
    records.push(recordOf(caller, { ...about, action: disabled ? 'DISABLE' : 'ENABLE' }));
  if (role === '') records.push(recordOf(caller, { ...about, action: 'CLEAR_ROLE' }));
  else if (role !== undefined)
    records.push(recordOf(caller, { ...about, action: 'SET_ROLE', details: { role } }));
  return records;
}

function refuseUpdate(
  caller: Principal,
  { ownerProvider, account, disabled, role }: Update,
  powers: MemberPowersRow | undefined,
): Refusal | null {
  const name = `${providerName(ownerProvider)}/${account}`;
  if (!powers?.exists) return notFound(`the tenant has no account ${name}`);
  const above = powers.roles.find((held) => !mayGiveRole(caller.role, held));
  if (above)
    return denied(`${name} has the role ${above}: a key of role ${caller.role} may not change that account`);
  const isAdminOtherwise = powers.roles.some((held) => held === 'admin' || held === 'operator');
  const loses =
    disabled === true || (role === '' ? !isAdminOtherwise : role !== undefined && role !== 'admin');
  if (loses && powers.is_admin && !powers.has_other_admin)
    return precondition(
      'LAST_ADMIN',
      name,
      `${name} is the last admin of the tenant with a valid key: make another account an admin first`,
    );
  return null;
}

const viewOf = (row: MemberRow): Member => ({
  ownerProvider: row.owner_provider,
  account: row.account,
  displayName: row.display_name,
  role: row.role,
  roleOverride: row.role_override as Member['roleOverride'],
  disabled: row.disabled,
  lastSignIn: row.sign_in,
  lastSeenAt: row.last_seen_at,
  keys: row.keys,
  sessions: row.sessions,
  liveAgents: row.live_agents,
  spendUsd: row.spend,
});

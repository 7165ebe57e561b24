import { type MemberRole, mayGiveRole, type Provider, type Role, roles } from '@muster/sdk/contract';
import type pg from 'pg';
import { hashSecret, mintKey } from '../../lib/token.ts';
import { inTransaction } from '../../store/connection.ts';
import { type NewAuditRecord, recordRepeatable } from '../../store/statements/audit.ts';
import {
  deleteOpenedKeys,
  deleteSessionsOfKey,
  deleteSignInKey,
  findMember,
  findMemberByIdentity,
  findSignInKey,
  lockSignIns,
  type MatchedRule,
  type MemberRow,
  type SignInResult,
  saveSignedIn,
  saveSignIn,
  saveSignInKey,
  takenAccounts,
  unbindMember,
} from '../../store/statements/sign-ins.ts';
import { ownerName } from './principal.ts';

/** A person as the provider describes them, once the provider's answer has been verified. */
export interface Identity {
  readonly tenant: number;
  /** The document of the kind sign-in. */
  readonly signIn: string;
  /** The attempt, whose row gets the result. */
  readonly attempt: string;
  readonly ownerProvider: Provider;
  /** Together they never change and never name anybody else. All other fields may. */
  readonly issuer: string;
  readonly subject: string;
  /** The account name that the person would like, fit for an account. */
  readonly name: string;
  /** The account name that an admin has given to this subject, or an empty text. */
  readonly givenName: string;
  readonly displayName: string;
  readonly claims: Readonly<Record<string, unknown>>;
}

/** What the rules of the document say of an account. */
export type Decision =
  | { readonly role: MemberRole; readonly rule: MatchedRule }
  | { readonly role: null; readonly rule: MatchedRule | null; readonly reason: string };

export type Admission =
  | { readonly keyId: string; readonly account: string }
  | { readonly refused: string; readonly account: string };

type Tries = readonly [account: string, ...string[]];

const mostSuffix = 9;

/** The name, then the name with a number, and at last one that nobody else can have. */
function namesFor({ name, issuer, subject }: Identity): Tries {
  const numbered = Array.from({ length: mostSuffix - 1 }, (_, i) => `${name}-${i + 2}`);
  const own = hashSecret(JSON.stringify([issuer, subject]))
    .toString('hex')
    .slice(0, 12);
  return [name, ...numbered, `${name}-${own}`];
}

/**
 * Decides under which account a person signs in, with which role, and ends what an earlier, higher role opened.
 *
 * An identity keeps its account for ever. A new identity gets a name that no person, key, agent or document of the
 * provider has or had, unless an admin gave it the name: so nobody gets what belongs to somebody of the same name.
 */
export async function admitMember(
  database: pg.Pool,
  identity: Identity,
  decide: (account: string) => Decision,
): Promise<Admission> {
  return inTransaction(database, async (connection) => {
    await lockSignIns(connection, identity.tenant);
    const named = await memberOf(connection, identity);
    const { account, member } = named;
    const decision = decide(account);
    const override = member?.role_override ?? null;
    const reason = named.refused || (member?.disabled ? disabledText : decision.role ? '' : decision.reason);
    const isAdmitted = reason === '' && decision.role !== null;
    const { rule } = decision;
    const result: SignInResult = {
      outcome: isAdmitted ? 'ACCEPTED' : 'REFUSED',
      ...{ reason, account },
      role: (decision.role && override) ?? decision.role ?? '',
      rule:
        override && rule ? { ...rule, role: `an admin set ${override}; without that, ${rule.role}` } : rule,
      displayName: identity.displayName,
      subject: identity.subject,
      claims: identity.claims,
    };
    await saveSignIn(connection, identity.tenant, identity.attempt, JSON.stringify(result));
    const role = isAdmitted ? decision.role : null;
    // A stranger who is refused gets no name.
    if (isAdmitted || isOf(member, identity)) {
      await save(connection, identity, account, role, rule);
      await endAbove(connection, identity, account, role, override);
    }
    const keyId = role && (await saveKey(connection, identity, account, role));
    await recordRepeatable(connection, recordOf(identity, result, keyId ?? ''));
    return keyId ? { keyId, account } : { refused: reason, account };
  });
}

const recordOf = (
  { tenant, ownerProvider, signIn, subject }: Identity,
  { account, role, rule, reason }: SignInResult,
  keyId: string,
): NewAuditRecord => ({
  ...{ tenant, keyId, kind: 'session', action: keyId ? 'SIGN_IN' : 'REFUSE' },
  actor: ownerName(ownerProvider, account),
  name: ownerName(ownerProvider, account),
  details: { signIn, subject, ...(keyId ? { role, rule: rule?.role ?? '' } : { reason }) },
});

const isOf = (member: MemberRow | undefined, { issuer, subject }: Identity): boolean =>
  member?.issuer === issuer && member.subject === subject;

const disabledText = 'Your account is disabled. An admin can enable it again.';

interface Named {
  readonly account: string;
  readonly member: MemberRow | undefined;
  readonly refused: string;
}

/** The account of the identity; for a new one, the name that it would get. */
async function memberOf(connection: pg.PoolClient, identity: Identity): Promise<Named> {
  const { tenant, ownerProvider, issuer, subject, givenName } = identity;
  const [known] = await findMemberByIdentity(connection, tenant, issuer, subject);
  if (known && known.owner_provider !== ownerProvider)
    return { account: known.account, member: undefined, refused: otherProtocol };
  if (known && (givenName === '' || givenName === known.account))
    return { account: known.account, member: known, refused: '' };
  if (givenName === '') {
    const names = namesFor(identity);
    const creators = names.map((name) => ownerName(ownerProvider, name));
    const taken = await takenAccounts(connection, tenant, ownerProvider, [...names], creators);
    const free = names.find((name) => !taken.some(({ account }) => account === name));
    return { account: free ?? names[0], member: undefined, refused: free ? '' : noName };
  }
  const [holder] = await findMember(connection, tenant, ownerProvider, givenName);
  if (holder?.subject) return { account: givenName, member: undefined, refused: otherPerson(givenName) };
  if (known) {
    await unbindMember(connection, tenant, ownerProvider, known.account);
    await deleteSignInKey(connection, tenant, ownerProvider, known.account);
  }
  return { account: givenName, member: holder && { ...holder, issuer, subject }, refused: '' };
}

const otherProtocol = 'The identity belongs to an account of another type of provider. Ask an admin.';
const noName = 'There is no free account name. Ask an admin to set one in `accounts` of the sign-in.';
const otherPerson = (account: string): string =>
  `The account "${account}" belongs to another person who signed in. Ask an admin to correct \`accounts\` of the sign-in.`;

const save = (
  connection: pg.PoolClient,
  { tenant, ownerProvider, displayName, signIn, issuer, subject, claims }: Identity,
  account: string,
  role: MemberRole | null,
  rule: MatchedRule | null,
) =>
  saveSignedIn(
    connection,
    ...([tenant, ownerProvider, account, displayName, signIn, issuer, subject, role] as const),
    ...([JSON.stringify(rule), JSON.stringify(claims)] as const),
  );

/** Sessions, keys of the command line, and tokens that the account made for itself. Null: all of them. */
async function endAbove(
  connection: pg.PoolClient,
  { tenant, ownerProvider }: Identity,
  account: string,
  role: MemberRole | null,
  override: Role | null,
): Promise<void> {
  const isWithin = (held: Role | null, one: Role) => held !== null && mayGiveRole(held, one);
  const above = roles.filter((one) => role === null || !(isWithin(role, one) || isWithin(override, one)));
  const owner = [tenant, ownerProvider, account] as const;
  const [key] = await findSignInKey(connection, ...owner);
  if (role === null) await deleteSignInKey(connection, ...owner);
  else if (key && above.includes(key.role)) await deleteSessionsOfKey(connection, tenant, key.key_id);
  const creator = ownerName(ownerProvider, account);
  // A key that was made with one that ends now ends with the next round.
  while ((await deleteOpenedKeys(connection, ...owner, creator, above)).length > 0);
}

/** All sessions of an account belong to one key, whose secret nobody knows. */
async function saveKey(
  connection: pg.PoolClient,
  { tenant, ownerProvider, signIn }: Identity,
  account: string,
  role: Role,
): Promise<string> {
  const [known] = await findSignInKey(connection, tenant, ownerProvider, account);
  const { keyId, secret } = mintKey();
  const id = known?.key_id ?? keyId;
  await saveSignInKey(connection, tenant, id, hashSecret(secret), role, ownerProvider, account, signIn);
  return id;
}

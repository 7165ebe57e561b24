import { randomBytes, randomInt } from 'node:crypto';
import {
  type BodyOf,
  limits,
  type PendingLogin,
  type PolledLogin,
  type StartedLogin,
} from '@muster/sdk/contract';
import type pg from 'pg';
import { exhausted, isRefusal, notFound, type Refusal } from '../../domain/refusal.ts';
import { formatKey, hashSecret, mintKey } from '../../lib/token.ts';
import { inTransaction } from '../../store/connection.ts';
import { recordAudit } from '../../store/statements/audit.ts';
import {
  answerLogin,
  countCode,
  findLogin,
  insertLogin,
  pollLogin,
  takeApproved,
  uncountCode,
} from '../../store/statements/device-logins.ts';
import { deleteSurplusLogins, insertLoginKey } from '../../store/statements/keys.ts';
import type { Operation } from '../operation.ts';
import { recordOf } from './audit.ts';
import type { Keys } from './keys.ts';
import type { Principal } from './principal.ts';

const codeBytes = 32;
const codeForm = /^[A-Za-z0-9_-]{43}$/;

/** Consonants: they make no words, and none looks like a digit. Eight of them are 34 bits. */
const letters = 'BCDFGHJKLMNPQRSTVWXZ';
const letterCount = 8;
const userCodeForm = new RegExp(`^[${letters}]{${letterCount}}$`);

const mintUserCode = (): string =>
  Array.from({ length: letterCount }, () => letters[randomInt(letters.length)]).join('');

/** As people read it: `BCDF-GHJK`. */
const shown = (userCode: string): string => `${userCode.slice(0, 4)}-${userCode.slice(4)}`;

/** As people type it: in any case, with or without the hyphen. Null if it can't be a code. */
function typed(text: string): string | null {
  const userCode = text.toUpperCase().replace(/[\s-]/g, '');
  return userCodeForm.test(userCode) ? userCode : null;
}

const printable = (text: string): string => text.replace(/[^\x20-\x7e]/g, '?');

export interface DeviceLoginsOptions {
  readonly database: pg.Pool;
  readonly keys: Keys;
  readonly publicUrl: () => string;
}

/**
 * Command lines that sign in. Each has two codes: a long one, which it keeps and polls with, and for which it gets a key
 * once; and a short one, which a signed-in person approves. A person who has only the short code can
 * approve it, and so give the program a key of the own account, but gets nothing.
 */
export class DeviceLogins {
  readonly #options: DeviceLoginsOptions;

  constructor(options: DeviceLoginsOptions) {
    this.#options = options;
  }

  /** `address` is that of the request. */
  async start({ client }: BodyOf<'startLogin'>, address: string): Promise<StartedLogin | Refusal> {
    const { database, publicUrl } = this.#options;
    const deviceCode = randomBytes(codeBytes).toString('base64url');
    const userCode = mintUserCode();
    const [made] = await insertLogin(database, hashSecret(deviceCode), userCode, address, printable(client));
    if (!made)
      return exhausted(
        `too many command lines wait for an approval; each ends after ${limits.loginMinutes} minutes`,
      );
    return {
      deviceCode,
      userCode: shown(userCode),
      verificationUrl: `${publicUrl()}/device`,
      expiresAt: made.expires_at,
      intervalSeconds: limits.loginPollSeconds,
    };
  }

  async poll({ deviceCode }: BodyOf<'pollLogin'>): Promise<PolledLogin> {
    const [row] = codeForm.test(deviceCode)
      ? await pollLogin(this.#options.database, hashSecret(deviceCode))
      : [];
    if (!row) return { state: 'EXPIRED', intervalSeconds: 0, apiKey: '' };
    const waiting = { intervalSeconds: row.pause, apiKey: '' };
    if (row.is_early) return { ...waiting, state: 'SLOW_DOWN' };
    return row.state === 'APPROVED' ? this.#grant(deviceCode) : { ...waiting, state: row.state };
  }

  /** The key of a command line that was approved, once. It has the role that its approver has now. */
  async #grant(deviceCode: string): Promise<PolledLogin> {
    const { secret } = mintKey();
    const granted = await inTransaction(this.#options.database, async (client) => {
      const [approved] = await takeApproved(client, hashSecret(deviceCode));
      if (!approved) return null;
      const { tenant, key_id: approver, new_key_id: keyId } = approved;
      const hash = hashSecret(secret);
      const [owner] = await insertLoginKey(client, tenant, approver, keyId, hash, approved.client);
      if (!owner) return null;
      await deleteSurplusLogins(client, tenant, owner.owner_provider, owner.account);
      return formatKey({ keyId, secret });
    });
    return { state: granted ? 'GRANTED' : 'EXPIRED', intervalSeconds: 0, apiKey: granted ?? '' };
  }

  readonly showLogin: Operation<'showLogin'> = async (caller, request) => {
    const login = await this.#pending(caller, request.userCode);
    return isRefusal(login) ? login : { ...login, userCode: shown(login.userCode) };
  };

  readonly answerLogin: Operation<'answerLogin'> = async (caller, request) => {
    const login = await this.#pending(caller, request.userCode);
    if (isRefusal(login)) return login;
    const { userCode, client: program, address } = login;
    const newKeyId = mintKey().keyId;
    return inTransaction(this.#options.database, async (client) => {
      const [state, act] = request.approve
        ? (['APPROVED', { kind: 'key', action: 'GRANT', name: newKeyId }] as const)
        : (['DENIED', { kind: 'key', action: 'DENY', name: '' }] as const);
      const [row] = await answerLogin(client, userCode, state, caller.tenant.id, caller.keyId, newKeyId);
      if (!row) return noLogin;
      await recordAudit(client, [recordOf(caller, { ...act, details: { client: program, address } })]);
      return {};
    });
  };

  /** The command line that waits with a code. Wrong codes are counted, so that nobody finds one by trying. */
  async #pending(
    { tenant, ownerProvider, account }: Principal,
    text: string,
  ): Promise<PendingLogin | Refusal> {
    const { database } = this.#options;
    const userCode = typed(text);
    if (!userCode) return noLogin;
    const [entered] = await countCode(database, tenant.id, ownerProvider, account);
    if ((entered?.count ?? 0) > limits.wrongLoginCodes)
      return exhausted('too many wrong codes were entered: wait 10 minutes');
    const [row] = await findLogin(database, userCode);
    if (!row) return noLogin;
    await uncountCode(database, tenant.id, ownerProvider, account);
    const { client, address, created_at: createdAt, expires_at: expiresAt } = row;
    return { userCode, client, address, createdAt, expiresAt };
  }
}

const noLogin = notFound(
  'no command line waits with this code: it may have been answered or have expired. Run muster login again',
);

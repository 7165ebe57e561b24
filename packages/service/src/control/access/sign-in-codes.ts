import { randomBytes } from 'node:crypto';
import { limits, type SignInCode } from '@muster/sdk/contract';
import type pg from 'pg';
import { hashSecret } from '../../lib/token.ts';
import { insertSignInCode, readSignInCode, takeSignInCode } from '../../store/statements/sign-in-codes.ts';
import type { Principal } from './principal.ts';

const codeBytes = 24;

/**
 * The codes that sign a browser in, each good once, at any node. Only the hash of a code is stored, by which it is
 * looked up, so how long that takes tells nothing about any code.
 */
export class SignInCodes {
  readonly #database: pg.Pool;

  constructor(database: pg.Pool) {
    this.#database = database;
  }

  /** Null: the key was revoked meanwhile. */
  async make(
    { tenant, keyId }: Pick<Principal, 'tenant' | 'keyId'>,
    minutes: number = limits.signInCodeMinutes,
  ): Promise<SignInCode | null> {
    const code = randomBytes(codeBytes).toString('base64url');
    const [made] = await insertSignInCode(this.#database, tenant.id, keyId, hashSecret(code), minutes);
    return made ? { code, expiresAt: made.expires_at } : null;
  }

  /** The same as `take`, and the code stays good. */
  async peek(code: string): Promise<string | null> {
    const [found] = await readSignInCode(this.#database, hashSecret(code));
    return found?.key_id ?? null;
  }

  /** The id of the key that asked for the code, once; null for one that was used, has expired, or never was. */
  async take(code: string): Promise<string | null> {
    const [taken] = await takeSignInCode(this.#database, hashSecret(code));
    return taken?.key_id ?? null;
  }
}

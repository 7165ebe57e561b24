import { randomBytes } from 'node:crypto';
import { limits, type SignInCode } from '@muster/sdk/contract';
import { hashSecret } from '../lib/token.ts';

interface Open {
  /** Of the key that asked. */
  readonly keyId: string;
  readonly untilMs: number;
}

const codeBytes = 24;
const minuteMs = 60_000;

/**
 * The codes that sign a browser in, each good once. They are in this node's memory alone, each with the id of the key
 * that asked for it, by their hash: how long a look-up takes depends on the hash of a guess, and tells nothing of any
 * code.
 */
export class SignInCodes {
  /** In the order in which they were made. */
  readonly #open = new Map<string, Open>();
  readonly #nowMs: () => number;

  constructor(nowMs: () => number = Date.now) {
    this.#nowMs = nowMs;
  }

  make(keyId: string, minutes: number = limits.signInCodeMinutes): SignInCode {
    const nowMs = this.#nowMs();
    this.#makeRoom(keyId, nowMs);
    const code = randomBytes(codeBytes).toString('base64url');
    const untilMs = nowMs + minutes * minuteMs;
    this.#open.set(nameOf(code), { keyId, untilMs });
    return { code, expiresAt: new Date(untilMs).toISOString() };
  }

  /** The same as `take`, and the code stays good. */
  peek(code: string): string | null {
    const found = this.#open.get(nameOf(code));
    return found && this.#nowMs() < found.untilMs ? found.keyId : null;
  }

  /** The id of the key that asked for the code, once; null for one that was used, has expired, or never was. */
  take(code: string): string | null {
    const keyId = this.peek(code);
    this.#open.delete(nameOf(code));
    return keyId;
  }

  /** The expired ones go, and the oldest of a key, or of all, that has too many. */
  #makeRoom(keyId: string, nowMs: number): void {
    const ofKey: string[] = [];
    for (const [name, open] of this.#open) {
      if (open.untilMs <= nowMs) this.#open.delete(name);
      else if (open.keyId === keyId) ofKey.push(name);
    }
    const surplus = Math.max(0, ofKey.length - limits.signInCodesPerKey + 1);
    for (const name of ofKey.slice(0, surplus)) this.#open.delete(name);
    const [oldest] = this.#open.keys();
    if (oldest !== undefined && this.#open.size >= limits.signInCodesPerNode) this.#open.delete(oldest);
  }
}

const nameOf = (code: string): string => hashSecret(code).toString('base64url');

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
  /** The same, by the key that asked. */
  readonly #ofKeys = new Map<string, Set<string>>();
  readonly #nowMs: () => number;

  constructor(nowMs: () => number = Date.now) {
    this.#nowMs = nowMs;
  }

  make(keyId: string, minutes: number = limits.signInCodeMinutes): SignInCode {
    const nowMs = this.#nowMs();
    this.#makeRoom(keyId, nowMs);
    const code = randomBytes(codeBytes).toString('base64url');
    const untilMs = nowMs + minutes * minuteMs;
    const name = nameOf(code);
    this.#open.set(name, { keyId, untilMs });
    this.#ofKeys.set(keyId, (this.#ofKeys.get(keyId) ?? new Set()).add(name));
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
    this.#forget(nameOf(code));
    return keyId;
  }

  /** The expired ones go, and the oldest of a key, or of all, that has too many. */
  #makeRoom(keyId: string, nowMs: number): void {
    const ofKey = this.#ofKeys.get(keyId) ?? new Set();
    this.#forgetExpired(ofKey, nowMs);
    const [oldestOfKey] = ofKey;
    if (oldestOfKey !== undefined && ofKey.size >= limits.signInCodesPerKey) this.#forget(oldestOfKey);
    if (this.#open.size < limits.signInCodesPerNode) return;
    this.#forgetExpired(this.#open.keys(), nowMs);
    const [oldest] = this.#open.keys();
    if (oldest !== undefined && this.#open.size >= limits.signInCodesPerNode) this.#forget(oldest);
  }

  #forgetExpired(names: Iterable<string>, nowMs: number): void {
    for (const name of names) if ((this.#open.get(name)?.untilMs ?? 0) <= nowMs) this.#forget(name);
  }

  #forget(name: string): void {
    const keyId = this.#open.get(name)?.keyId ?? '';
    this.#open.delete(name);
    const ofKey = this.#ofKeys.get(keyId);
    ofKey?.delete(name);
    if (ofKey?.size === 0) this.#ofKeys.delete(keyId);
  }
}

const nameOf = (code: string): string => hashSecret(code).toString('base64url');

import { randomBytes } from 'node:crypto';
import { limits, type SignInCode } from '@muster/sdk/contract';
import { hashSecret } from '../lib/token.ts';

interface Open {
  /** The key that asked, as it was sent: a key can't be made from what is stored of it. */
  readonly key: string;
  readonly untilMs: number;
}

const codeBytes = 24;
const minuteMs = 60_000;

/**
 * The codes that sign a browser in, each good once. They stand in this node's memory alone, beside the key that each
 * gives out, by their hash: how long a look-up takes depends on the hash of a guess, and tells nothing of any code.
 */
export class SignInCodes {
  /** In the order in which they were made. */
  readonly #open = new Map<string, Open>();
  readonly #nowMs: () => number;

  constructor(nowMs: () => number = Date.now) {
    this.#nowMs = nowMs;
  }

  make(key: string, minutes: number = limits.signInCodeMinutes): SignInCode {
    const nowMs = this.#nowMs();
    this.#makeRoom(key, nowMs);
    const code = randomBytes(codeBytes).toString('base64url');
    const untilMs = nowMs + minutes * minuteMs;
    this.#open.set(nameOf(code), { key, untilMs });
    return { code, expiresAt: new Date(untilMs).toISOString() };
  }

  /** The key of whoever asked for the code, once; null for one that was used, has expired, or never was. */
  take(code: string): string | null {
    const name = nameOf(code);
    const found = this.#open.get(name);
    this.#open.delete(name);
    return found && this.#nowMs() < found.untilMs ? found.key : null;
  }

  /** The expired ones go, and the oldest of a key, or of all, that has too many. */
  #makeRoom(key: string, nowMs: number): void {
    const ofKey: string[] = [];
    for (const [name, open] of this.#open) {
      if (open.untilMs <= nowMs) this.#open.delete(name);
      else if (open.key === key) ofKey.push(name);
    }
    const surplus = Math.max(0, ofKey.length - limits.signInCodesPerKey + 1);
    for (const name of ofKey.slice(0, surplus)) this.#open.delete(name);
    const [oldest] = this.#open.keys();
    if (oldest !== undefined && this.#open.size >= limits.signInCodesPerNode) this.#open.delete(oldest);
  }
}

const nameOf = (code: string): string => hashSecret(code).toString('base64url');

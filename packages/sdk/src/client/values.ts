import type { AgentIdInput } from '../contract/identity.ts';

/**
 * Names an agent: `'fix-login'`, `'fix-login/tests'`, `'workspace:fix-login/tests'`, `['fix-login', 'tests']`, or an
 * AgentId from the service.
 */
export type AgentRef = string | readonly string[] | AgentIdInput;

const isPath = (agent: AgentRef): agent is readonly string[] => Array.isArray(agent);

export function agentIdOf(agent: AgentRef): AgentIdInput {
  if (isPath(agent)) return { agent: [...agent] };
  if (typeof agent !== 'string') return agent;
  // Names never contain a colon.
  const colon = agent.indexOf(':');
  const path = agent.slice(colon + 1);
  return {
    ...(colon >= 0 && { workspace: agent.slice(0, colon) }),
    agent: path === '' ? [] : path.split('/'),
  };
}

/**
 * 64-bit values (`runId`, `runCount`, `sequence`, `generation`, token counts) are strings, because a number loses digits
 * past 2^53 and JSON has no bigint. Compare them with `compareInt64`; for arithmetic use `BigInt(value)`.
 */
export type Int64 = string;

/** A 64-bit value in a request: a string, or a safe integer. */
export type Int64Input = string | number;

const int64Pattern = /^(-?)0*(\d{1,19})$/;

function parseInt64(value: Int64Input): { readonly sign: 1 | -1; readonly digits: string } {
  const text = typeof value === 'number' && Number.isSafeInteger(value) ? String(value) : value;
  const match = typeof text === 'string' ? int64Pattern.exec(text) : null;
  if (!match) throw new TypeError(`not a 64-bit integer: ${String(value)}`);
  const digits = match[2] ?? '';
  return { sign: match[1] === '-' && digits !== '0' ? -1 : 1, digits };
}

/** Negative, 0 or positive when a is smaller than, equal to or larger than b, as `sort` expects. */
export function compareInt64(a: Int64Input, b: Int64Input): number {
  const left = parseInt64(a);
  const right = parseInt64(b);
  if (left.sign !== right.sign) return left.sign;
  if (left.digits === right.digits) return 0;
  const isLarger =
    left.digits.length === right.digits.length
      ? left.digits > right.digits
      : left.digits.length > right.digits.length;
  return isLarger ? left.sign : -left.sign;
}

/** A random id. Not `crypto.randomUUID`, which browsers offer on secure pages only. */
export const mintId = (): string =>
  Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join(
    '',
  );

const chunkBytes = 0x8000;

/** A document as requests carry it: base64 of its JSON. */
export function encodePayload(document: unknown): string {
  const bytes = new TextEncoder().encode(JSON.stringify(document));
  let binary = '';
  // In chunks, because the number of arguments of a call is limited.
  for (let from = 0; from < bytes.length; from += chunkBytes) {
    binary += String.fromCharCode(...bytes.subarray(from, from + chunkBytes));
  }
  return btoa(binary);
}

export function decodePayload(payload: string): unknown {
  if (payload === '') return null;
  const bytes = Uint8Array.from(atob(payload), (character) => character.charCodeAt(0));
  return JSON.parse(new TextDecoder().decode(bytes)) as unknown;
}

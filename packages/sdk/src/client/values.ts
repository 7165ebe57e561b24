import { type AgentIdInput, providerByName } from '../contract/identity.ts';

/**
 * Names an agent: `'fix-login'`, `'fix-login/tests'`, `'workspace:fix-login/tests'`, `['fix-login', 'tests']`, or an
 * AgentId from the service. One of another account: `'account:workspace:fix-login'`, with the provider if it is not yours:
 * `'service_profile/github:workspace:fix-login'`.
 */
export type AgentRef = string | readonly string[] | AgentIdInput;

const isPath = (agent: AgentRef): agent is readonly string[] => Array.isArray(agent);

export function agentIdOf(agent: AgentRef): AgentIdInput {
  if (isPath(agent)) return { agent: [...agent] };
  if (typeof agent !== 'string') return agent;
  // Names never contain a colon; an account may.
  const parts = agent.split(':');
  const path = parts.pop() ?? '';
  const workspace = parts.pop();
  return {
    ...(parts.length > 0 && ownerOf(parts.join(':'))),
    ...(workspace !== undefined && { workspace }),
    agent: path === '' ? [] : path.split('/'),
  };
}

/** `account` or `provider_name/account`. */
function ownerOf(text: string): Pick<AgentIdInput, 'ownerProvider' | 'account'> {
  const slash = text.indexOf('/');
  const ownerProvider = slash < 0 ? undefined : providerByName(text.slice(0, slash));
  return ownerProvider ? { ownerProvider, account: text.slice(slash + 1) } : { account: text };
}

/**
 * 64-bit values (`runId`, `runCount`, `sequence`, `generation`, token counts) are strings, because a number loses digits
 * past 2^53 and JSON has no bigint. Compare them with `compareInt64`; for arithmetic use `BigInt(value)`.
 */
export type Int64 = string;

/** A 64-bit value in a request: a string, or a safe integer. */
export type Int64Input = string | number;

function parseInt64(value: Int64Input): bigint {
  const isInteger = typeof value === 'string' ? /^-?0*\d{1,19}$/.test(value) : Number.isSafeInteger(value);
  if (!isInteger) throw new TypeError(`not a 64-bit integer: ${String(value)}`);
  return BigInt(value);
}

/** Negative, 0 or positive when a is smaller than, equal to or larger than b, as `sort` expects. */
export function compareInt64(a: Int64Input, b: Int64Input): number {
  const difference = parseInt64(a) - parseInt64(b);
  return difference < 0n ? -1 : Number(difference > 0n);
}

/** A random id. Not `crypto.randomUUID`, which browsers offer on secure pages only. */
export function mintId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** A document as requests carry it: base64 of its JSON. */
export function encodePayload(document: unknown): string {
  const bytes = new TextEncoder().encode(JSON.stringify(document));
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(''));
}

export function decodePayload(payload: string): unknown {
  if (payload === '') return null;
  const bytes = Uint8Array.from(atob(payload), (character) => character.charCodeAt(0));
  return JSON.parse(new TextDecoder().decode(bytes)) as unknown;
}

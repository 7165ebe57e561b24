import type { IntegrationCheck, Provider as OwnerProvider } from '@muster/sdk/contract';
import { HostError } from '../work/host-error.ts';
import type { Person } from './person.ts';

/** What begins with the redirect to the provider and ends with the callback. */
export interface Flow {
  readonly state: string;
  readonly nonce: string;
  readonly verifier: string;
}

/** What signs people in: OpenID Connect, or GitHub. */
export interface SignInProvider {
  readonly ownerProvider: OwnerProvider;
  /** Where the browser goes. */
  start(flow: Flow, redirectUri: string): Promise<URL>;
  /** Verifies the answer of the provider. */
  identify(callback: URL, flow: Flow): Promise<{ readonly issuer: string; readonly person: Person }>;
  /** Whether all of this is set up. */
  check(redirectUri: string): Promise<IntegrationCheck[]>;
}

/** The provider did not say who somebody is. The message is for admins. */
export class SignInError extends Error {
  override readonly name = 'SignInError';
}

const mostLength = 500;

/** What failed, for admins: in one line, and never with what was sent. */
export function problemOf(error: unknown): string {
  const host = hostErrorIn(error);
  if (host) return host.message;
  const parts: string[] = [];
  for (let one = error, depth = 0; one instanceof Error && depth < 3; one = one.cause, depth += 1) {
    const { code, error: said, error_description: description } = one as Error & Record<string, unknown>;
    parts.push(
      [one.message, ...[said, description, code].filter((text) => typeof text === 'string')].join(', '),
    );
  }
  return (parts.length > 0 ? [...new Set(parts)].join(': ') : 'unknown error')
    .replace(/\p{Cc}+/gu, ' ')
    .slice(0, mostLength);
}

/** The client of OpenID Connect wraps the error of a request in others, which say less. */
function hostErrorIn(error: unknown): HostError | undefined {
  for (let one = error, depth = 0; one instanceof Error && depth < 3; one = one.cause, depth += 1)
    if (one instanceof HostError) return one;
  return undefined;
}

/** A failed check, or one that succeeded. */
export async function checked(name: string, check: () => Promise<string>): Promise<IntegrationCheck> {
  try {
    return { name, ok: true, advice: await check() };
  } catch (error) {
    return { name, ok: false, advice: problemOf(error) };
  }
}

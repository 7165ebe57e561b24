import type { BodyOf, ReplyOf } from '../contract/routes.ts';
import type { SignInAttempt, SignInOutcome, SignInTest } from '../contract/sign-in.ts';
import type { Caller, CallSettings } from './caller.ts';
import { Connection, type SignInSettings } from './connection.ts';

/** The providers that people sign in with: documents of the kind sign-in. For admins. */
export class SignInClient {
  readonly #caller: Caller;

  constructor(caller: Caller) {
    this.#caller = caller;
  }

  /** The last sign-ins with a provider, newest first, with the claims that arrived and the rules that matched. */
  async list(
    signIn: string,
    filter: { readonly outcomes?: SignInOutcome[] | undefined } = {},
    settings: CallSettings = {},
  ): Promise<SignInAttempt[]> {
    const body = { name: signIn, outcomes: filter.outcomes };
    return (await this.#caller.call('listSignIns', body, settings)).entries;
  }

  /** Checks whether people can sign in with it. */
  test(signIn: string, settings: CallSettings = {}): Promise<SignInTest> {
    return this.#caller.call('testSignIn', { name: signIn }, settings);
  }
}

/** For the sign-in page: the providers of a tenant, and why a sign-in was refused. */
export const signInProviders = (
  url: string,
  body: BodyOf<'signInProviders'> = {},
  { fetch, signal }: SignInSettings = {},
): Promise<ReplyOf<'signInProviders'>> =>
  new Connection({ url, fetch }).call('signInProviders', { body, signal, timeoutMs: 30_000 });

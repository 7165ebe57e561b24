import type { AuditEntry } from '../contract/audit.ts';
import type { PendingLogin } from '../contract/device-login.ts';
import type { BrowserSession, SignedIn, SignInCode } from '../contract/identity.ts';
import type { ListedKey } from '../contract/keys.ts';
import type { BodyOf, ReplyOf } from '../contract/routes.ts';
import { AttentionClient } from './attention.ts';
import { type Caller, type CallSettings, type Page, readPages } from './caller.ts';
import { timeText } from './inputs.ts';
import { decodePayload } from './values.ts';

export interface AuditInput extends Omit<BodyOf<'audit'>, 'from' | 'to'> {
  readonly from?: string | Date | undefined;
  readonly to?: string | Date | undefined;
}

/** A record of the audit, with the documents of a catalog write if they were asked for and are still kept. */
export interface AuditRecord extends Omit<AuditEntry, 'payload' | 'previousPayload'> {
  readonly document: Readonly<Record<string, unknown>> | null;
  /** That of the generation before. */
  readonly previousDocument: Readonly<Record<string, unknown>> | null;
}

const recordOf = ({ payload, previousPayload, ...entry }: AuditEntry): AuditRecord => ({
  ...entry,
  document: decodePayload(payload) as AuditRecord['document'],
  previousDocument: decodePayload(previousPayload) as AuditRecord['document'],
});

/** Who may use the service, and who did what. */
export class AccessClient extends AttentionClient {
  readonly #caller: Caller;

  constructor(caller: Caller) {
    super(caller);
    this.#caller = caller;
  }

  /** A code that signs a browser in with this client's key, once: at `/#code=<code>` of the service. */
  signInCode(settings: CallSettings = {}): Promise<SignInCode> {
    return this.#caller.call('signInCode', {}, settings);
  }

  /** Who is signed in with this browser. */
  session(settings: CallSettings = {}): Promise<SignedIn> {
    return this.#caller.call('session', undefined, settings);
  }

  /** Ends the session of this browser. */
  signOut(settings: CallSettings = {}): Promise<ReplyOf<'signOut'>> {
    return this.#caller.call('signOut', {}, settings, {
      whenRepeated: async ({ status }) => (status === 'UNAUTHENTICATED' ? {} : undefined),
    });
  }

  /** Your browser sessions, newest first; admins also see those of others, by `account`. */
  listSessions(
    filter: BodyOf<'listSessions'> = {},
    settings: CallSettings = {},
  ): Promise<Page<BrowserSession>> {
    return this.#caller.call('listSessions', filter, settings);
  }

  /** Ends a browser session. One that has already ended is NOT_FOUND. */
  revokeSession(id: string, settings: CallSettings = {}): Promise<ReplyOf<'revokeSession'>> {
    return this.#caller.call('revokeSession', { id }, settings, {
      whenRepeated: async ({ status }) => (status === 'NOT_FOUND' ? {} : undefined),
    });
  }

  /** One page of the audit, newest first. A page without entries may be followed by others. */
  async audit(
    { from, to, ...request }: AuditInput = {},
    settings: CallSettings = {},
  ): Promise<Page<AuditRecord>> {
    const body = { ...request, from: timeText(from), to: timeText(to) };
    const { entries, nextPageToken } = await this.#caller.call('audit', body, settings);
    return { entries: entries.map(recordOf), nextPageToken };
  }

  /** The keys of your account; admins also see those of others, by `account`. */
  keys(filter: BodyOf<'listKeys'> = {}, settings: CallSettings = {}): AsyncGenerator<ListedKey, void, void> {
    return readPages(filter.pageToken, (pageToken) =>
      this.#caller.call('listKeys', { ...filter, pageToken }, settings),
    );
  }

  /** Ends a key. One that does not exist is NOT_FOUND. */
  revokeKey(
    keyId: string,
    { justification, ...settings }: CallSettings & { readonly justification?: string | undefined } = {},
  ): Promise<ReplyOf<'revokeKey'>> {
    return this.#caller.call('revokeKey', { keyId, justification }, settings, {
      whenRepeated: async ({ status }) => (/NOT_FOUND|UNAUTHENTICATED/.test(status) ? {} : undefined),
    });
  }

  /** Who asks for a sign-in from a command line, by the code that it shows. */
  showLogin(userCode: string, settings: CallSettings = {}): Promise<PendingLogin> {
    return this.#caller.call('showLogin', { userCode }, settings);
  }

  /** Approves a command line, which gets a key of your account, or denies it. */
  answerLogin(
    userCode: string,
    approve: boolean,
    settings: CallSettings = {},
  ): Promise<ReplyOf<'answerLogin'>> {
    return this.#caller.call('answerLogin', { userCode, approve }, settings);
  }

  /** All records, page by page. */
  auditAll(input: AuditInput = {}, settings: CallSettings = {}): AsyncGenerator<AuditRecord, void, void> {
    return readPages(input.pageToken, (pageToken) => this.audit({ ...input, pageToken }, settings));
  }
}

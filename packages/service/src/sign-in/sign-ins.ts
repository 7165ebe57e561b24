import { randomBytes, randomUUID } from 'node:crypto';
import {
  limits,
  type ReplyOf,
  type SignInDocument,
  signInStartPath,
  type Tenant,
  tenantName,
} from '@muster/sdk/contract';
import type pg from 'pg';
import { admitMember } from '../control/access/admit-member.ts';
import type { Control } from '../control/control.ts';
import type { HostRule } from '../lib/host-rules.ts';
import type { Log } from '../lib/log.ts';
import type { ServiceSecrets } from '../lib/service-secret.ts';
import {
  insertSignIn,
  readSignInDocuments,
  type SignInResult,
  saveSignIn,
} from '../store/statements/sign-ins.ts';
import { Administration } from './administration.ts';
import { type OpenedSignIn, SignInDocuments } from './documents.ts';
import { type Flow, problemOf } from './provider.ts';
import { decide } from './rules.ts';
import { SealedTexts } from './sealed-texts.ts';

export interface SignInsOptions {
  readonly database: pg.Pool;
  readonly control: Control;
  readonly secrets: ServiceSecrets;
  readonly log: Log;
  readonly publicUrl: () => string;
  readonly innerHosts: readonly HostRule[];
}

/** What the browser keeps while it is at the provider. It is bound to one provider of one tenant. */
interface Started extends Flow {
  readonly id: string;
  readonly tenant: Tenant;
  readonly name: string;
  readonly returnPath: string;
}

export type StartedSignIn = { readonly url: string; readonly cookie: string } | RefusedSignIn;
export type FinishedSignIn = { readonly keyId: string; readonly returnPath: string } | RefusedSignIn;

/** `refused` is a part of the address of the sign-in page, which asks for its text. */
export interface RefusedSignIn {
  readonly refused: string;
}

const minuteMs = 60_000;
const randomText = (): string => randomBytes(32).toString('base64url');

/** What the sign-in page shows of a tenant. */
type Offered = Omit<ReplyOf<'signInProviders'>, 'installation'>;

/** People sign in with the providers that documents of the kind sign-in name. This file puts the parts together. */
export class SignIns {
  readonly administration: Administration;
  readonly #options: SignInsOptions;
  readonly #documents: SignInDocuments;
  readonly #flows: SealedTexts;
  readonly #refusals: SealedTexts;
  readonly #pace = new Pace(limits.signInsPerSecond);

  constructor(options: SignInsOptions) {
    const { control, secrets } = options;
    const { catalog, tenants } = control;
    this.#options = options;
    this.#documents = new SignInDocuments({ ...options, catalog, tenants });
    this.#flows = new SealedTexts(secrets, 'flow');
    this.#refusals = new SealedTexts(secrets, 'refusal');
    this.administration = new Administration({ ...options, tenants, documents: this.#documents });
  }

  /** What the sign-in page shows. Of a tenant that does not exist it shows the same as of one without providers. */
  async providers(tenant: Tenant | null, refusal: string): Promise<Offered> {
    const { database, control } = this.#options;
    const id = tenant ? await control.tenants.find(tenant) : await control.tenants.first();
    const rows = id === undefined ? [] : await readSignInDocuments(database, id);
    const named = id === undefined ? '' : tenantName(await control.tenants.name(id));
    const refused = refusal === '' ? null : this.#refusals.open<{ text: string }>(refusal);
    return {
      providers: rows
        .filter(({ document }) => document.paused !== true)
        .map(({ name, document }) => ({
          name,
          title: (document as SignInDocument).title || name,
          startPath: signInStartPath(named, name),
        })),
      refusal: refused?.text ?? '',
    };
  }

  /** `returnPath` is a path of the dashboard. */
  async start(tenant: Tenant, name: string, returnPath: string): Promise<StartedSignIn> {
    const opened = await this.#open(tenant, name);
    if ('refused' in opened) return opened;
    const flow: Started = {
      ...{ id: randomUUID(), tenant, name, returnPath },
      ...{ state: randomText(), nonce: randomText(), verifier: randomText() },
    };
    try {
      const url = await opened.provider.start(flow, opened.redirectUri);
      return { url: url.href, cookie: this.#flows.seal(flow, limits.signInMinutes * minuteMs) };
    } catch (error) {
      this.#note(opened, error);
      return this.#refuse(unreachable(opened.title));
    }
  }

  /** Verifies the answer of the provider at the address for this tenant and name, for the browser that has the cookie. */
  async finish(tenant: Tenant, name: string, search: string, cookie: string): Promise<FinishedSignIn> {
    const flow = this.#flows.open<Started>(cookie);
    const state = new URLSearchParams(search).get('state');
    const isOwn =
      flow?.name === name && tenantName(flow.tenant) === tenantName(tenant) && flow.state === state;
    if (!flow || !isOwn) return this.#refuse(startAgain);
    if (!this.#pace.take(`${tenantName(tenant)} ${name}`)) return this.#refuse(tooMany);
    const opened = await this.#open(tenant, name);
    if ('refused' in opened) return opened;
    const { database } = this.#options;
    const { ownerProvider } = opened.provider;
    const [claimed] = await insertSignIn(database, opened.tenant, flow.id, name, ownerProvider, notFinished);
    if (!claimed) return this.#refuse(usedBefore);
    const identified = await opened.provider
      .identify(new URL(`${opened.redirectUri}${search}`), flow)
      .catch((error: unknown) => ({ error }));
    if ('error' in identified) return this.#failed(opened, flow.id, identified.error);
    const admitted = await this.#admit(opened, flow.id, identified);
    return 'refused' in admitted
      ? this.#refuse(admitted.refused)
      : { keyId: admitted.keyId, returnPath: flow.returnPath };
  }

  async #admit(
    { tenant, name, document, provider }: OpenedSignIn,
    attempt: string,
    { issuer, person }: Awaited<ReturnType<OpenedSignIn['provider']['identify']>>,
  ) {
    const { control, database } = this.#options;
    const { subject, displayName, claims } = person;
    const given = document.accounts?.find((one) => one.subject === subject);
    const admitted = await admitMember(
      database,
      {
        ...{ tenant, signIn: name, attempt, issuer, subject, displayName, claims },
        ownerProvider: provider.ownerProvider,
        name: person.name,
        givenName: given?.account ?? '',
      },
      (account) => decide(document, person, account),
    );
    // Sessions and keys may have ended, and a role may have changed.
    await control.keys.forget();
    return admitted;
  }

  /** Ends the calls to providers. */
  cancel(): void {
    this.#documents.close();
  }

  async #open(tenant: Tenant, name: string): Promise<OpenedSignIn | RefusedSignIn> {
    try {
      const opened = await this.#documents.open(tenant, name);
      if (!opened || opened.document.paused) return this.#refuse(unknownProvider);
      return opened;
    } catch (error) {
      this.#note({ name }, error);
      return this.#refuse(unreachable(name));
    }
  }

  async #failed(opened: OpenedSignIn, id: string, error: unknown): Promise<RefusedSignIn> {
    this.#note(opened, error);
    const result: SignInResult = {
      ...{ outcome: 'FAILED', reason: problemOf(error), account: '', displayName: '', subject: '' },
      ...{ role: '', rule: null, claims: null },
    };
    await saveSignIn(this.#options.database, opened.tenant, id, JSON.stringify(result));
    return this.#refuse(notConfirmed(opened.title));
  }

  #note({ name }: Pick<OpenedSignIn, 'name'>, error: unknown): void {
    this.#options.log.warn({ signIn: name, error: problemOf(error) }, 'sign-in failed');
  }

  #refuse(text: string): RefusedSignIn {
    return { refused: this.#refusals.seal({ text }, minuteMs * limits.signInMinutes) };
  }
}

const startAgain =
  'This sign-in was not started in this browser, or took too long. Start again, in one tab at a time.';
const usedBefore = 'This sign-in was completed before. Start again.';
const notFinished = 'the service stopped before the provider had answered';
const unknownProvider = 'There is no such sign-in, or it is paused.';
const tooMany = 'Too many people sign in at the same time. Try again in a few seconds.';
const unreachable = (title: string): string =>
  `“${title}” can't be reached, or is not set up completely. An admin can test it: muster sign-in test.`;
const notConfirmed = (title: string): string =>
  `“${title}” did not confirm who you are. Try again; an admin sees the reason in the catalog, under sign-in.`;

/** Limits how many pass in a second, of each document. */
class Pace {
  readonly #perSecond: number;
  #second = 0;
  #counts = new Map<string, number>();

  constructor(perSecond: number) {
    this.#perSecond = perSecond;
  }

  take(key: string): boolean {
    const second = Math.floor(Date.now() / 1_000);
    if (second !== this.#second) this.#counts = new Map();
    this.#second = second;
    const count = this.#counts.get(key) ?? 0;
    if (count >= this.#perSecond || this.#counts.size > 1_000) return false;
    this.#counts.set(key, count + 1);
    return true;
  }
}

import { type SignInDocument, signInCallbackPath, type Tenant, tenantName } from '@muster/sdk/contract';
import type { CustomFetch, ServerMetadata } from 'openid-client';
import type { Tenants } from '../control/access/tenants.ts';
import type { Catalog } from '../control/catalog/catalog.ts';
import type { HostRule } from '../lib/host-rules.ts';
import { type FetchRequest, fetchHost } from '../work/fetch-host.ts';
import { GitHubProvider } from './github.ts';
import { discover, OidcProvider } from './oidc.ts';
import { SignInError, type SignInProvider } from './provider.ts';

export interface DocumentsOptions {
  readonly catalog: Catalog;
  readonly tenants: Tenants;
  readonly publicUrl: () => string;
  readonly innerHosts: readonly HostRule[];
}

/** A document of the kind sign-in, ready for use. */
export interface OpenedSignIn {
  readonly tenant: number;
  readonly name: string;
  readonly title: string;
  readonly document: SignInDocument;
  readonly provider: SignInProvider;
  readonly redirectUri: string;
}

const timeoutMs = 10_000;
const mostReplyBytes = 512 * 1024;
const metadataMs = 5 * 60_000;
/** A provider that does not answer is asked again after this time. */
const failedMs = 5_000;
const mostKept = 1_000;

interface KeptMetadata {
  readonly value: Promise<ServerMetadata>;
  untilMs: number;
}

/** The documents that people sign in with, as the catalog has them now. */
export class SignInDocuments {
  readonly #options: DocumentsOptions;
  readonly #closing = new AbortController();
  /** By tenant and issuer. */
  readonly #metadata = new Map<string, KeptMetadata>();

  constructor(options: DocumentsOptions) {
    this.#options = options;
  }

  /** Undefined without such a document. Throws a `SignInError` if it is not complete. */
  async open(tenantOfName: Tenant, name: string): Promise<OpenedSignIn | undefined> {
    const { tenants, catalog, publicUrl } = this.#options;
    const tenant = await tenants.find(tenantOfName);
    const found = tenant && (await catalog.document(tenant, 'sign-in', name));
    if (!tenant || !found) return undefined;
    const document = found as SignInDocument;
    return {
      ...{ tenant, name, document },
      title: document.title || name,
      provider: await this.#provider(tenant, document),
      redirectUri: `${publicUrl()}${signInCallbackPath(tenantName(tenantOfName), name)}`,
    };
  }

  /** Ends the calls to providers. */
  close(): void {
    this.#closing.abort();
  }

  async #provider(tenant: number, document: SignInDocument): Promise<SignInProvider> {
    const clientSecret = await this.#secret(tenant, document);
    if (!document.clientId) throw new SignInError('clientId: is not set; set it in the document');
    if (document.type === 'github') {
      if (clientSecret === undefined)
        throw new SignInError('clientSecret: is not set; set it in the document');
      const fetch = (url: string, request: FetchRequest) => this.#fetch(url, request);
      return new GitHubProvider({ document, clientSecret, fetch });
    }
    const fetch: CustomFetch = (url, { method, headers, body }) =>
      this.#fetch(url, { method, headers, body: body ? String(body) : undefined });
    const metadata = () => this.#known(tenant, document, fetch);
    return new OidcProvider({ document, clientSecret, fetch, metadata });
  }

  async #secret(tenant: number, { clientSecret }: SignInDocument): Promise<string | undefined> {
    if (!clientSecret) return undefined;
    const found = await this.#options.catalog.secrets.value(tenant, clientSecret.fromSecret);
    if ('value' in found) return found.value.trim();
    throw new SignInError(`clientSecret: ${found.problem}`);
  }

  #fetch(url: string, request: FetchRequest): Promise<Response> {
    const { innerHosts } = this.#options;
    return fetchHost(url, request, {
      ...{ innerHosts, timeoutMs },
      mostBytes: mostReplyBytes,
      signal: this.#closing.signal,
    });
  }

  /** One question for all who start at the same time. */
  #known(tenant: number, document: SignInDocument, fetch: CustomFetch): Promise<ServerMetadata> {
    const key = `${tenant} ${document.issuer}`;
    const kept = this.#metadata.get(key);
    if (kept && kept.untilMs > Date.now()) return kept.value;
    if (this.#metadata.size >= mostKept) this.#metadata.clear();
    const asked: KeptMetadata = { value: discover(document, fetch), untilMs: Date.now() + metadataMs };
    this.#metadata.set(key, asked);
    asked.value.catch(() => {
      asked.untilMs = Date.now() + failedMs;
    });
    return asked.value;
  }
}

import type { IntegrationDocument } from '@muster/sdk/contract';
import type { Catalog } from '../control/catalog/catalog.ts';
import type { HostRule } from '../lib/host-rules.ts';
import { matchesPath } from '../lib/path-pattern.ts';
import { type Host, HostError, type HostType, hostTypes, type Permission, type RepoPath } from './host.ts';
import { type Credential, openHost } from './hosts.ts';
import { defaultUrls, repoAt } from './names.ts';

/** An integration with a code host, with its defaults filled in and its credential resolved. */
export interface Integration {
  readonly tenant: number;
  readonly name: string;
  readonly type: HostType;
  readonly url: string;
  readonly host: Host;
  readonly repos: readonly string[];
  readonly workspace: string;
  readonly persona: string;
  readonly profile: string;
  readonly changeRequests: 'manual' | 'auto' | 'draft' | 'off';
  readonly triggers: { readonly label: string; readonly mention: string; readonly assigned: boolean };
  readonly minimumPermission: Permission;
  readonly bots: readonly string[];
  readonly rounds: number;
  readonly checks: { readonly report: boolean; readonly rounds: number; readonly ignore: readonly string[] };
  readonly onMerged: 'inform' | 'finish' | 'nothing';
  readonly paused: boolean;
}

/** Why an integration can't be used; a person has to change something. */
export class IntegrationError extends Error {
  override readonly name = 'IntegrationError';
}

export interface IntegrationsOptions {
  readonly catalog: Catalog;
  /** Hosts that may have an address of an internal network. */
  readonly innerHosts: readonly HostRule[];
  /** Ends all calls. */
  readonly signal: AbortSignal;
}

/** A host keeps its access tokens and limits for as long as its integration and credential stay the same. */
interface OpenedHost {
  readonly made: string;
  readonly host: Host;
}

const mostHosts = 1_000;

/** The integrations of tenants, as the catalog has them now. */
export class Integrations {
  readonly #options: IntegrationsOptions;
  readonly #hosts = new Map<string, OpenedHost>();

  constructor(options: IntegrationsOptions) {
    this.#options = options;
  }

  /** Throws an `IntegrationError` that names the field if it can't be used. */
  async open(tenant: number, name: string): Promise<Integration> {
    const document = await this.#options.catalog.document(tenant, 'integration', name);
    if (!document) throw new IntegrationError(`the integration "${name}" does not exist`);
    return this.#opened(tenant, name, document as IntegrationDocument);
  }

  /** The integration that covers a repository, the first by name if several do. */
  async covering(
    tenant: number,
    repoUrl: string,
  ): Promise<{ integration: Integration; repo: RepoPath } | null> {
    for (const { name, document } of await this.#options.catalog.documents(tenant, 'integration')) {
      const found = coveredRepo(document as IntegrationDocument, repoUrl);
      if (!found) continue;
      const integration = await this.#opened(tenant, name, document).catch(inIntegration(name));
      return { integration, repo: found };
    }
    return null;
  }

  async #opened(tenant: number, name: string, document: IntegrationDocument): Promise<Integration> {
    const type = typeOf(document);
    if (!type) throw new IntegrationError(`type: expected one of ${hostTypes.join(', ')}`);
    const url = urlOf(type, document);
    if (!url) throw new IntegrationError('url: expected the address of the host');
    const { checks = {}, triggers = {} } = document;
    return {
      tenant,
      name,
      type,
      url,
      host: this.#host(tenant, name, type, url, await this.#credential(tenant, type, document)),
      repos: document.repos ?? [],
      workspace: document.workspace ?? '',
      persona: document.persona ?? '',
      profile: document.profile || name,
      changeRequests: document.changeRequests ?? 'manual',
      triggers: {
        label: triggers.label ?? '',
        mention: triggers.mention ?? '',
        assigned: triggers.assigned ?? false,
      },
      minimumPermission: document.minimumPermission ?? 'write',
      bots: document.bots ?? [],
      rounds: document.rounds ?? 10,
      checks: {
        report: checks.report ?? true,
        rounds: checks.rounds ?? 3,
        ignore: checks.ignore ?? [],
      },
      onMerged: document.onMerged ?? 'inform',
      paused: document.paused ?? false,
    };
  }

  async #credential(tenant: number, type: HostType, document: IntegrationDocument): Promise<Credential> {
    const secret = async (field: 'token' | 'privateKey'): Promise<string> => {
      const name = document[field]?.fromSecret ?? '';
      const found = await this.#options.catalog.secretValue(tenant, name);
      if ('problem' in found) throw new IntegrationError(`${field}: ${found.problem}`);
      return found.value.trim();
    };
    if (document.token) return { token: await secret('token') };
    if (document.appId && document.privateKey && type === 'github')
      return { appId: String(document.appId), privateKey: await secret('privateKey') };
    throw new IntegrationError(
      type === 'github'
        ? 'token: expected {"fromSecret": "NAME"}, or appId and privateKey'
        : 'token: expected {"fromSecret": "NAME"}',
    );
  }

  #host(tenant: number, name: string, type: HostType, url: string, credential: Credential): Host {
    const { innerHosts, signal } = this.#options;
    const key = `${tenant}/${name}`;
    const made = JSON.stringify([type, url, credential]);
    const known = this.#hosts.get(key);
    if (known?.made === made) return known.host;
    if (this.#hosts.size >= mostHosts) this.#hosts.clear();
    const host = openHost(type, { url, credential, innerHosts, signal });
    this.#hosts.set(key, { made, host });
    return host;
  }
}

const inIntegration =
  (name: string) =>
  (error: unknown): never => {
    if (!(error instanceof HostError || error instanceof IntegrationError)) throw error;
    throw new IntegrationError(`the integration "${name}": ${error.message}`);
  };

export const typeOf = ({ type }: IntegrationDocument): HostType | null =>
  hostTypes.find((known) => known === type) ?? null;

const urlOf = (type: HostType, { url }: IntegrationDocument): string =>
  (url || defaultUrls[type] || '').replace(/\/+$/, '');

/** The path of a repository at the host of an integration that covers it. */
export function coveredRepo(document: IntegrationDocument, repoUrl: string): RepoPath | null {
  const type = typeOf(document);
  const path = type && repoAt(urlOf(type, document), repoUrl);
  return path && covers(document.repos ?? [], path) ? path : null;
}

/** Without patterns, every repository of the host is covered. */
export const covers = (patterns: readonly string[], path: RepoPath): boolean =>
  patterns.length === 0 || patterns.some((pattern) => matchesPath(pattern.toLowerCase(), path.toLowerCase()));

import {
  coveredRepo,
  coversRepo,
  hostUrlOf,
  type IntegrationDocument,
  matchesRepo,
} from '@muster/sdk/contract';
import type pg from 'pg';
import type { Catalog } from '../control/catalog/catalog.ts';
import { NotNowError } from '../deliveries/process.ts';
import { hostUrlProblem } from '../lib/host-url.ts';
import { findTriggeredBy } from '../store/statements/change-requests.ts';
import type { PushedBranch } from '../store/statements/pushed-branches.ts';
import { HostError } from '../work/host-error.ts';
import { type Host, type HostType, hostTypes, type Permission, type RepoPath } from './host.ts';
import { type Credential, type HostOptions, openHost } from './hosts.ts';
import { orRefusal } from './or-refusal.ts';

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
export class IntegrationError extends NotNowError {
  override readonly name = 'IntegrationError';
}

export interface IntegrationsOptions extends Pick<HostOptions, 'innerHosts' | 'signal' | 'parse'> {
  readonly database: pg.Pool;
  readonly catalog: Catalog;
  /** Called when a host says that a repository has another path now; again for as long as the earlier one is used. */
  readonly onRenamed: (integration: Integration, from: RepoPath, to: RepoPath) => Promise<void>;
}

/** A host keeps its access tokens and limits for as long as its integration and credential stay the same. */
interface OpenedHost {
  readonly made: string;
  readonly host: Host;
}

const mostHosts = 1_000;
/** How long it is remembered which path a repository has. */
const pathMs = 60_000;
const mostPaths = 10_000;

/** The integrations of tenants, as the catalog has them now. */
export class Integrations {
  readonly #options: IntegrationsOptions;
  readonly #hosts = new Map<string, OpenedHost>();
  readonly #paths = new Map<string, { readonly path: RepoPath; readonly untilMs: number }>();

  constructor(options: IntegrationsOptions) {
    this.#options = options;
  }

  /** Throws an `IntegrationError` that names the field if it can't be used. */
  async open(tenant: number, name: string): Promise<Integration> {
    return this.#opened(tenant, name, await this.#document(tenant, name));
  }

  /** What can be known of an integration without its credential. */
  async describe(tenant: number, name: string): Promise<Pick<Integration, 'type' | 'repos' | 'paused'>> {
    const document = await this.#document(tenant, name);
    const { repos = [], paused = false } = document;
    return { type: knownType(document), repos, paused };
  }

  async #document(tenant: number, name: string): Promise<IntegrationDocument> {
    const document = await this.#options.catalog.document(tenant, 'integration', name);
    if (!document) throw new IntegrationError(`the integration "${name}" does not exist`);
    return document;
  }

  /** The integration that covers a repository; of several, the one that comes first. */
  async covering(
    tenant: number,
    repoUrl: string,
  ): Promise<{ integration: Integration; repo: RepoPath } | null> {
    const [found] = await this.#covering(tenant, repoUrl);
    if (!found) return null;
    const { name, document, repo } = found;
    const integration = await this.#opened(tenant, name, document).catch(inIntegration(name));
    return { integration, repo: await this.currentPath(integration, repo) };
  }

  /**
   * The path that a repository has at the host now. The one in a URL may have been written in another case, or before it
   * was renamed. It is kept if the host does not answer.
   */
  async currentPath(integration: Integration, repo: RepoPath): Promise<RepoPath> {
    const { name, host, repos } = integration;
    const known = this.#paths.get(pathKey(integration, repo));
    if (known && known.untilMs > Date.now()) return known.path;
    const path = await host.path(repo).catch((error: unknown) => {
      if (error instanceof HostError) return null;
      throw error;
    });
    if (path === null) return repo;
    if (!coversRepo(repos, path))
      throw new IntegrationError(
        `the integration "${name}": ${repo} was renamed to ${path}, which \`repos\` does not cover`,
      );
    await this.#follow(integration, repo, path);
    return path;
  }

  /** Whether the repository had one of these paths before. The records of that path follow it. */
  async isRenamed(
    integration: Integration,
    earlier: readonly { readonly repo: RepoPath }[],
    repo: RepoPath,
  ): Promise<boolean> {
    for (const from of earlier) {
      if ((await orRefusal(integration.host.path(from.repo))) !== repo) continue;
      // Workspaces may write the earlier path in another case.
      this.#paths.clear();
      await this.#follow(integration, from.repo, repo);
      return true;
    }
    return false;
  }

  async #follow(integration: Integration, from: RepoPath, to: RepoPath): Promise<void> {
    if (from !== to) await this.#options.onRenamed(integration, from, to);
    if (this.#paths.size >= mostPaths) this.#paths.clear();
    this.#paths.set(pathKey(integration, from), { path: to, untilMs: Date.now() + pathMs });
  }

  /** Those that cover a repository and come before this one. They may be unusable. */
  async before(
    { tenant, name, url }: Pick<Integration, 'tenant' | 'name' | 'url'>,
    repo: RepoPath,
  ): Promise<readonly (Pick<Integration, 'name' | 'triggers'> & { account(): Promise<string> })[]> {
    const all = await this.#covering(tenant, `${url}/${repo}`);
    const earlier = all.slice(
      0,
      all.findIndex((one) => one.name === name),
    );
    return earlier.map((one) => ({
      name: one.name,
      triggers: triggersOf(one.document),
      account: () =>
        this.#opened(tenant, one.name, one.document)
          .then(({ host }) => host.self())
          .then(({ login }) => login, emptyIfUnusable),
    }));
  }

  /** The one whose `repos` name the repository most precisely comes first; equally precise ones are in order of name. */
  async #covering(tenant: number, repoUrl: string) {
    const found = [];
    for (const { name, value } of await this.#options.catalog.integrations(tenant)) {
      const document = value as IntegrationDocument;
      const repo = coveredRepo(document, repoUrl);
      if (repo) found.push({ name, document, repo, precision: precisionOf(document.repos ?? [], repo) });
    }
    return found.sort((one, other) => other.precision - one.precision);
  }

  /**
   * The integration that the change requests of an agent in a repository belong to: the one that spawned it for an issue
   * there, or else the one that covers the repository.
   */
  async ofAgent({
    tenant,
    agent,
    repo: repoUrl,
  }: PushedBranch): Promise<{ integration: Integration; repo: RepoPath } | null> {
    for (const { integration: name } of await findTriggeredBy(this.#options.database, tenant, agent)) {
      const document = await this.#options.catalog.document(tenant, 'integration', name);
      const repo = document && coveredRepo(document as IntegrationDocument, repoUrl);
      if (!repo) continue;
      const opening = this.#opened(tenant, name, document as IntegrationDocument);
      const integration = await opening.catch(inIntegration(name));
      return { integration, repo: await this.currentPath(integration, repo) };
    }
    return this.covering(tenant, repoUrl);
  }

  async #opened(tenant: number, name: string, document: IntegrationDocument): Promise<Integration> {
    const type = knownType(document);
    const url = hostUrlOf(document);
    if (!url) throw new IntegrationError('url: expected the address of the host');
    // An earlier version stored any text.
    const problem = hostUrlProblem(type, url);
    if (problem) throw new IntegrationError(`url: ${problem}`);
    const { checks = {} } = document;
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
      triggers: triggersOf(document),
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
      const found = await this.#options.catalog.secrets.value(tenant, name);
      if ('problem' in found) throw new IntegrationError(`${field}: ${found.problem}`);
      return found.value.trim();
    };
    if (document.token) return { token: await secret('token') };
    if (document.appId && document.privateKey && type === 'github')
      return { appId: String(document.appId), privateKey: await secret('privateKey') };
    throw new IntegrationError(
      type === 'github'
        ? 'token is missing. Write token: {fromSecret: NAME} with the name of a secret, or set appId and privateKey.'
        : 'token is missing. Write token: {fromSecret: NAME} with the name of a secret.',
    );
  }

  #host(tenant: number, name: string, type: HostType, url: string, credential: Credential): Host {
    const { innerHosts, signal, parse } = this.#options;
    const key = `${tenant}/${name}`;
    const made = JSON.stringify([type, url, credential]);
    const known = this.#hosts.get(key);
    if (known?.made === made) return known.host;
    if (this.#hosts.size >= mostHosts) this.#hosts.clear();
    const host = openHost(type, { url, credential, innerHosts, signal, parse });
    this.#hosts.set(key, { made, host });
    return host;
  }
}

const pathKey = ({ tenant, name }: Integration, repo: RepoPath): string =>
  JSON.stringify([tenant, name, repo]);

const inIntegration =
  (name: string) =>
  (error: unknown): never => {
    if (!(error instanceof HostError || error instanceof IntegrationError)) throw error;
    throw new IntegrationError(`the integration "${name}": ${error.message}`);
  };

function emptyIfUnusable(error: unknown): string {
  if (error instanceof HostError || error instanceof IntegrationError) return '';
  throw error;
}

const triggersOf = ({ triggers = {} }: IntegrationDocument): Integration['triggers'] => ({
  label: triggers.label ?? '',
  mention: triggers.mention ?? '',
  assigned: triggers.assigned ?? false,
});

export const typeOf = ({ type }: IntegrationDocument): HostType | null =>
  hostTypes.find((known) => known === type) ?? null;

function knownType(document: IntegrationDocument): HostType {
  const type = typeOf(document);
  if (!type) throw new IntegrationError(`type: expected one of ${hostTypes.join(', ')}`);
  return type;
}

/** How much of a covered path the patterns name: a full path is more precise than any with a `*`. */
const precisionOf = (patterns: readonly string[], path: RepoPath): number =>
  Math.max(
    -1,
    ...patterns
      .filter((pattern) => matchesRepo(pattern, path))
      .map((pattern) =>
        pattern.includes('*') ? pattern.replaceAll('*', '').length : Number.MAX_SAFE_INTEGER,
      ),
  );

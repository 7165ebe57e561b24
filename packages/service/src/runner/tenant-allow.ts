import { dirname } from 'node:path';
import { matchesPath, type Tenant, tenantName, tenantNamed } from '@muster/sdk/contract';
import { isObject } from '../lib/json.ts';

/**
 * What tenants other than the first may use of a runner's machine, as its operator lists it in `MUSTER_TENANT_ALLOW`:
 * variables of the runner's environment; repositories that the runner's own git reaches with its credentials, also on
 * this machine and in internal networks; MCP servers on this machine and in internal networks. Everything else is refused.
 */
export type Allowed = Readonly<Record<(typeof fields)[number], readonly string[]>>;

/** By `<provider_name>/<org>`. */
export type TenantAllow = ReadonlyMap<string, Allowed>;

export const tenantAllowName = 'MUSTER_TENANT_ALLOW';

const fields = ['fromRunner', 'repos', 'mcpServers'] as const;
const fieldsText = 'fromRunner, repos and mcpServers';
const example =
  '{"codehost_app/acme": {"fromRunner": ["NPM_TOKEN"], "repos": ["https://git.example/acme/**"]}}';

export function readTenantAllow(text: string): TenantAllow {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new Error(`expected JSON such as ${example}: ${(error as Error).message}`);
  }
  if (!isObject(value)) throw new Error(`expected a JSON object such as ${example}`);
  return new Map(Object.entries(value).map(([tenant, given]) => [canonical(tenant), allowed(tenant, given)]));
}

function allowed(tenant: string, given: unknown): Allowed {
  if (!isObject(given)) throw new Error(`"${tenant}": expected an object with ${fieldsText}`);
  const unknown = Object.keys(given).find((name) => !(fields as readonly string[]).includes(name));
  if (unknown !== undefined)
    throw new Error(`"${tenant}": unknown field "${unknown}"; expected ${fieldsText}`);
  const list = (name: (typeof fields)[number]): string[] => {
    const items = given[name] ?? [];
    if (!Array.isArray(items) || items.some((item) => typeof item !== 'string' || item === ''))
      throw new Error(`"${tenant}".${name}: expected a list of non-empty strings`);
    return items as string[];
  };
  return { fromRunner: list('fromRunner'), repos: list('repos'), mcpServers: list('mcpServers') };
}

function canonical(text: string): string {
  const tenant = tenantNamed(text);
  if (!tenant)
    throw new Error(`"${text}": expected a tenant as <provider>/<org>, for example codehost_app/acme`);
  return tenantName(tenant);
}

/** What one tenant may use of this machine. */
export class TenantRights {
  /** The operator's own tenant: it may use everything. */
  readonly isFirst: boolean;
  readonly #allow: TenantAllow;
  readonly #tenant: Tenant;
  readonly #name: string;
  readonly #allowed: Allowed;
  /** A repository whose origin or folder may be reached. */
  readonly #near: string | undefined;

  constructor(allow: TenantAllow, tenant: Tenant, isFirst: boolean, near?: string) {
    this.isFirst = isFirst;
    this.#allow = allow;
    this.#tenant = tenant;
    this.#name = tenantName(tenant);
    this.#allowed = allow.get(this.#name) ?? { fromRunner: [], repos: [], mcpServers: [] };
    this.#near = near;
  }

  /**
   * For URLs that a repository or its host names: of submodules, and of objects in LFS. The tenant has not chosen them, so
   * even the first tenant gets only what has the same origin or is in the same folder, and what the operator lists for it.
   */
  ofNamedBy(repositoryUrl: string): TenantRights {
    return new TenantRights(this.#allow, this.#tenant, false, this.isFirst ? repositoryUrl : this.#near);
  }

  /** Only what the operator lists. */
  ofListed(): TenantRights {
    return new TenantRights(this.#allow, this.#tenant, false);
  }

  mayReadVariable(name: string): boolean {
    return this.isFirst || this.#allowed.fromRunner.includes(name);
  }

  /** Whether the runner's own git may use its credentials for this canonical URL. */
  mayReach(url: string | undefined): boolean {
    if (this.isFirst || url === undefined) return this.isFirst;
    if (this.#near !== undefined && placeOf(this.#near) === placeOf(url)) return true;
    return this.#allowed.repos.some((pattern) => matchesPath(pattern, url));
  }

  /** Whether an MCP server with this address may be on this machine or in an internal network. */
  mayBeInner({ origin, pathname }: URL): boolean {
    return this.isFirst || this.#allowed.mcpServers.some((p) => matchesPath(p, `${origin}${pathname}`));
  }

  howToAllow(field: (typeof fields)[number], item: string): string {
    const entry = JSON.stringify({ [this.#name]: { [field]: [item] } });
    return `the operator of this runner can allow it, for example with ${tenantAllowName}='${entry}'`;
  }
}

/**
 * The origin of a URL, or the folder of a path. Another scheme or port is another server, which must not get the
 * credentials of the first. Only ssh and https on their own ports count as the same.
 */
function placeOf(url: string): string {
  const path = url.replace(/^file:\/\//i, '');
  if (path.startsWith('/')) return dirname(path);
  const parsed = /^[a-z+]+:\/\//i.test(url) && URL.canParse(url) ? new URL(url) : undefined;
  if (parsed && /^https?:$/.test(parsed.protocol)) return parsed.origin;
  const [, host = url] = /^(?:[^/@]*@)?([^/:]+)/.exec(url) ?? [];
  if (!parsed) return `https://${host.toLowerCase()}`;
  const isDefault = parsed.protocol === 'ssh:' && (parsed.port === '' || parsed.port === '22');
  return `${isDefault ? 'https:' : parsed.protocol}//${isDefault ? parsed.hostname : parsed.host}`.toLowerCase();
}

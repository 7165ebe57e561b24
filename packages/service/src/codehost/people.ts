import { HostError } from '../work/host-error.ts';
import { type Host, type Permission, type Person, permissions, type RepoPath } from './host.ts';
import { orRefusal } from './or-refusal.ts';

/** How long a permission is cached. */
const permissionMs = 60_000;
const mostPermissions = 10_000;

export const isAtLeast = (permission: Permission, minimum: Permission): boolean =>
  permissions.indexOf(permission) >= permissions.indexOf(minimum);

/** A user that the host does not know has no permission. A credential that it does not accept says nothing about users. */
export async function orNone(call: Promise<Permission>): Promise<Permission> {
  const found = await orRefusal(call);
  if (!(found instanceof HostError)) return found;
  if (found.status === 401) throw found;
  return 'none';
}

/** The integration that asks, and what it asks for. */
interface Asking {
  readonly tenant: number;
  readonly name: string;
  readonly host: Host;
  readonly bots: readonly string[];
  readonly minimumPermission: Permission;
}

/** Who people are to an integration, by the host's own answers, which are kept for a minute. */
export class People {
  readonly #permissions = new Map<string, { readonly permission: Permission; readonly untilMs: number }>();
  readonly #selves = new WeakMap<Host, { readonly person: Person; readonly untilMs: number }>();

  /** Why a person is not authorized; null if they are. */
  async refuseToHear(integration: Asking, repo: RepoPath, person: Person): Promise<string | null> {
    const permission = await this.permissionOf(integration, repo, person);
    const { minimumPermission } = integration;
    return isAtLeast(permission, minimumPermission)
      ? null
      : `${person.login} has the permission ${permission}; ${minimumPermission} is needed`;
  }

  /** A listed bot counts as an administrator. */
  async permissionOf(integration: Asking, repo: RepoPath, person: Person): Promise<Permission> {
    if (integration.bots.includes(person.id)) return 'admin';
    const key = JSON.stringify([integration.tenant, integration.name, repo, person.id]);
    const known = this.#permissions.get(key);
    if (known && known.untilMs > Date.now()) return known.permission;
    const permission = await integration.host.permissionOf(repo, person);
    if (this.#permissions.size >= mostPermissions) this.#permissions.clear();
    this.#permissions.set(key, { permission, untilMs: Date.now() + permissionMs });
    return permission;
  }

  /** The integration's own account. Another credential is another host here. */
  async selfOf({ host }: Pick<Asking, 'host'>): Promise<Person> {
    const known = this.#selves.get(host);
    if (known && known.untilMs > Date.now()) return known.person;
    const person = await host.self();
    this.#selves.set(host, { person, untilMs: Date.now() + permissionMs });
    return person;
  }
}

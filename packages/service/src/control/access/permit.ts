import {
  type Access,
  type Kind,
  kindTable,
  mayGiveRole,
  type Provider,
  type Role,
  type Tenant,
  tenantName,
} from '@muster/sdk/contract';
import { denied, type Refusal } from '../../domain/refusal.ts';
import type { NamedAgent } from '../agents/identify.ts';
import { nameOf, type Principal } from './principal.ts';

/**
 * Permissions, decided from the caller's key and the names in the request alone, before anything is read: a caller who
 * may not see a thing can't find out whether it exists.
 */
const sameTenant = (caller: Principal, tenant: Tenant): boolean =>
  caller.tenant.provider === tenant.provider && caller.tenant.org === tenant.org;

export const isOwner = (
  caller: Principal,
  owned: { readonly ownerProvider: Provider; readonly account: string },
): boolean => caller.ownerProvider === owned.ownerProvider && caller.account === owned.account;

/** What keys of machines may use at all; people's roles are checked below. */
const machineAccess: Partial<Record<Role, readonly Access[]>> = {
  runner: ['self', 'demand', 'runner'],
  metrics: ['self'],
  agent: ['self', 'read', 'command', 'spawn'],
  share: ['self', 'read'],
};

/** The first check, by the route alone. */
export function refuseAccess(caller: Principal, access: Access): Refusal | null {
  const machine = machineAccess[caller.role];
  if (machine && !machine.includes(access)) return denied(`a key of role ${caller.role} may not do this`);
  if (access === 'runner' && caller.role !== 'runner') return denied('only a key of role runner may do this');
  const changes = access === 'command' || access === 'spawn' || access === 'catalog-write';
  return changes && caller.role === 'viewer' ? denied('a viewer may only read') : null;
}

export const isAdmin = ({ role }: Principal): boolean => role === 'admin' || role === 'operator';

/** What a person has seen and pinned is kept in the person's own tenant. */
export const hasMarks = (caller: Principal, tenant: number): boolean =>
  machineAccess[caller.role] === undefined && caller.tenant.id === tenant;

export function refuseTenant(caller: Principal, tenant: Tenant): Refusal | null {
  if (caller.role === 'operator' || sameTenant(caller, tenant)) return null;
  return denied(
    `a key of tenant ${tenantName(caller.tenant)} can't use ${tenantName(tenant)}; only an operator's can`,
  );
}

export function refuseAgent(
  caller: Principal,
  access: 'read' | 'command' | 'spawn',
  agent: NamedAgent,
): Refusal | null {
  const foreign = refuseTenant(caller, agent.tenant);
  if (foreign) return foreign;
  switch (caller.role) {
    case 'operator':
    case 'admin':
      return null;
    case 'viewer':
      return access === 'read' ? null : denied('a viewer may only read');
    case 'member':
      return access === 'read' || isOwner(caller, agent)
        ? null
        : denied('that agent belongs to another account');
    case 'agent':
      return refuseFromRun(caller, access, agent);
    case 'share':
      return access === 'read' && isShared(caller, agent) ? null : oneAgentOnly;
    default:
      return denied(`a key of role ${caller.role} may not do this`);
  }
}

const oneAgentOnly = denied('this link shows one agent only');

/** Several agents in one reply. Of a readable agent, everyone else may read the agents below it too. */
export const refuseSeveral = (caller: Principal): Refusal | null =>
  caller.role === 'share' ? oneAgentOnly : null;

/** A run may read itself and the agents below it, and command the agents below it. */
function refuseFromRun(
  caller: Principal,
  access: 'read' | 'command' | 'spawn',
  target: NamedAgent,
): Refusal | null {
  const depth = depthBelow(caller, target);
  if (depth === null || (depth === 0 && access !== 'read'))
    return denied('a run may only reach the agents below it');
  return null;
}

/** How many levels below the run's own agent the target is; 0 is the agent itself, null is outside of its tree. */
function depthBelow(caller: Principal, target: NamedAgent): number | null {
  const own = caller.agent;
  const isInTree =
    own !== null &&
    isOwner(caller, target) &&
    target.workspace === own.workspace &&
    own.path.every((element, i) => target.path[i] === element);
  return isInTree ? target.path.length - own.path.length : null;
}

/** A run may change only the checklist of its own agent. */
export function refuseTasks(caller: Principal, agent: NamedAgent): Refusal | null {
  const isSelf = caller.role === 'agent' && depthBelow(caller, agent) === 0;
  return isSelf ? refuseTenant(caller, agent.tenant) : refuseAgent(caller, 'command', agent);
}

/** Only an agent itself may ask, finish and fail. */
export function refuseOthers(caller: Principal, agent: NamedAgent): Refusal | null {
  const foreign = refuseTenant(caller, agent.tenant);
  if (foreign) return foreign;
  const isSelf = caller.role === 'agent' && depthBelow(caller, agent) === 0;
  return isSelf ? null : denied('only a run may do this, and for its own agent');
}

const isShared = (caller: Principal, target: NamedAgent): boolean => {
  const shown = caller.agent;
  return (
    shown !== null &&
    shown.ownerProvider === target.ownerProvider &&
    shown.account === target.account &&
    shown.path.join('/') === target.path.join('/') &&
    (shown.workspace === '' || target.workspace === shown.workspace)
  );
};

/** A runner's key is for one pool. */
export const refuseDemand = (caller: Principal, pool: string): Refusal | null =>
  caller.role === 'runner' && caller.pool !== pool
    ? denied(`this key is for the pool "${caller.pool}"`)
    : null;

export function refuseResource(caller: Principal, tenant: Tenant, kind: Kind | undefined): Refusal | null {
  const foreign = refuseTenant(caller, tenant);
  if (foreign) return foreign;
  if (isAdmin(caller)) return null;
  const may = caller.role === 'member' && kind !== undefined && kindTable[kind].writers === 'members';
  return may ? null : denied(`a ${caller.role} may not write this kind of resource`);
}

/** The names of builtin personas are for admins: every agent without a persona gets the one named default. */
export const refuseBuiltinName = (caller: Principal, kind: Kind, name: string): Refusal | null =>
  caller.role === 'member'
    ? denied(`the ${kind} "${name}" is built in: only an admin may write a ${kind} of that name`)
    : null;

/**
 * A member creates a persona only under a name that was never another account's and that no workspace or integration
 * names: agents of others would get its instructions.
 */
export function refusePersonaName(
  caller: Principal,
  name: string,
  use: {
    readonly wasWritten: boolean;
    readonly last_creator: string | null;
    readonly named_by: string | null;
  },
): Refusal | null {
  if (caller.role !== 'member') return null;
  if (use.named_by)
    return denied(`the ${use.named_by} uses the persona "${name}": only an admin may create it`);
  return use.wasWritten && use.last_creator !== nameOf(caller)
    ? denied(`the persona "${name}" was another account's: only an admin may create it again`)
    : null;
}

/** A member only writes notifications about its own account, and sees only what those sent. */
export const refuseNotification = (
  caller: Principal,
  { account }: { readonly account?: unknown },
): Refusal | null =>
  caller.role !== 'member' || account === caller.account || account === nameOf(caller)
    ? null
    : denied(`this notification is not about the account ${nameOf(caller)}: a member may only use its own`);

/** A member only writes what its own account created. */
export const refuseCreator = (caller: Principal, kind: Kind, createdBy: unknown): Refusal | null =>
  caller.role !== 'member' || createdBy === nameOf(caller)
    ? null
    : denied(`this ${kind} belongs to ${createdBy}: a member may only write a ${kind} that it created`);

/**
 * A token is for its own account and for admins, and in both cases only for keys of at least its role: a key that
 * could rotate the token of a higher role would get that role.
 */
export function refuseToken(
  caller: Principal,
  token: { readonly role: Role; readonly ownerProvider: Provider; readonly account: string },
): Refusal | null {
  if (caller.role === 'member' && !isOwner(caller, token))
    return denied('a member may write only tokens of the same account');
  return mayGiveRole(caller.role, token.role)
    ? null
    : denied(`a ${caller.role} may not write a token of role ${token.role}`);
}

/** Whether the caller operates the runners of this tenant. Those of the service (0) belong to its first tenant. */
export const mayOperate = (caller: Principal, owner: number, first: number | undefined): boolean =>
  caller.role === 'operator' ||
  (caller.role === 'admin' && caller.tenant.id === (owner === 0 ? first : owner));

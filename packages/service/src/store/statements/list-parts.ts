import type { Labels } from '../../domain/agent.ts';
import type { AgentRow } from '../rows.ts';
import { hasPathBelow, isBelow } from './below.ts';

/** Where a list looks. */
export interface ListRange {
  readonly tenant: number;
  /** Null: root agents, or with `allDepths` all agents. */
  readonly parent: Pick<AgentRow, 'id' | 'root' | 'path'> | null;
  readonly allDepths: boolean;
  /** Null: of every account. Without an account: of every account under that provider. */
  readonly owner: { readonly provider: string; readonly account: string | null } | null;
  readonly includeTerminal: boolean;
  /** Of the ended ones only those that ended then or later. */
  readonly endedSince: string | null;
  readonly labels: Labels;
  /** The one of them whose agents are walked; empty without labels. */
  readonly walkedLabel: string;
  /** Only agents older than this one. */
  readonly before: string | null;
  /** Only these; for a stream that follows changes. */
  readonly ids: readonly string[] | null;
}

/** The place of a value among a statement's parameters. */
export type Bind = (name: string, value: unknown) => string;

/**
 * A part of a list that one index has. Either it has it in the list's order, and is walked until the page is full. Or
 * what it has is gathered, looked through and sorted; then that is little: one tree, or what ended lately.
 */
export interface Part {
  readonly name: string;
  /** What the index knows. */
  readonly where: readonly string[];
  /** Found through another table, which has its own part of the list's order. */
  readonly from?: string;
  /** The list's order, as the index has it. */
  readonly order?: string;
  /** What is looked for in what was gathered. */
  readonly rest?: readonly string[];
}

type Life = 'live' | 'ended' | 'any';

export function partText(
  { where, order, rest = [], from = 'agents a' }: Part,
  conditions: readonly string[],
  limit: string,
): string {
  if (order) {
    const all = [...where, ...rest, ...conditions].join(' AND ');
    return `(SELECT a.* FROM ${from} WHERE ${all} ORDER BY ${order} LIMIT ${limit})`;
  }
  // OFFSET 0 keeps the planner from other indexes, which fit what is looked for.
  return `SELECT a.* FROM (SELECT a.* FROM agents a WHERE ${where.join(' AND ')} OFFSET 0) a
    WHERE ${[...rest, ...conditions].join(' AND ')}`;
}

/** The parts of a list: live agents, and beside them those that ended lately; roots, and beside them nested ones. */
export function listParts(range: ListRange, bind: Bind): Part[] {
  const { parent, includeTerminal, endedSince, ids } = range;
  if (ids) return [namedPart(range, ids, bind)];
  const ended: readonly Life[] = endedSince === null ? ['any'] : ['live', 'ended'];
  const lives: readonly Life[] = includeTerminal ? ended : ['live'];
  return lives.flatMap((life) => {
    if (parent) return [partBelow(range, parent, life, bind)];
    if (range.walkedLabel !== '') return labelledParts(range, life, bind);
    return life === 'ended' ? [endedPart(range, bind)] : walkedParts(range, life, bind);
  });
}

export function ownerIs({ provider, account }: NonNullable<ListRange['owner']>, bind: Bind): string {
  // The expression keeps the index for one account away, which a provider alone would not narrow in the list's order.
  if (account === null) return `a.owner_provider || '' = ${bind('provider', provider)}`;
  return `a.owner_provider = ${bind('provider', provider)} AND a.account = ${bind('account', account)}`;
}

/** Whether the indexes for the lists of one account serve. */
const isOneAccount = (owner: ListRange['owner']): owner is { provider: string; account: string } =>
  owner !== null && owner.account !== null;

const newestFirst = 'a.id DESC';

const tenantIs = ({ tenant }: ListRange, bind: Bind): string => `a.tenant = ${bind('tenant', tenant)}`;

/** Indexes for lists alone are over this expression. */
const ownTenantIs = ({ tenant }: ListRange, bind: Bind): string => `a.tenant + 0 = ${bind('tenant', tenant)}`;

/** Roots, or all agents, that indexes have in the list's order. */
function walkedParts(range: ListRange, life: 'live' | 'any', bind: Bind): Part[] {
  const place = bind('tenant', range.tenant);
  const part = (depth: 'root' | 'nested', tenant: string): Part => {
    const where = [depth === 'root' ? 'a.parent IS NULL' : 'a.parent IS NOT NULL'];
    if (life === 'live') where.push('a.ended_at IS NULL');
    const name = `${depth}.${life}`;
    if (isOneAccount(range.owner))
      return { name, where: [...where, ownTenantIs(range, bind)], order: newestFirst };
    // One tenant, said as a range and sorted: that does not fit the index over the ids of all tenants.
    where.push(`${tenant} BETWEEN ${place} AND ${place}`);
    return { name, where, order: `${tenant}, ${newestFirst}` };
  };
  const roots = part('root', 'a.tenant');
  return range.allDepths ? [roots, part('nested', 'a.tenant + 0')] : [roots];
}

/** Agents that have one of the labels, in the list's order. The other labels are compared. */
function labelledParts(range: ListRange, life: Life, bind: Bind): Part[] {
  const where = [
    `l.tenant = ${bind('tenant', range.tenant)}`,
    `l.key = ${bind('labelKey', range.walkedLabel)}`,
    `l.value = ${bind('labelValue', range.labels[range.walkedLabel])}`,
  ];
  if (range.before !== null) where.push(`l.agent < ${bind('before', range.before)}`);
  const rest = [depthIs(range, bind)];
  if (life === 'ended') rest.push(`a.ended_at >= ${bind('endedSince', range.endedSince)}`);
  const depth = range.allDepths ? 'all' : 'root';
  const part = (isLive: boolean): Part => ({
    name: `${depth}.${life}.labelled.${isLive}`,
    from: `labels l CROSS JOIN LATERAL (
      SELECT * FROM agents a WHERE a.tenant = l.tenant AND a.id = l.agent OFFSET 0
    ) a`,
    where: [...where, `l.is_live = ${isLive}`],
    order: 'l.agent DESC',
    rest,
  });
  return { live: [part(true)], ended: [part(false)], any: [part(true), part(false)] }[life];
}

/** What ended lately. */
function endedPart(range: ListRange, bind: Bind): Part {
  const { owner, allDepths } = range;
  const tenant = isOneAccount(owner)
    ? [ownTenantIs(range, bind), ownerIs(owner, bind)]
    : [tenantIs(range, bind)];
  const where = [...tenant, 'a.current', `a.ended_at >= ${bind('endedSince', range.endedSince)}`];
  const name = `${allDepths ? 'all' : 'root'}.ended`;
  return { name, where, rest: [depthIs(range, bind)] };
}

/** Children, or everything below. */
function partBelow(range: ListRange, parent: NonNullable<ListRange['parent']>, life: Life, bind: Bind): Part {
  const { allDepths, endedSince } = range;
  const name = `${allDepths ? 'below' : 'child'}.${life}`;
  const rest = [tenantIs(range, bind), depthIs(range, bind)];
  if (life === 'any' && !allDepths) return { name, where: rest, order: newestFirst };
  const tree = [`a.root = ${bind('root', parent.root)}`, 'a.parent IS NOT NULL'];
  const lives = {
    live: () => 'a.ended_at IS NULL',
    ended: () => `a.ended_at >= ${bind('endedSince', endedSince)}`,
    any: () => hasPathBelow('a', `${bind('path', parent.path)}::text`),
  };
  return { name, where: [...tree, lives[life]()], rest };
}

/** Those of these agents that are in the range, whether they have ended or not. */
function namedPart(range: ListRange, ids: readonly string[], bind: Bind): Part {
  const name = `${range.allDepths ? 'all' : 'level'}${range.parent ? '.below' : ''}.named`;
  const where = [tenantIs(range, bind), `a.id = ANY (${bind('ids', ids)}::uuid[])`];
  return { name, where, rest: [depthIs(range, bind)] };
}

function depthIs({ parent, allDepths }: ListRange, bind: Bind): string {
  if (!parent) return allDepths ? 'true' : 'a.parent IS NULL';
  const id = bind('parent', parent.id);
  return allDepths ? isBelow('a', id) : `a.parent = ${id}`;
}

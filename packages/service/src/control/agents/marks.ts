import { type BodyOf, tenantName } from '@muster/sdk/contract';
import type pg from 'pg';
import { denied, isRefusal } from '../../domain/refusal.ts';
import { deleteSurplusMarks, saveMarks } from '../../store/statements/marks.ts';
import type { Operation } from '../operation.ts';
import { readerOf, type Wakes } from '../watching/wakes.ts';
import { nameTenant } from './identify.ts';
import type { Targets } from './targets.ts';

export interface MarksOptions {
  readonly database: pg.Pool;
  readonly targets: Targets;
  readonly wakes: Pick<Wakes, 'perform'>;
}

type Mark = Pick<BodyOf<'markAgents'>['marks'][number], 'seen' | 'pinned'>;

/** What people have seen and pinned. All browsers of a person show it, through their lists. */
export class Marks {
  readonly #options: MarksOptions;

  constructor(options: MarksOptions) {
    this.#options = options;
  }

  readonly markAgents: Operation<'markAgents'> = async (caller, { marks }) => {
    const { database, targets, wakes } = this.#options;
    const tenants = marks.map(({ agentId }) => nameTenant(agentId.tenant, caller));
    if (tenants.some((tenant) => tenantName(tenant) !== tenantName(caller.tenant)))
      return denied('you can mark only agents of your own tenant');
    const found = await Promise.all(
      marks.map(({ agentId }, i) => targets.find(caller, agentId, `marks[${i}].agentId.agent`)),
    );
    const changes = new Map<string, Mark>();
    for (const [i, agent] of found.entries()) {
      if (isRefusal(agent)) {
        if (agent.status === 'NOT_FOUND') continue;
        return agent;
      }
      const { seen, pinned } = marks[i] ?? {};
      const before = changes.get(agent.id);
      changes.set(agent.id, { seen: seen ?? before?.seen, pinned: pinned ?? before?.pinned });
    }
    if (changes.size === 0) return {};
    const account = [caller.tenant.id, caller.ownerProvider, caller.account] as const;
    const saved = await saveMarks(
      database,
      ...account,
      [...changes.keys()],
      [...changes.values()].map(({ seen }) => (seen === undefined ? null : sequenceIn(seen))),
      [...changes.values()].map(({ pinned }) => pinned ?? null),
    );
    if (saved.some((row) => row.is_new)) await deleteSurplusMarks(database, ...account);
    const reader = readerOf({ provider: caller.ownerProvider, account: caller.account });
    wakes.perform(saved.map(({ agent: id }) => ({ type: 'marked', tenant: caller.tenant.id, id, reader })));
    return {};
  };
}

const sequenceIn = (value: string | number): number =>
  Math.max(0, Math.min(Number(value), Number.MAX_SAFE_INTEGER));

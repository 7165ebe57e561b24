import type { BodyOf, ReplyOf, ScheduleFire, Tenant } from '@muster/sdk/contract';
import { limits } from '@muster/sdk/contract';
import { invalid, isRefusal, notFound, precondition, type Refusal } from '../../domain/refusal.ts';
import { mintId } from '../../lib/ids.ts';
import {
  type FireRow,
  listFires,
  noteEffect,
  readSchedule,
  recordFire,
} from '../../store/statements/schedules.ts';
import { actingCaller, mayNotAct } from '../access/acting-caller.ts';
import { refuseCreator, refuseResource } from '../access/permit.ts';
import type { Principal } from '../access/principal.ts';
import type { Tenants } from '../access/tenants.ts';
import { nameTenant } from '../agents/identify.ts';
import type { PageTokens } from '../agents/page-tokens.ts';
import { agentIdOf } from '../agents/views.ts';
import { type FireOptions, FireSchedules, fireOf, settledOf } from './fire-schedules.ts';
import { startWork } from './start-work.ts';

export interface SchedulesOptions extends FireOptions {
  readonly tenants: Tenants;
  readonly pageTokens: PageTokens;
}

const missingName = invalid('name', 'is required: the name of a schedule');

/** What people do with schedules, beside writing them: fire one now, and see what fired. */
export class Schedules {
  /** Does what is due. */
  readonly due: FireSchedules;
  readonly #options: SchedulesOptions;

  constructor(options: SchedulesOptions) {
    this.#options = options;
    this.due = new FireSchedules(options);
  }

  /** As its creator. That it was asked for changes neither its next time nor the failures in a row. */
  async run(
    caller: Principal,
    { tenant: input, name = '' }: BodyOf<'runSchedule'>,
  ): Promise<ReplyOf<'runSchedule'> | Refusal> {
    const { database, tenants, metrics } = this.#options;
    if (!name) return missingName;
    const denied = refuseResource(caller, nameTenant(input, caller), 'schedule');
    if (denied) return denied;
    const tenant = await tenants.named(input, caller);
    if (isRefusal(tenant)) return tenant;
    const [row] = await readSchedule(database, tenant, name);
    if (!row) return notFound(`schedule "${name}" not found`);
    const { createdBy } = row.document;
    const refused = refuseCreator(caller, 'schedule', createdBy);
    if (refused) return refused;
    const as = await actingCaller(database, tenant, String(createdBy), `schedule/${name}`);
    if (mayNotAct(as)) return precondition('CREATOR', name, `${as.mayNotAct}, so its schedule can't fire`);
    const fire = { ...fireOf(row, Date.parse(row.now)), spawnId: mintId() };
    const started = await startWork(this.#options, as, fire);
    if (isRefusal(started)) return started;
    const settled = settledOf(started);
    const { agent, followUpId } = settled;
    if (agent) await noteEffect(database, tenant, name, agent, followUpId);
    const at = await recordFire(database, {
      ...{ ...settled, tenant, schedule: name, scheduledAt: row.now, times: 1, manual: true },
    });
    metrics.add('muster_schedule_fires_total', { outcome: settled.outcome });
    const [shown] = await listFires(database, tenant, name, 'infinity', 'infinity', 1);
    return shown && at
      ? fireShown(shown, await tenants.name(tenant))
      : notFound(`schedule "${name}" was deleted`);
  }

  async history(
    caller: Principal,
    { tenant: input, name = '', pageSize, pageToken }: BodyOf<'scheduleHistory'>,
  ): Promise<ReplyOf<'scheduleHistory'> | Refusal> {
    const { database, tenants, pageTokens } = this.#options;
    if (!name) return missingName;
    const tenant = await tenants.named(input, caller);
    if (isRefusal(tenant)) return tenant;
    const list = `schedule/${tenant}/${name}`;
    const place = pageToken ? pageTokens.open(list, pageToken) : '';
    if (isRefusal(place)) return place;
    const [at = 'infinity', scheduledAt = 'infinity'] = place ? (JSON.parse(place) as string[]) : [];
    const limit = pageSize || limits.pageSize;
    const rows = await listFires(database, tenant, name, at, scheduledAt, limit + 1);
    if (rows.length === 0 && !pageToken && !(await readSchedule(database, tenant, name))[0])
      return notFound(`schedule "${name}" not found`);
    const shown = rows.slice(0, limit);
    const last = shown.at(-1);
    const next = last && rows.length > limit ? JSON.stringify([last.at, last.scheduled_at]) : '';
    const tenantName = await tenants.name(tenant);
    return {
      entries: shown.map((row) => fireShown(row, tenantName)),
      nextPageToken: next && pageTokens.seal(list, next),
    };
  }
}

const fireShown = (row: FireRow, tenant: Tenant): ScheduleFire => ({
  scheduledAt: row.scheduled_at,
  at: row.at,
  outcome: row.outcome,
  reason: row.reason,
  times: row.times,
  manual: row.manual,
  agentId:
    row.path === null
      ? null
      : agentIdOf(
          tenant,
          {
            owner_provider: row.owner_provider ?? 'PROVIDER_UNSPECIFIED',
            account: row.account ?? '',
            workspace: row.workspace ?? '',
          },
          row.path.split('/'),
        ),
  followUpId: row.follow_up_id,
});

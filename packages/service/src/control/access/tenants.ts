import type { Tenant } from '@muster/sdk/contract';
import type pg from 'pg';
import { notFound, type Refusal } from '../../domain/refusal.ts';
import type { AgentKey } from '../../store/agent-store.ts';
import {
  createTenant,
  findTenant,
  firstTenant,
  readTenants,
  tenantOfAgent,
} from '../../store/statements/tenants.ts';
import { nameTenant, type TenantInput } from '../agents/identify.ts';
import { refuseTenant } from './permit.ts';
import type { Principal } from './principal.ts';

const maxAgents = 10_000;

/** The names and numbers of tenants, and the tenants of agents. They never change, so they are cached. */
export class Tenants {
  readonly #database: pg.Pool;
  readonly #ids = new Map<string, number>();
  readonly #names = new Map<number, Tenant>();
  readonly #ofAgents = new Map<string, number>();
  #first: number | undefined;

  constructor(database: pg.Pool) {
    this.#database = database;
  }

  async find(tenant: Tenant): Promise<number | undefined> {
    const key = `${tenant.provider}/${tenant.org}`;
    const known = this.#ids.get(key);
    if (known !== undefined) return known;
    const [row] = await findTenant(this.#database, tenant.provider, tenant.org);
    if (row) this.#remember(row.id, tenant);
    return row?.id;
  }

  /** Refused if the tenant does not exist; only an operator can name one that is not its own. */
  async existing(tenant: Tenant): Promise<number | Refusal> {
    return (
      (await this.find(tenant)) ?? notFound(`the tenant ${tenant.provider}/${tenant.org} does not exist`)
    );
  }

  /** The tenant that a request names, if the caller may ask for it. */
  async named(input: TenantInput, caller: Principal): Promise<number | Refusal> {
    const name = nameTenant(input, caller);
    return refuseTenant(caller, name) ?? this.existing(name);
  }

  async create(tenant: Tenant): Promise<number> {
    const known = await this.find(tenant);
    if (known !== undefined) return known;
    const [row] = await createTenant(this.#database, tenant.provider, tenant.org);
    if (!row) throw new Error('the tenant was not created');
    this.#remember(row.id, tenant);
    return row.id;
  }

  async name(id: number): Promise<Tenant> {
    const known = this.#names.get(id);
    if (known) return known;
    const [row] = await readTenants(this.#database, [id]);
    if (!row) throw new Error(`no tenant ${id}`);
    this.#remember(id, { provider: row.provider, org: row.org });
    return { provider: row.provider, org: row.org };
  }

  /** The tenant that the first start created. */
  async first(): Promise<number | undefined> {
    this.#first ??= (await firstTenant(this.#database))[0]?.id;
    return this.#first;
  }

  /** A runner of one tenant names agents of that tenant; the service's own serves all, so its tenant is looked up. */
  async agentKey(runnerTenant: number, id: string): Promise<AgentKey | undefined> {
    if (runnerTenant !== 0) return { tenant: runnerTenant, id };
    const tenant = this.#ofAgents.get(id) ?? (await tenantOfAgent(this.#database, id))[0]?.tenant;
    if (tenant === undefined) return undefined;
    if (this.#ofAgents.size >= maxAgents) this.#ofAgents.clear();
    this.#ofAgents.set(id, tenant);
    return { tenant, id };
  }

  #remember(id: number, { provider, org }: Tenant): void {
    this.#ids.set(`${provider}/${org}`, id);
    this.#names.set(id, { provider, org });
  }
}

import type { BodyOf, ReplyOf, SignInAttempt } from '@muster/sdk/contract';
import type pg from 'pg';
import { refuseResource } from '../control/access/permit.ts';
import type { Principal } from '../control/access/principal.ts';
import type { Tenants } from '../control/access/tenants.ts';
import { nameTenant, type TenantInput } from '../control/agents/identify.ts';
import type { Catalog } from '../control/catalog/catalog.ts';
import type { Control } from '../control/control.ts';
import { isRefusal, notFound, type Refusal, tooSoon } from '../domain/refusal.ts';
import { listSignIns, type SignInRow } from '../store/statements/sign-ins.ts';
import type { SignInDocuments } from './documents.ts';
import { problemOf } from './provider.ts';

export interface AdministrationOptions {
  readonly database: pg.Pool;
  readonly control: Pick<Control, 'catalog'>;
  readonly tenants: Tenants;
  readonly documents: SignInDocuments;
}

/** A provider may count wrong codes. */
const testEveryMs = 2_000;
const mostRemembered = 1_000;

/** What admins see of a document of the kind sign-in: whether it works, and who signed in with it. */
export class Administration {
  readonly #options: AdministrationOptions;
  readonly #testedMs = new Map<string, number>();

  constructor(options: AdministrationOptions) {
    this.#options = options;
  }

  async list(
    caller: Principal,
    { tenant: input, name = '', outcomes = [] }: BodyOf<'listSignIns'>,
  ): Promise<ReplyOf<'listSignIns'> | Refusal> {
    const tenant = await this.#tenant(caller, input, name);
    if (isRefusal(tenant)) return tenant;
    const rows = await listSignIns(this.#options.database, tenant, name, outcomes);
    return { entries: rows.map(viewOf) };
  }

  async test(
    caller: Principal,
    { tenant: input, name = '' }: BodyOf<'testSignIn'>,
  ): Promise<ReplyOf<'testSignIn'> | Refusal> {
    const tenant = await this.#tenant(caller, input, name);
    if (isRefusal(tenant)) return tenant;
    if (!this.#mayTest(`${tenant}/${name}`))
      return tooSoon(`the sign-in "${name}" was tested a moment ago`, 2);
    const named = nameTenant(input, caller);
    try {
      const opened = await this.#options.documents.open(named, name);
      if (!opened) return notFound(`sign-in "${name}" not found`);
      const { provider, redirectUri } = opened;
      return { redirectUri, checks: await provider.check(redirectUri) };
    } catch (error) {
      return { redirectUri: '', checks: [{ name: 'document', ok: false, advice: problemOf(error) }] };
    }
  }

  #mayTest(key: string): boolean {
    const nowMs = Date.now();
    if (nowMs - (this.#testedMs.get(key) ?? 0) < testEveryMs) return false;
    if (this.#testedMs.size >= mostRemembered) this.#testedMs.clear();
    this.#testedMs.set(key, nowMs);
    return true;
  }

  async #tenant(caller: Principal, input: TenantInput, name: string): Promise<number | Refusal> {
    const refused = refuseResource(caller, nameTenant(input, caller), 'sign-in');
    if (refused) return refused;
    const tenant = await this.#options.tenants.named(input, caller);
    if (isRefusal(tenant)) return tenant;
    const catalog: Catalog = this.#options.control.catalog;
    return (await catalog.document(tenant, 'sign-in', name))
      ? tenant
      : notFound(`sign-in "${name}" not found`);
  }
}

const viewOf = (row: SignInRow): SignInAttempt => ({
  ...{ id: row.id, at: row.at, outcome: row.outcome, reason: row.reason },
  ...{ ownerProvider: row.owner_provider, account: row.account, displayName: row.display_name },
  ...{ subject: row.subject, role: row.role },
  rule: row.rule ? `${row.rule.allow}; ${row.rule.role}` : '',
  claims: row.claims ?? {},
});

import type { BodyOf, Delivery, ReplyOf } from '@muster/sdk/contract';
import { limits } from '@muster/sdk/contract';
import type pg from 'pg';
import { refuseResource } from '../control/access/permit.ts';
import type { Principal } from '../control/access/principal.ts';
import type { TenantInput } from '../control/agents/identify.ts';
import { nameTenant } from '../control/agents/identify.ts';
import { webhookUrlOf } from '../control/catalog/kinds/integration.ts';
import type { Control } from '../control/control.ts';
import { invalid, isRefusal, notFound, type Refusal } from '../domain/refusal.ts';
import { readProblems } from '../store/statements/change-requests.ts';
import { type DeliveryRow, listDeliveries, repeatDelivery } from '../store/statements/deliveries.ts';
import { readUnposted, releaseItems } from '../store/statements/outbox.ts';
import { HostError } from '../work/host-error.ts';
import { withinBudget } from '../work/reply-budget.ts';
import type { RepoPath } from './host.ts';
import { covers, type Integration, IntegrationError, type Integrations } from './integrations.ts';
import { workspaceOf } from './workspace-of.ts';

export interface AdministrationOptions {
  readonly database: pg.Pool;
  readonly control: Control;
  readonly publicUrl: () => string;
  readonly integrations: Integrations;
  readonly onRedelivery: () => void;
}

const shownProblems = 3;

/** What admins do with an integration: test it, list its deliveries and process one again. */
export class Administration {
  readonly #options: AdministrationOptions;

  constructor(options: AdministrationOptions) {
    this.#options = options;
  }

  async deliveries(
    caller: Principal,
    { tenant: input, name = '', states = [], pageSize, pageToken }: BodyOf<'listDeliveries'>,
  ): Promise<ReplyOf<'listDeliveries'> | Refusal> {
    const tenant = await this.#administered(caller, input, name);
    if (isRefusal(tenant)) return tenant;
    const { database, control } = this.#options;
    const list = `deliveries/${tenant}/${name}`;
    const place = pageToken ? control.pageTokens.open(list, pageToken) : '';
    if (isRefusal(place)) return place;
    const [at = 'infinity', id = ''] = place ? (JSON.parse(place) as string[]) : [];
    const limit = pageSize || limits.pageSize;
    const rows = await listDeliveries(database, tenant, name, states, at, id, limit + 1);
    const shown = rows.slice(0, limit);
    const last = shown.at(-1);
    const next = rows.length > limit && last ? JSON.stringify([last.received_at, last.id]) : '';
    return { entries: shown.map(deliveryOf), nextPageToken: next && control.pageTokens.seal(list, next) };
  }

  async redeliver(
    caller: Principal,
    { tenant: input, name = '', deliveryId = '' }: BodyOf<'redeliver'>,
  ): Promise<Delivery | Refusal> {
    const tenant = await this.#administered(caller, input, name);
    if (isRefusal(tenant)) return tenant;
    if (!deliveryId) return invalid('deliveryId', 'is required: the id of a delivery');
    const [row] = await repeatDelivery(this.#options.database, tenant, name, deliveryId);
    if (!row) return notFound(`the integration "${name}" has no delivery "${deliveryId}" whose body is kept`);
    this.#options.onRedelivery();
    return deliveryOf(row);
  }

  /** Checks the credential, its permissions and the webhook, and says what is missing. */
  test(caller: Principal, body: BodyOf<'testIntegration'>): Promise<ReplyOf<'testIntegration'> | Refusal> {
    return withinBudget(() => this.#test(caller, body));
  }

  async #test(
    caller: Principal,
    { tenant: input, name = '' }: BodyOf<'testIntegration'>,
  ): Promise<ReplyOf<'testIntegration'> | Refusal> {
    const tenant = await this.#administered(caller, input, name);
    if (isRefusal(tenant)) return tenant;
    const { database, control } = this.#options;
    const document = await control.catalog.document(tenant, 'integration', name);
    const webhookUrl = webhookUrlOf(this.#options.publicUrl(), String(document?.webhookUrl ?? ''));
    const checks: Check[] = [];
    let account = '';
    try {
      const integration = await this.#options.integrations.open(tenant, name);
      account = (await integration.host.self()).login;
      checks.push({ name: 'credential', ok: true, advice: '' });
      const repos = (await integration.host.repositories()).filter((repo) => covers(integration.repos, repo));
      const advice = 'Give the credential access to a repository that `repos` of the integration covers.';
      checks.push({ name: 'repositories', ok: repos.length > 0, advice: repos.length > 0 ? '' : advice });
      const [first] = repos;
      const needed = first ? await integration.host.requirements(first) : [];
      checks.push(
        ...needed.map((one) => ({ name: one.name, ok: one.isMet, advice: one.isMet ? '' : one.advice })),
        ...(await this.#ofTriggers(integration, account, repos)),
      );
    } catch (error) {
      if (!(error instanceof HostError || error instanceof IntegrationError)) throw error;
      const advice = isUnaccepted(error) ? `${error.message}. ${newCredential}` : error.message;
      checks.push({ name: account ? 'host' : 'credential', ok: false, advice });
    }
    // What waited for a permission is posted now.
    const isReleased = checks.every(({ ok }) => ok);
    checks.push(...(await this.#problems(tenant, name, isReleased)));
    if (isReleased) await releaseItems(database, tenant, name, null);
    this.#options.onRedelivery();
    const [delivery] = await listDeliveries(database, tenant, name, [], 'infinity', '', 1);
    checks.push({
      name: 'webhook',
      ok: delivery !== undefined,
      advice: delivery ? '' : `No delivery has arrived yet. Add the webhook ${webhookUrl} at the host.`,
    });
    return { account, webhookUrl, checks };
  }

  /** Whether issues of the repositories start agents of this integration, and with the repository. */
  async #ofTriggers(integration: Integration, account: string, repos: readonly RepoPath[]): Promise<Check[]> {
    const { control, integrations } = this.#options;
    const { url, triggers } = integration;
    const isTriggered = triggers.label !== '' || triggers.mention !== '' || triggers.assigned;
    if (!isTriggered || repos.length === 0) return [];
    const taken = new Map<string, RepoPath[]>();
    const unlisted: RepoPath[] = [];
    for (const repo of repos) {
      for (const other of await integrations.before(integration, repo))
        if (await sharesTrigger(triggers, account, other))
          taken.set(other.name, [...(taken.get(other.name) ?? []), repo]);
      if (!(await workspaceOf(control.catalog, integration, repo))) unlisted.push(repo);
    }
    const others = [...taken].map(
      ([other, paths]) => `"${other}" has the same trigger in ${some(paths)}, and takes precedence.`,
    );
    const overlap = `${others.join(' ')} Change \`triggers\` or \`repos\` of one of the integrations.`;
    const add = `Issues in ${some(unlisted)} start no agents, because no workspace lists the repository. Add the URL, such as ${url}/${unlisted[0]}.git, to \`repos\` of a workspace.`;
    return [
      { name: 'triggers', ok: taken.size === 0, advice: taken.size === 0 ? '' : overlap },
      // Others may be covered only so that they can be added later.
      { name: 'workspace', ok: unlisted.length < repos.length, advice: unlisted.length === 0 ? '' : add },
    ];
  }

  /** Recent failures at the host; empty if there were none. */
  async #problems(tenant: number, name: string, isReleased: boolean): Promise<Check[]> {
    const { database } = this.#options;
    const unposted = await readUnposted(database, tenant, name, shownProblems);
    const problems = await readProblems(database, tenant, name, shownProblems);
    return [
      ...unposted.map(({ kind, repo, error, waits }) => ({
        name: 'posts',
        ok: false,
        advice: `${kind} in ${repo} was not posted: ${error}${waits && isReleased ? '. It is tried again now.' : ''}`,
      })),
      ...problems.map(({ repo, number, problem }) => ({
        ...{ name: 'comparison', ok: false, advice: `${repo}#${number}: ${problem}` },
      })),
    ];
  }

  /** The tenant of an integration that the caller may administer. */
  async #administered(caller: Principal, input: TenantInput, name: string): Promise<number | Refusal> {
    if (!name) return invalid('name', 'is required: the name of an integration');
    const { tenants, catalog } = this.#options.control;
    const tenant =
      refuseResource(caller, nameTenant(input, caller), 'integration') ??
      (await tenants.named(input, caller));
    if (isRefusal(tenant) || (await catalog.document(tenant, 'integration', name))) return tenant;
    return notFound(`integration "${name}" not found`);
  }
}

type Check = ReplyOf<'testIntegration'>['checks'][number];

type Earlier = Awaited<ReturnType<Integrations['before']>>[number];

async function sharesTrigger(
  { label, mention, assigned }: Integration['triggers'],
  account: string,
  { triggers, account: accountOf }: Earlier,
): Promise<boolean> {
  return (
    (label !== '' && label === triggers.label) ||
    (mention !== '' && mention.toLowerCase() === triggers.mention.toLowerCase()) ||
    (assigned && triggers.assigned && (await accountOf()) === account)
  );
}

const mostNamed = 3;

const some = (repos: readonly RepoPath[]): string => {
  const more = repos.length - mostNamed;
  return `${repos.slice(0, mostNamed).join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
};

const isUnaccepted = (error: Error): boolean => error instanceof HostError && error.status === 401;
const newCredential =
  'The host does not accept the credential: create a new one and write it to the secret that the integration names.';

const deliveryOf = (row: DeliveryRow): Delivery => ({
  deliveryId: row.id,
  event: row.event,
  subject: row.subject,
  state: row.state,
  reason: row.reason,
  attempts: row.attempts,
  bytes: row.bytes,
  receivedAt: row.received_at,
  settledAt: row.settled_at,
});

import { type BodyOf, coversRepo, type Delivery, type ReplyOf } from '@muster/sdk/contract';
import type { Principal } from '../control/access/principal.ts';
import { hookUrl } from '../control/catalog/kinds/hooks.ts';
import { deliveryOf, Ledger, type LedgerOptions } from '../deliveries/ledger.ts';
import { isRefusal, type Refusal } from '../domain/refusal.ts';
import { readProblems } from '../store/statements/change-requests.ts';
import { listDeliveries } from '../store/statements/deliveries.ts';
import { readUnposted, releaseItems } from '../store/statements/outbox.ts';
import { HostError } from '../work/host-error.ts';
import { withinBudget } from '../work/reply-budget.ts';
import type { RepoPath } from './host.ts';
import { type Integration, IntegrationError, type Integrations } from './integrations.ts';
import { workspaceOf } from './workspace-of.ts';

export interface AdministrationOptions extends LedgerOptions {
  readonly publicUrl: () => string;
  readonly integrations: Integrations;
}

const shownProblems = 3;

/** What admins do with an integration: test it, list its deliveries and process one again. */
export class Administration {
  readonly #options: AdministrationOptions;
  readonly #ledger: Ledger;

  constructor(options: AdministrationOptions) {
    this.#options = options;
    this.#ledger = new Ledger(options, 'integration');
  }

  async deliveries(
    caller: Principal,
    body: BodyOf<'listDeliveries'>,
  ): Promise<ReplyOf<'listDeliveries'> | Refusal> {
    const page = await this.#ledger.list(caller, body);
    if (isRefusal(page)) return page;
    return { entries: page.rows.map(deliveryOf), nextPageToken: page.nextPageToken };
  }

  async redeliver(caller: Principal, body: BodyOf<'redeliver'>): Promise<Delivery | Refusal> {
    const found = await this.#ledger.redeliver(caller, body);
    return isRefusal(found) ? found : deliveryOf(found.row);
  }

  /** Checks the credential, its permissions and the webhook, and says what is missing. */
  test(caller: Principal, body: BodyOf<'testIntegration'>): Promise<ReplyOf<'testIntegration'> | Refusal> {
    return withinBudget(() => this.#test(caller, body));
  }

  async #test(
    caller: Principal,
    { tenant: input, name = '' }: BodyOf<'testIntegration'>,
  ): Promise<ReplyOf<'testIntegration'> | Refusal> {
    const found = await this.#ledger.administered(caller, input, name);
    if (isRefusal(found)) return found;
    const { tenant, document } = found;
    const { database } = this.#options;
    const webhookUrl = hookUrl(this.#options.publicUrl(), String(document.webhookUrl ?? ''));
    const checks: Check[] = [];
    let account = '';
    try {
      const integration = await this.#options.integrations.open(tenant, name);
      account = (await integration.host.self()).login;
      checks.push({ name: 'credential', ok: true, advice: '' });
      const repos = (await integration.host.repositories()).filter((repo) =>
        coversRepo(integration.repos, repo),
      );
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

import type { BodyOf, ChangeRequest, ReplyOf } from '@muster/sdk/contract';
import type pg from 'pg';
import type { Principal } from '../control/access/principal.ts';
import { changeRequestOf } from '../control/agents/views.ts';
import type { Control } from '../control/control.ts';
import { invalid, isRefusal, precondition, type Refusal } from '../domain/refusal.ts';
import { spread } from '../lib/back-off.ts';
import { readRepos } from '../lib/repositories.ts';
import { withWakeSignal } from '../lib/wake-signal.ts';
import type { AgentKey } from '../store/agent-store.ts';
import {
  askByName,
  type ChangeRequestRow,
  findChangeRequests,
  findTriggers,
  readChangeRequestsOf,
  readPushedTip,
  type ShownChangeRequest,
} from '../store/statements/change-requests.ts';
import { readItem } from '../store/statements/outbox.ts';
import {
  branchesOf,
  type PushedBranch,
  postponePushedBranch,
  settlePushedBranch,
} from '../store/statements/pushed-branches.ts';
import { HostError } from '../work/host-error.ts';
import type { Worker } from '../work/work-loop.ts';
import type { NewChangeRequest } from './host.ts';
import { type Integration, IntegrationError, type Integrations } from './integrations.ts';
import { writeItem } from './items.ts';
import { requestEnding, titleOf } from './messages.ts';

export interface OpenChangeRequestsOptions {
  readonly database: pg.Pool;
  readonly control: Control;
  readonly integrations: Integrations;
  /** Events of a change request within this time lead to one comparison. */
  readonly collectMs: number;
  /** Called when an item of the outbox was written. */
  readonly onItem: () => void;
  /** Ends the calls that wait. */
  readonly signal: AbortSignal;
}

/** How long a caller waits for the host. The work goes on after that. */
const openWaitMs = 15_000;
const retryMs = 60_000;

/** The place of an agent's branch at its host. */
interface Place {
  readonly integration: Integration;
  readonly repo: string;
}

type Wanted = Omit<BodyOf<'openChangeRequest'>, 'agentId' | 'repo'> & { readonly isAsked?: boolean };
type Reply = ReplyOf<'openChangeRequest'> | Refusal;

/** Opens change requests for branches that agents have pushed: when somebody asks, or when the run has ended. */
export class OpenChangeRequests implements Worker<PushedBranch> {
  readonly #options: OpenChangeRequestsOptions;

  constructor(options: OpenChangeRequestsOptions) {
    this.#options = options;
  }

  /** Opens a change request for a branch, if its integration does that by itself. */
  async work(row: PushedBranch): Promise<void> {
    const { database } = this.#options;
    const key = [row.tenant, row.repo, row.branch] as const;
    try {
      await this.#openIfAutomatic(row);
      await settlePushedBranch(database, ...key);
    } catch (error) {
      await postponePushedBranch(database, ...key, spread(retryMs));
      if (!(error instanceof HostError || error instanceof IntegrationError)) throw error;
    }
  }

  async giveUp({ tenant, repo, branch, agent: id }: PushedBranch, reason: string): Promise<void> {
    const { database, control } = this.#options;
    await settlePushedBranch(database, tenant, repo, branch);
    const text = `No change request was opened from ${branch} of ${repo}: ${reason}`;
    await control.transact.command({ key: { tenant, id } }, { type: 'warn', text });
  }

  async #openIfAutomatic(row: PushedBranch): Promise<void> {
    const place = await this.#options.integrations.ofAgent(row);
    if (!place) return;
    const { changeRequests, paused } = place.integration;
    const known = await this.#recorded(place, row);
    const [newest] = known;
    const opens = changeRequests === 'auto' || changeRequests === 'draft';
    if (opens && !paused && (!newest || (await this.#hasMoreThanMerged(place, row, newest))))
      await this.#ask(place, row, { draft: changeRequests === 'draft' }, known.length);
  }

  /**
   * Whether the agent has pushed something since its change request was merged. A change request that a person has
   * closed is not opened again.
   */
  async #hasMoreThanMerged(
    { integration }: Place,
    { tenant, agent, repo }: PushedBranch,
    newest: ShownChangeRequest,
  ): Promise<boolean> {
    const { state, headSha } = await this.#stateOf(integration, newest);
    if (state !== 'MERGED') return false;
    const [pushed] = await readPushedTip(this.#options.database, tenant, agent, repo);
    return pushed?.tip !== headSha;
  }

  /** Opens a change request from the branch that the agent has pushed. If one is open already, returns that. */
  async open(caller: Principal, { agentId, repo, ...request }: BodyOf<'openChangeRequest'>): Promise<Reply> {
    const agent = await this.#options.control.targets.commandable(caller, agentId);
    if (isRefusal(agent)) return agent;
    const branch = await this.#branchOf(agent, agent.path, repo);
    if (isRefusal(branch)) return branch;
    try {
      const place = await this.#placeOf(branch);
      if (isRefusal(place)) return place;
      const known = await this.#recorded(place, branch);
      for (const one of known) {
        const { state } = await this.#stateOf(place.integration, one);
        if (state === 'OPEN' || state === 'DRAFT') return { changeRequest: await this.#view(one) };
      }
      const key = await this.#ask(place, branch, { ...request, isAsked: true }, known.length);
      return await this.#opened(agent, key, branch);
    } catch (error) {
      if (error instanceof HostError || error instanceof IntegrationError)
        return precondition('CODE_HOST', branch.repo, error.message);
      throw error;
    }
  }

  /** The branch that the agent has pushed, to this repository if it is named. */
  async #branchOf(
    { tenant, id }: AgentKey,
    path: string,
    wanted: string | undefined,
  ): Promise<PushedBranch | Refusal> {
    const all = await branchesOf(this.#options.database, tenant, id);
    if (all.length === 0)
      return precondition('NOTHING_PUSHED', path, `the agent ${path} has not pushed a branch`);
    const [branch, ...others] = all.filter(({ repo }) => !wanted || repo === wanted);
    if (branch && others.length === 0) return branch;
    const repos = all.map(({ repo }) => repo).join(', ');
    return invalid(
      'repo',
      `must be a repository that the agent pushed to: ${repos}${wanted ? `; got ${wanted}` : ''}`,
    );
  }

  async #placeOf(branch: PushedBranch): Promise<Place | Refusal> {
    const place = await this.#options.integrations.ofAgent(branch);
    if (!place)
      return precondition(
        'NO_INTEGRATION',
        branch.repo,
        `no integration covers ${branch.repo}; add one, or the repository to its \`repos\``,
      );
    const { name, changeRequests } = place.integration;
    const isOff = changeRequests === 'off';
    const text = `the integration "${name}" has changeRequests: off`;
    return isOff ? precondition('NO_INTEGRATION', branch.repo, text) : place;
  }

  /** The records of change requests from a branch, the newest first. */
  #recorded({ integration, repo }: Place, { tenant, branch }: PushedBranch): Promise<ShownChangeRequest[]> {
    return findChangeRequests(this.#options.database, tenant, integration.name, repo, branch);
  }

  /** An open record may be outdated: the delivery about the merge may be missing. */
  async #stateOf(
    { host, paused }: Integration,
    row: ChangeRequestRow,
  ): Promise<Pick<ChangeRequest, 'state' | 'headSha'>> {
    if (paused || (row.state !== 'OPEN' && row.state !== 'DRAFT'))
      return { state: row.state, headSha: row.head_sha };
    await askByName(this.#options.database, row.tenant, row.name, this.#options.collectMs);
    return host.changeRequest(row.repo, row.number);
  }

  /** Writes the item that opens a change request; returns its key. */
  async #ask(
    { integration, repo }: Place,
    pushed: PushedBranch,
    wanted: Wanted,
    earlier: number,
  ): Promise<string> {
    const { tenant, agent, branch, repo: repoUrl } = pushed;
    const { request, ending } = await this.#describe({ integration, repo }, pushed, wanted);
    const key = `open/${agent}/${integration.name}/${repo}/${branch}/${earlier}`;
    await writeItem(this.#options.database, {
      ...{ tenant, target: integration.name, lane: `${repo} ${branch}`, kind: 'open', agent, key },
      data: { repo, repoUrl, request, ending, isAsked: wanted.isAsked ?? false },
    });
    this.#options.onItem();
    return key;
  }

  /** What the request does not say is taken from the agent and its workspace. Without a base branch, it is the default one. */
  async #describe(
    { integration, repo }: Place,
    { tenant, agent, branch, repo: repoUrl }: PushedBranch,
    { title, description, base, draft = false }: Wanted,
  ): Promise<{ readonly request: NewChangeRequest; readonly ending: string }> {
    const { database, control } = this.#options;
    const status = await control.reads.status({ key: { tenant, id: agent } });
    if (isRefusal(status)) throw new IntegrationError(status.message);
    const closes = await findTriggers(database, tenant, agent, integration.name, repo);
    const text = description || status.response || status.description;
    const request = {
      branch,
      base: base || (await this.#baseBranch(tenant, status.agentId.workspace, repoUrl)),
      title: title || titleOf(status.response, status.agentId.agent.join('/')),
      body: text.trim(),
      isDraft: draft,
    };
    const numbers = closes.map(({ number }) => number);
    return { request, ending: requestEnding(status.dashboardUrl, numbers) };
  }

  /** The base branch of a repository in its workspace; empty if that does not name one. */
  async #baseBranch(tenant: number, workspace: string, repoUrl: string): Promise<string> {
    const document = await this.#options.control.catalog.document(tenant, 'workspace', workspace);
    return readRepos(document ?? {}).find(({ shownUrl }) => shownUrl === repoUrl)?.baseBranch ?? '';
  }

  /** Waits until the item was sent, by whichever node. */
  #opened(agent: AgentKey, key: string, branch: PushedBranch): Promise<Reply> {
    const { database, control, signal } = this.#options;
    const endMs = performance.now() + openWaitMs;
    const watch = (wake: () => void) => control.wakes.watchAgent(agent, wake);
    return withWakeSignal(signal, watch, async (woken) => {
      for (;;) {
        const [item] = await readItem(database, agent.tenant, key);
        if (item?.state === 'FAILED') return precondition('CODE_HOST', branch.repo, item.error);
        if (item?.state === 'SENT') {
          const rows = await readChangeRequestsOf(database, [agent.tenant], [agent.id]);
          const row = rows.find((one) => one.branch === branch.branch);
          return { changeRequest: row ? await this.#view(row) : null };
        }
        const leftMs = endMs - performance.now();
        if (leftMs <= 0 || signal.aborted) return { changeRequest: null };
        await woken.within(leftMs);
      }
    });
  }

  async #view(row: ShownChangeRequest): Promise<ChangeRequest> {
    return changeRequestOf(row, await this.#options.control.tenants.name(row.tenant));
  }
}

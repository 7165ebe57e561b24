import {
  type Claim,
  type EnvironmentDocument,
  type Kind,
  limits,
  type PolicyDocument,
  type PoolDocument,
  type WorkspaceDocument,
} from '@muster/sdk/contract';
import type pg from 'pg';
import type { Agent, AgentState } from '../../domain/agent.ts';
import { branchesAbove, branchOf } from '../../domain/branch.ts';
import { mcpServersProblem } from '../../lib/mcp-servers.ts';
import { type AgentKey, keyColumns } from '../../store/agent-store.ts';
import { loadBatches } from '../../store/statements/follow-ups.ts';
import { readBriefs } from '../../store/statements/load-agents.ts';
import type { Keys } from '../access/keys.ts';
import type { Tenants } from '../access/tenants.ts';
import { agentIdOfAgent } from '../agents/views.ts';
import { shareQueries } from '../batches/shared-queries.ts';
import type { Catalog } from '../catalog/catalog.ts';

export interface ClaimReaderOptions {
  readonly database: pg.Pool;
  readonly catalog: Catalog;
  readonly keys: Keys;
  readonly tenants: Tenants;
}

type Brief = Awaited<ReturnType<typeof readBriefs>>[number];
type Message = Awaited<ReturnType<typeof loadBatches>>[number];

/** What agents were asked may be large. */
const few = { maxBatch: 8 };

const messageOf = (
  followUpId: string,
  text: string,
  sent: Partial<Pick<Message, 'attachment_ids' | 'traceparent'>> | undefined,
): Claim['messages'][number] => ({
  followUpId,
  text,
  attachmentIds: sent?.attachment_ids ?? [],
  ...(sent?.traceparent && { traceparent: sent.traceparent }),
});

/** Reads what a runner gets with a run that it has claimed. */
export class ClaimReader {
  readonly #options: ClaimReaderOptions;
  readonly #brief: (agent: AgentKey) => Promise<Brief | undefined>;
  readonly #messages: (run: AgentKey & { readonly batch: number }) => Promise<Message[]>;

  constructor(options: ClaimReaderOptions) {
    this.#options = options;
    const { database } = options;
    this.#brief = shareQueries(async (agents) => {
      const rows = await readBriefs(database, ...keyColumns(agents));
      return agents.map(({ id }) => rows.find(({ agent }) => agent === id));
    }, few);
    this.#messages = shareQueries(async (runs) => {
      const batches = runs.map(({ batch }) => batch);
      const rows = await loadBatches(database, ...keyColumns(runs), batches);
      return runs.map(({ id }) => rows.filter(({ agent }) => agent === id));
    }, few);
  }

  /** Null if the run has ended meanwhile. */
  async read({ agent, run, checklist }: AgentState): Promise<Claim | null> {
    const { keys, tenants } = this.#options;
    const { settings, memory } = agent;
    const { batch } = memory;
    if (run?.state !== 'STARTING' || !batch) return null;
    const key = { tenant: agent.tenant, id: agent.id };
    // What is read in the same turn shares a query.
    const [brief, messages, { workspace, maxTurnMinutes }] = await Promise.all([
      this.#brief(key),
      batch.followUpIds.length > 0 ? this.#messages({ ...key, batch: batch.id }) : [],
      this.#workspaceOf(agent),
    ]);
    const names = secretNames(workspace.environment, workspace.document);
    return {
      agentKey: agent.id,
      runId: run.number,
      agentId: agentIdOfAgent(await tenants.name(agent.tenant), agent),
      firstTenant: agent.tenant === (await tenants.first()),
      token: keys.runToken(agent.tenant, agent.id, run.number),
      attempt: batch.tries,
      preface: batch.preface,
      messages: [
        ...(batch.spawn ? [messageOf('', brief?.description ?? '', brief)] : []),
        ...messages.map((m) => messageOf(m.id, m.description, m)),
      ],
      expectedOutput: brief?.expected_output ?? '',
      persona: { name: settings.persona, instructions: settings.instructions },
      backend: agent.backend,
      model: settings.model,
      account: run.account,
      retried: memory.retriedRun === run.number,
      models: [...(memory.models ?? [settings.model])],
      reasoningEffort: settings.reasoningEffort,
      serviceTier: settings.serviceTier,
      fastMode: settings.fastMode,
      outputSchema: settings.outputSchema,
      tasks: [...checklist],
      session: agent.session,
      homeSince: memory.homeSince ?? 0,
      branch: branchOf(agent.path, agent.id),
      pushed: { ...agent.result.pushed },
      startFrom: branchesAbove(agent),
      maxTurnMinutes,
      workspace,
      secrets: await this.#secretsOf(agent.tenant, names),
    };
  }

  /** Its documents. Most agents use the defaults: these are read before it is known whether they are needed. */
  async #workspaceOf({
    tenant,
    workspace,
    pool,
  }: Agent): Promise<Pick<Claim, 'workspace' | 'maxTurnMinutes'>> {
    const { catalog } = this.#options;
    const read = (kind: Kind, name: string) => catalog.document(tenant, kind, name);
    const [document = {}, poolDocument = {}, usualEnvironment, usualProfile, usualPolicy] = await Promise.all(
      [
        read('workspace', workspace),
        read('pool', pool),
        catalog.current(tenant, 'environment', 'default'),
        read('vm-profile', 'default'),
        read('policy', 'default'),
      ],
    );
    const { environment: name = '', policy = '' } = document as WorkspaceDocument;
    const { vmProfile: profile = '', maxTurnMinutes = limits.turnMinutes } = poolDocument as PoolDocument;
    const [environment, vmProfile = {}, ownPolicy] = await Promise.all([
      isUsual(name) ? usualEnvironment : catalog.current(tenant, 'environment', name),
      isUsual(profile) ? usualProfile : read('vm-profile', profile),
      isUsual(policy) ? {} : read('policy', policy),
    ]);
    return {
      workspace: {
        document,
        environment: environment?.document ?? {},
        environmentVersion: `${name || 'default'}/${environment?.generation ?? 0}`,
        vmProfile,
      },
      maxTurnMinutes: shortestTurn(maxTurnMinutes, [usualPolicy, ownPolicy]),
    };
  }

  /** A run that refers to a secret without a value is refused by its runner. */
  async #secretsOf(tenant: number, names: ReadonlySet<string>): Promise<Claim['secrets']> {
    const secrets: Claim['secrets'] = [];
    const earlier = names.size > 0 ? await this.#earlierValues(tenant, [...names]) : [];
    let bytes = 0;
    for (const name of names) {
      const isFull = bytes > limits.secretBytesPerRun;
      const found = isFull ? tooMuch : await this.#options.catalog.secrets.value(tenant, name);
      if ('value' in found) bytes += Buffer.byteLength(found.value);
      const given = bytes > limits.secretBytesPerRun ? tooMuch : found;
      const earlierOfName = earlier.flatMap((one) => (one.name === name ? [one.value] : []));
      secrets.push({ name, value: '', problem: '', earlier: earlierOfName, ...given });
    }
    return secrets;
  }

  /** As many as fit, the newest first. */
  async #earlierValues(tenant: number, names: readonly string[]) {
    let bytes = 0;
    return (await this.#options.catalog.secrets.earlierValues(tenant, names)).filter(({ value }) => {
      bytes += Buffer.byteLength(value);
      return bytes <= limits.secretBytesPerRun;
    });
  }
}

/** The secrets that the variables of an environment, and the MCP servers of a workspace, refer to. */
function secretNames(environment: unknown, workspace: unknown): Set<string> {
  const { variables } = (environment ?? {}) as EnvironmentDocument;
  const { mcpServers } = (workspace ?? {}) as WorkspaceDocument;
  // A workspace may have been stored before its servers were checked.
  const servers = mcpServers && mcpServersProblem(mcpServers) === null ? Object.values(mcpServers) : [];
  const given = [variables, ...servers.flatMap(({ headers, env }) => [headers, env])];
  return new Set(
    given
      .flatMap((values) => Object.values(values ?? {}))
      .flatMap((value) => (typeof value === 'object' && 'fromSecret' in value ? [value.fromSecret] : [])),
  );
}

const tooMuch = {
  problem: `the secrets of this run have more than ${limits.secretBytesPerRun} bytes together`,
};

/** In minutes. A pool with 0 has no limit. */
const shortestTurn = (ofPool: number, policies: readonly (PolicyDocument | undefined)[]): number => {
  const all = [ofPool, ...policies.map((policy) => policy?.maxTurnMinutes ?? 0)].filter((one) => one > 0);
  return all.length > 0 ? Math.min(...all) : 0;
};

const isUsual = (name: string): boolean => name === '' || name === 'default';

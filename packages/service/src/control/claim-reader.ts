import {
  type Claim,
  type EnvironmentDocument,
  type Kind,
  limits,
  type PoolDocument,
  type WorkspaceDocument,
} from '@muster/sdk/contract';
import type pg from 'pg';
import type { AgentState } from '../domain/agent.ts';
import { branchesAbove, branchOf } from '../domain/branch.ts';
import { mcpServersProblem } from '../lib/mcp-servers.ts';
import { type AgentKey, keyColumns } from '../store/agent-store.ts';
import { loadBatches } from '../store/statements/follow-ups.ts';
import { readBriefs } from '../store/statements/load-agents.ts';
import { batchReads } from './batch-reads.ts';
import type { Catalog } from './catalog/catalog.ts';
import type { Keys } from './keys.ts';
import type { Tenants } from './tenants.ts';
import { agentIdOfAgent } from './views.ts';

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

/** Reads what a runner gets with a run that it has claimed. */
export class ClaimReader {
  readonly #options: ClaimReaderOptions;
  readonly #brief: (agent: AgentKey) => Promise<Brief | undefined>;
  readonly #messages: (run: AgentKey & { readonly batch: number }) => Promise<Message[]>;

  constructor(options: ClaimReaderOptions) {
    this.#options = options;
    const { database } = options;
    this.#brief = batchReads(async (agents) => {
      const rows = await readBriefs(database, ...keyColumns(agents));
      return agents.map(({ id }) => rows.find(({ agent }) => agent === id));
    }, few);
    this.#messages = batchReads(async (runs) => {
      const batches = runs.map(({ batch }) => batch);
      const rows = await loadBatches(database, ...keyColumns(runs), batches);
      return runs.map(({ id }) => rows.filter(({ agent }) => agent === id));
    }, few);
  }

  /** Null if the run has ended meanwhile. */
  async read({ agent, run, checklist }: AgentState): Promise<Claim | null> {
    const { catalog, keys, tenants } = this.#options;
    const { batch } = agent.memory;
    if (run?.state !== 'STARTING' || !batch) return null;
    // What is read in the same turn shares a query, and most agents use the defaults.
    const document = (kind: Kind, name: string) => catalog.document(agent.tenant, kind, name);
    const key = { tenant: agent.tenant, id: agent.id };
    const [brief, messages, workspace, poolDocument, usualEnvironment, usualProfile] = await Promise.all([
      this.#brief(key),
      batch.followUpIds.length > 0 ? this.#messages({ ...key, batch: batch.id }) : [],
      document('workspace', agent.workspace),
      document('pool', agent.pool),
      catalog.current(agent.tenant, 'environment', 'default'),
      document('vm-profile', 'default'),
    ]);
    const { environment: environmentName = '' } = (workspace ?? {}) as WorkspaceDocument;
    const { vmProfile: profileName = '', maxTurnMinutes = limits.turnMinutes } = (poolDocument ??
      {}) as PoolDocument;
    const [found, vmProfile] = await Promise.all([
      isUsual(environmentName)
        ? usualEnvironment
        : catalog.current(agent.tenant, 'environment', environmentName),
      isUsual(profileName) ? usualProfile : document('vm-profile', profileName),
    ]);
    const { settings } = agent;
    const environment = (found?.document ?? {}) as EnvironmentDocument & Record<string, unknown>;
    const secrets = await this.#secretsOf(agent.tenant, secretNames(environment, workspace));
    return {
      agentKey: agent.id,
      runId: run.number,
      agentId: agentIdOfAgent(await tenants.name(agent.tenant), agent),
      firstTenant: agent.tenant === (await tenants.first()),
      token: keys.runToken(agent.tenant, agent.id, run.number),
      attempt: batch.tries,
      preface: batch.preface,
      messages: [
        ...(batch.spawn ? [{ followUpId: '', text: brief?.description ?? '', attachmentIds: [] }] : []),
        ...messages.map((m) => ({
          followUpId: m.id,
          text: m.description,
          attachmentIds: m.attachment_ids ?? [],
        })),
      ],
      expectedOutput: brief?.expected_output ?? '',
      persona: { name: settings.persona, instructions: settings.instructions },
      backend: agent.backend,
      model: settings.model,
      models: [...(agent.memory.models ?? [settings.model])],
      reasoningEffort: settings.reasoningEffort,
      serviceTier: settings.serviceTier,
      fastMode: settings.fastMode,
      outputSchema: settings.outputSchema,
      tasks: [...checklist],
      session: agent.session,
      homeSince: agent.memory.homeSince ?? 0,
      branch: branchOf(agent.path, agent.id),
      pushed: { ...agent.result.pushed },
      startFrom: branchesAbove(agent),
      maxTurnMinutes,
      workspace: {
        document: (workspace ?? {}) as Record<string, unknown>,
        environment,
        environmentVersion: `${environmentName || 'default'}/${found?.generation ?? 0}`,
        vmProfile: (vmProfile ?? {}) as Record<string, unknown>,
      },
      secrets,
    };
  }

  /** A run that refers to a secret without a value is refused by its runner. */
  async #secretsOf(tenant: number, names: ReadonlySet<string>): Promise<Claim['secrets']> {
    const secrets: Claim['secrets'] = [];
    let bytes = 0;
    for (const name of names) {
      const isFull = bytes > limits.secretBytesPerRun;
      const found = isFull ? tooMuch : await this.#options.catalog.secretValue(tenant, name);
      if ('value' in found) bytes += Buffer.byteLength(found.value);
      const given = bytes > limits.secretBytesPerRun ? tooMuch : found;
      secrets.push({ name, value: '', problem: '', ...given });
    }
    return secrets;
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

const isUsual = (name: string): boolean => name === '' || name === 'default';

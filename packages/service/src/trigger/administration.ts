import type { BodyOf, ReplyOf, TriggerDelivery, TriggerDocument } from '@muster/sdk/contract';
import { isTerminal } from '@muster/sdk/contract';
import { actingCaller, mayNotAct } from '../control/access/acting-caller.ts';
import { nameOf, type Principal } from '../control/access/principal.ts';
import { nameAgent } from '../control/agents/identify.ts';
import { spawnCommand } from '../control/agents/make-commands.ts';
import { agentIdOf } from '../control/agents/views.ts';
import { hookUrl } from '../control/catalog/kinds/hooks.ts';
import { deliveryOf, Ledger, type LedgerOptions } from '../deliveries/ledger.ts';
import { isRefusal, type Refusal } from '../domain/refusal.ts';
import {
  type DeliveryRow,
  listDeliveries,
  readPauses,
  readReachedAgents,
  recipientOf,
} from '../store/statements/deliveries.ts';

export interface AdministrationOptions extends LedgerOptions {
  readonly publicUrl: () => string;
}

type Check = ReplyOf<'testTrigger'>['checks'][number];

const ok = (name: string): Check => ({ name, ok: true, advice: '' });
const missing = (name: string, advice: string): Check => ({ name, ok: false, advice });

/** What who may write a trigger does with it: tests it, lists its deliveries and has one processed again. */
export class Administration {
  readonly #options: AdministrationOptions;
  readonly #ledger: Ledger;

  constructor(options: AdministrationOptions) {
    this.#options = options;
    this.#ledger = new Ledger(options, 'trigger');
  }

  async deliveries(
    caller: Principal,
    body: BodyOf<'listTriggerDeliveries'>,
  ): Promise<ReplyOf<'listTriggerDeliveries'> | Refusal> {
    const page = await this.#ledger.list(caller, body);
    if (isRefusal(page)) return page;
    return { entries: await this.#shown(page.tenant, page.rows), nextPageToken: page.nextPageToken };
  }

  async redeliver(caller: Principal, body: BodyOf<'redeliverToTrigger'>): Promise<TriggerDelivery | Refusal> {
    const found = await this.#ledger.redeliver(caller, body);
    if (isRefusal(found)) return found;
    const [shown] = await this.#shown(found.tenant, [found.row]);
    return shown as TriggerDelivery;
  }

  async #shown(tenant: number, rows: readonly DeliveryRow[]): Promise<TriggerDelivery[]> {
    const ids = [...new Set(rows.flatMap(({ agent }) => agent ?? []))];
    const agents = ids.length > 0 ? await readReachedAgents(this.#options.database, tenant, ids) : [];
    const tenantName = await this.#options.control.tenants.name(tenant);
    const byId = new Map(agents.map((row) => [row.id, agentIdOf(tenantName, row, row.path.split('/'))]));
    return rows.map((row) => ({ ...deliveryOf(row), agentId: byId.get(row.agent ?? '') ?? null }));
  }

  async test(
    caller: Principal,
    { tenant: input, name = '' }: BodyOf<'testTrigger'>,
  ): Promise<ReplyOf<'testTrigger'> | Refusal> {
    const found = await this.#ledger.administered(caller, input, name);
    if (isRefusal(found)) return found;
    const { database } = this.#options;
    const { tenant } = found;
    const document = found.document as TriggerDocument & {
      readonly url?: string;
      readonly createdBy?: string;
    };
    const acting = await actingCaller(database, tenant, document.createdBy ?? '', `trigger/${name}`);
    const mayAct = !mayNotAct(acting);
    const [request] = await listDeliveries(
      database,
      tenant,
      recipientOf('trigger', name),
      [],
      'infinity',
      '',
      1,
    );
    return {
      account: mayAct ? nameOf(acting) : (document.createdBy ?? ''),
      webhookUrl: hookUrl(this.#options.publicUrl(), document.url ?? ''),
      checks: [
        mayAct ? ok('account') : missing('account', acting.mayNotAct),
        await this.#activeCheck(tenant, name, document),
        await this.#secretCheck(tenant, document),
        ...(mayAct ? [await this.#targetCheck(acting, tenant, document)] : []),
        request ? ok('request') : missing('request', 'No request has arrived yet. Send one to the URL.'),
      ],
    };
  }

  async #activeCheck(tenant: number, name: string, { paused }: TriggerDocument): Promise<Check> {
    const [hook] = await readPauses(this.#options.database, tenant, [recipientOf('trigger', name)]);
    const reason = hook?.paused_reason ?? '';
    if (!paused && reason === '') return ok('active');
    const why = reason && ` (${reason})`;
    return missing('active', `The trigger is paused${why}. To resume it: muster trigger resume ${name}`);
  }

  async #secretCheck(tenant: number, { webhookSecret }: TriggerDocument): Promise<Check> {
    if (!webhookSecret) return ok('secret');
    const found = await this.#options.control.catalog.secrets.value(tenant, webhookSecret.fromSecret);
    return 'value' in found ? ok('secret') : missing('secret', `webhookSecret: ${found.problem}`);
  }

  /** The agent that gets messages, or everything that a spawn needs. */
  async #targetCheck(acting: Principal, tenant: number, { agentId, spawn }: TriggerDocument): Promise<Check> {
    const { targets, reads, catalog, models } = this.#options.control;
    if (agentId) {
      const identity = await targets.command(acting, agentId);
      const agent = isRefusal(identity) ? identity : await reads.find({ identity });
      if (isRefusal(agent)) return missing('agent', agent.message);
      return isTerminal(agent.phase)
        ? missing('agent', 'The agent has ended: it takes no messages.')
        : ok('agent');
    }
    if (!spawn) return missing('spawn', 'The trigger does nothing: set `spawn`, or `agentId` and `message`.');
    const { agent, persona, model, reasoningEffort, serviceTier, fastMode, outputSchema } = spawn;
    const settings = { agent, persona, model, reasoningEffort, serviceTier, fastMode, outputSchema };
    const { agentId: given, workspace } = spawn;
    const named = nameAgent(
      { ...given, workspace: given?.workspace || workspace || 'default', agent: ['test'] },
      acting,
    );
    const identity = { ...named, tenant };
    const command = await spawnCommand(catalog, settings, identity, models);
    if (isRefusal(command)) return missing('spawn', command.message);
    return { name: 'spawn', ok: true, advice: command.warning };
  }
}

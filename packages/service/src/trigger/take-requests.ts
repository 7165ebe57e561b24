import { hash } from 'node:crypto';
import { limits, type TriggerDocument } from '@muster/sdk/contract';
import type pg from 'pg';
import { actingCaller, mayNotAct } from '../control/access/acting-caller.ts';
import type { Principal } from '../control/access/principal.ts';
import { queueCommand } from '../control/agents/make-commands.ts';
import type { Control } from '../control/control.ts';
import { type Effect, NotNowError, type Outcome } from '../deliveries/process.ts';
import { isRefusal, type Refusal } from '../domain/refusal.ts';
import type { JobQueue } from '../lib/job-queue.ts';
import type { AgentKey, Wanted } from '../store/agent-store.ts';
import { findTriggered, saveTriggered } from '../store/statements/change-requests.ts';
import {
  admitDelivery,
  countFailure,
  type DueDelivery,
  readDeliveryBody,
  readPauses,
} from '../store/statements/deliveries.ts';
import { pauseTrigger } from './pause-trigger.ts';
import type { ReadRequest, RequestJob } from './read-request.ts';
import type { RequestAnswer } from './request-worker.ts';

export interface TakeRequestsOptions {
  readonly database: pg.Pool;
  readonly control: Control;
  readonly thread: JobQueue<RequestJob, RequestAnswer>;
}

/** A request that is to take effect. */
interface Wish {
  readonly row: DueDelivery;
  readonly document: TriggerDocument;
  readonly read: ReadRequest;
  readonly caller: Principal;
  /** The same each time that this delivery is processed. */
  readonly effectId: string;
}

/** The agent that a request has reached. */
interface Reached {
  readonly id: string;
  readonly path: string;
}

const digestOf = (...parts: readonly string[]): string => hash('sha256', JSON.stringify(parts), 'hex');

/** What begins the ids of all messages that triggers cause. */
const messagePrefix = 'trigger-';

/**
 * What requests to triggers lead to: an agent is spawned, or gets a message. Processing one again has no further effect:
 * messages have ids that derive from the delivery, and a spawn is stored with the key of what it is about.
 */
export class TakeRequests {
  readonly #options: TakeRequestsOptions;

  constructor(options: TakeRequestsOptions) {
    this.#options = options;
  }

  readonly effect: Effect = async (row, name, named) => {
    const { database, control } = this.#options;
    const document = (await control.catalog.document(row.tenant, 'trigger', name)) as
      | (TriggerDocument & { readonly createdBy?: string })
      | undefined;
    if (!document) return ignored('the trigger was deleted');
    if (row.agent) return this.#reached(row.tenant, row.agent, named);
    if (document.paused) return ignored('the trigger is paused');
    const [hook] = await readPauses(database, row.tenant, [row.integration]);
    if (hook?.paused_reason) return ignored(`the trigger was paused: ${hook.paused_reason}`);
    const createdBy = document.createdBy ?? '';
    const pause = (reason: string) => pauseTrigger(database, row.tenant, { name, createdBy }, reason);
    const read = await this.#read(row, name, document);
    if (typeof read === 'string') return this.#ended(row, pause, { state: 'FAILED', reason: read });
    named.event = read.event;
    if (read.mismatch !== null) return ignored(read.mismatch);
    const caller = await actingCaller(database, row.tenant, createdBy, `trigger/${name}`);
    if (mayNotAct(caller)) {
      await pause(caller.mayNotAct);
      return ignored(`the trigger was paused: ${caller.mayNotAct}`);
    }
    const most = document.maxPerHour ?? 60;
    const admitted =
      row.is_admitted || (await admitDelivery(database, row.tenant, row.integration, row.id, most))[0];
    if (!admitted) return ignored(`more than ${most} requests in an hour (maxPerHour)`);
    const wish = { row, document, read, caller, effectId: digestOf(row.integration, row.id) };
    const outcome = await (document.agentId ? this.#message(wish) : this.#spawn(wish, name));
    if ('id' in outcome) {
      named.subject = outcome.path;
      return this.#ended(row, pause, { state: 'DONE', reason: '', agent: outcome.id });
    }
    return outcome.state === 'FAILED' ? this.#ended(row, pause, outcome) : outcome;
  };

  /** A delivery that took effect before has no further one. */
  async #reached(tenant: number, agent: string, named: { subject: string }): Promise<Outcome> {
    const found = await this.#options.control.reads.find({ key: { tenant, id: agent } });
    if (!isRefusal(found)) named.subject = pathOf(found.path);
    return { state: 'DONE', reason: '', agent };
  }

  /** Counts failures in a row. */
  async #ended(
    row: DueDelivery,
    pause: (reason: string) => Promise<void>,
    outcome: Settled,
  ): Promise<Settled> {
    const hasFailed = outcome.state === 'FAILED';
    const [counted] = await countFailure(this.#options.database, row.tenant, row.integration, hasFailed);
    const most = limits.triggerFailures;
    if (hasFailed && (counted?.failures ?? 0) >= most)
      await pause(`${most} requests in a row failed, the last one because: ${outcome.reason}`);
    return outcome;
  }

  /** Why it can't be read, or what it says. */
  async #read(
    { tenant, integration, id, headers }: DueDelivery,
    name: string,
    document: TriggerDocument,
  ): Promise<ReadRequest | string> {
    const { database, thread } = this.#options;
    const [found] = await readDeliveryBody(database, tenant, integration, id);
    const body = found?.body;
    if (!body) return 'its body was deleted';
    const answer = await thread
      .ask(async () => ({ name, document, headers: headers ?? {}, body }))
      .catch((error: unknown) => ({ unreadable: String(error) }));
    return 'unreadable' in answer ? answer.unreadable : answer;
  }

  async #message(wish: Wish): Promise<Reached | Settled> {
    const { row, document, read, caller } = wish;
    const { control } = this.#options;
    const identity = await control.targets.command(caller, document.agentId);
    if (isRefusal(identity)) return failed(identity);
    const found = await control.reads.find({ identity });
    if (isRefusal(found)) return failed(found);
    const key = { tenant: row.tenant, id: found.id };
    const id = read.about
      ? `${messagePrefix}${digestOf(row.integration, read.about).slice(0, 40)}`
      : undefined;
    // Of several requests about the same thing, the first one is the message.
    const known =
      id && row.attempts === 0 ? await control.reads.progressOf({ ...key, followUpId: id }) : null;
    if (known) return ignored('a request with the same value of `dedupe` took effect');
    const told = await this.#tell(wish, key, id);
    return isRefusal(told) ? failed(told) : { id: found.id, path: pathOf(found.path) };
  }

  async #spawn(wish: Wish, name: string): Promise<Reached | Settled> {
    const { row, document, read, effectId } = wish;
    if (!document.spawn) return ignored('the trigger has neither spawn nor agentId');
    const { database } = this.#options;
    const subject = [row.tenant, row.integration, read.about, 'request', 0] as const;
    const [agent] = read.about ? await findTriggered(database, ...subject) : [];
    if (agent) {
      if (agent.delivery.split(' ').includes(effectId)) return this.#known(row.tenant, agent.id);
      const told = await this.#tell(wish, { tenant: row.tenant, id: agent.id });
      if (!isRefusal(told)) return this.#known(row.tenant, agent.id);
      if (!hasEnded(told)) return failed(told);
    }
    // A spawn for the same thing, after the same agent, is the same one, whatever else the request says.
    const key = digestOf(row.integration, read.about || row.id, agent?.id ?? '');
    const spawned = await this.#spawnOnce(wish, name, key);
    if (isRefusal(spawned)) return failed(spawned);
    if (spawned.note !== effectId) {
      const told = await this.#tell(wish, { tenant: row.tenant, id: spawned.id });
      return isRefusal(told) ? failed(told) : spawned;
    }
    if (read.about) await saveTriggered(database, ...subject, spawned.id, effectId);
    return spawned;
  }

  /** With a name that tells it from other agents if its own is taken. */
  async #spawnOnce({ document, read, caller, effectId }: Wish, trigger: string, key: string) {
    const { spawns } = this.#options.control;
    const { name: _, agentId, ...fields } = document.spawn ?? {};
    const path = read.path.length > 0 ? read.path : [`${trigger.slice(0, 100)}-${key.slice(0, 8)}`];
    const spawn = (agent: string[]) => {
      const { text: description, expectedOutput, labels } = read;
      const request = { ...fields, agentId: { ...agentId, agent }, description, expectedOutput, labels };
      return spawns.spawnOnce(caller, request, key, effectId);
    };
    const spawned = await spawn([...path]);
    const isTaken = isRefusal(spawned) && spawned.status === 'ALREADY_EXISTS';
    const another = `${path.at(-1)}-${effectId.slice(0, 12)}`;
    return isTaken ? spawn([...path.slice(0, -1), another]) : spawned;
  }

  async #known(tenant: number, id: string): Promise<Reached> {
    const found = await this.#options.control.reads.find({ key: { tenant, id } });
    return { id, path: isRefusal(found) ? '' : pathOf(found.path) };
  }

  /** Once per delivery, or per `id`. */
  async #tell(
    { read, effectId }: Wish,
    key: AgentKey,
    id = `${messagePrefix}${effectId.slice(0, 40)}`,
  ): Promise<Refusal | null> {
    const { catalog, models, transact } = this.#options.control;
    const request = { followUpId: id, description: read.text };
    const command = await queueCommand(catalog, request, key.tenant, models.ownModels, []);
    if (isRefusal(command)) return command;
    const target: Wanted = { key };
    const told = await transact.command<unknown>(target, { ...command, byAgent: true });
    // A known id: the message was sent before, when the trigger had another text.
    return isRefusal(told) && told.status !== 'ALREADY_EXISTS' ? told : null;
  }
}

type Settled = Exclude<Outcome, { state: 'LATER' }>;

const ignored = (reason: string): Settled => ({ state: 'IGNORED', reason });

/** What may succeed later is tried again. */
function failed({ status, message }: Refusal): Settled {
  if (passing.has(status)) throw new NotNowError(message);
  return { state: 'FAILED', reason: message };
}

const passing: ReadonlySet<string> = new Set(['RESOURCE_EXHAUSTED', 'UNAVAILABLE', 'ABORTED']);

const hasEnded = ({ details }: Refusal): boolean =>
  details.some((detail) => 'reason' in detail && detail.reason === 'AGENT_ENDED');

const pathOf = (path: string | readonly string[]): string =>
  typeof path === 'string' ? path : path.join('/');

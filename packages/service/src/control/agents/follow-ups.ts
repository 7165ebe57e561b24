import { limits } from '@muster/sdk/contract';
import type { Identity } from '../../domain/agent.ts';
import type { Queued } from '../../domain/commands/queue-follow-up.ts';
import { invalid, isRefusal, type Refusal } from '../../domain/refusal.ts';
import type { Catalog } from '../catalog/catalog.ts';
import type { Operation } from '../operation.ts';
import type { Attachments } from './attachments.ts';
import { queueCommand, repeatCommand, type ServiceModels } from './make-commands.ts';
import type { PageTokens } from './page-tokens.ts';
import type { Reads } from './read.ts';
import { type CommandOptions, sendCommand } from './send-command.ts';

export interface FollowUpsOptions extends CommandOptions {
  readonly catalog: Catalog;
  readonly reads: Reads;
  readonly attachments: Attachments;
  readonly pageTokens: PageTokens;
  readonly models: ServiceModels;
}

const missingId = invalid('followUpId', 'is required: the id that queueing the message returned');

/** Messages to an agent. */
export class FollowUps {
  readonly #options: FollowUpsOptions;

  constructor(options: FollowUpsOptions) {
    this.#options = options;
  }

  readonly queue: Operation<'queue'> = async (caller, request, traceparent) => {
    const { targets, transact, catalog, models } = this.#options;
    if (request.replace && !request.followUpId)
      return invalid('followUpId', 'is required with replace: the id of the message to replace');
    const identity = await targets.command(caller, request.agentId);
    if (isRefusal(identity)) return identity;
    const attachmentIds = await this.#attachmentIds(identity, request.attachmentIds ?? []);
    const command = await queueCommand(catalog, request, identity.tenant, models.ownModels, attachmentIds);
    if (isRefusal(command)) {
      const known = await transact.command<Queued | null>({ identity }, repeatCommand(request));
      return known ?? command;
    }
    return transact.command({ identity }, { ...command, byAgent: caller.role === 'agent', traceparent });
  };

  /** What is wrong with one is said after what is wrong with the agent. */
  async #attachmentIds(identity: Identity, ids: readonly string[]): Promise<readonly string[] | Refusal> {
    const { reads, attachments } = this.#options;
    const agent = ids.length > 0 && (await reads.find({ identity }));
    return agent && !isRefusal(agent) ? attachments.named(agent, ids) : [];
  }

  readonly removeFollowUp: Operation<'removeFollowUp'> = async (caller, { agentId, followUpId }) =>
    followUpId ? sendCommand(this.#options, caller, agentId, { type: 'remove', followUpId }) : missingId;

  readonly orderQueue: Operation<'orderQueue'> = (caller, { agentId, followUpIds = [] }) =>
    sendCommand(this.#options, caller, agentId, { type: 'order', followUpIds });

  readonly clearFollowUps: Operation<'clearFollowUps'> = (caller, { agentId }) =>
    sendCommand(this.#options, caller, agentId, { type: 'clear' });

  readonly listFollowUps: Operation<'listFollowUps'> = async (caller, request) => {
    const { targets, reads, pageTokens } = this.#options;
    const agent = await targets.find(caller, request.agentId);
    if (isRefusal(agent)) return agent;
    const list = `queue/${agent.id}`;
    const after = request.pageToken ? pageTokens.open(list, request.pageToken) : '';
    if (isRefusal(after)) return after;
    const { followUps, next } = await reads.queue(agent, after, request.pageSize || limits.pageSize);
    const status = followUps.length === 0 ? null : await reads.status({ key: agent });
    const wakesAt = status && !isRefusal(status) ? status.wakesAt : null;
    return { followUps, nextPageToken: next === null ? '' : pageTokens.seal(list, next), wakesAt };
  };

  readonly followUp: Operation<'followUp'> = async (caller, { agentId, followUpId }) => {
    if (!followUpId) return missingId;
    const agent = await this.#options.targets.find(caller, agentId);
    return isRefusal(agent) ? agent : this.#options.reads.followUp(agent, followUpId);
  };
}

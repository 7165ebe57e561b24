import { type AgentStatus, notificationEvents } from '@muster/sdk/contract';
import type pg from 'pg';
import type { Reads } from '../control/agents/read.ts';
import { isRefusal } from '../domain/refusal.ts';
import type { EventType } from '../store/statements/events.ts';
import { countMembers, readMembers, type WaitingRow } from '../store/statements/notifications.ts';
import type { TenantMasks } from '../work/tenant-masks.ts';
import type { Digest, Message, MessageAgent } from './channel.ts';
import { cutTo } from './cut.ts';
import { digestTitle, eventTexts } from './event-texts.ts';

export interface ComposerOptions {
  readonly database: pg.Pool;
  readonly reads: Reads;
  readonly masks: TenantMasks;
  readonly publicUrl: () => string;
}

/** More of a text is not of use to anybody who reads it on a phone; the page has all of it. */
const mostTextLength = 4_000;
/** How many events a digest describes; it counts all. */
const mostInDigest = 20;

/** There is nothing to be sent any more. */
export interface Unneeded {
  readonly unneeded: string;
}

export const isUnneeded = (message: Message | Unneeded): message is Unneeded => 'unneeded' in message;

type Masked = (text: string) => string;

/** Makes messages of deliveries. What they say of an agent is read when they are sent. */
export class Composer {
  readonly #options: ComposerOptions;

  constructor(options: ComposerOptions) {
    this.#options = options;
  }

  async compose(tenant: number, row: WaitingRow): Promise<Message | Unneeded> {
    const masked = await this.#options.masks.of(tenant);
    if (row.type === 'digest') return this.#digest(tenant, row, masked);
    if (row.type === 'test') return this.#test(row);
    return row.agent === null
      ? this.#ofDocument(row, row.type, masked)
      : this.#ofAgent(tenant, row, row.agent, masked);
  }

  #test({ message_id: id, at }: WaitingRow): Message {
    return {
      ...{ id, at, type: 'test', agent: null, digest: null },
      title: 'Test message',
      text: 'This notification works.',
      url: `${this.#options.publicUrl()}/`,
    };
  }

  #ofDocument({ message_id: id, at, data }: WaitingRow, type: EventType, masked: Masked): Message {
    const { name = '', text = '', url } = data;
    const { kind, title } = eventTexts[type];
    const page = kind ? `/catalog/${kind}/${encodeURIComponent(name)}` : '/';
    return {
      ...{ id, at, type, agent: null, digest: null },
      title: masked(title(name)),
      text: masked(cut(text)),
      url: url ?? `${this.#options.publicUrl()}${page}`,
    };
  }

  async #ofAgent(tenant: number, row: WaitingRow, key: string, masked: Masked): Promise<Message | Unneeded> {
    const status = await this.#options.reads.status({ key: { tenant, id: key } });
    if (isRefusal(status)) return { unneeded: 'the agent was deleted' };
    const { message_id: id, at, data } = row;
    const type = row.type as EventType;
    const { agentId, phase, phaseReason, phaseSince, dashboardUrl } = status;
    const needsInput = status.needsInput === null ? null : masked(cut(status.needsInput));
    const agent: MessageAgent = { key, agentId, phase, phaseReason, phaseSince, dashboardUrl, needsInput };
    return {
      ...{ id, at, type, agent, digest: null },
      title: masked(eventTexts[type].title(data.name ?? agentId.agent.join('/'))),
      text: masked(cut(data.text ?? textOf(type, status))),
      url: dashboardUrl,
    };
  }

  async #digest(tenant: number, row: WaitingRow, masked: Masked): Promise<Message | Unneeded> {
    const { database, publicUrl } = this.#options;
    const counted = await countMembers(database, tenant, row.id);
    const counts = notificationEvents.flatMap((type) => {
      const count = counted.find((one) => one.type === type)?.events ?? 0;
      return count > 0 ? [[type, count] as const] : [];
    });
    if (counts.length === 0) return { unneeded: 'everything in it has passed' };
    const members = await readMembers(database, tenant, row.id, mostInDigest);
    const found = await Promise.all(
      members.map((member) =>
        member.agent === null
          ? this.#ofDocument(member, member.type as EventType, masked)
          : this.#ofAgent(tenant, member, member.agent, masked),
      ),
    );
    const messages = found.flatMap((message) => (isUnneeded(message) ? [] : [message]));
    const total = counts.reduce((sum, [, count]) => sum + count, 0);
    const digest: Digest = { total, counts, messages };
    return {
      ...{ id: row.message_id, at: row.at, type: 'digest', agent: null, digest },
      title: digestTitle(counts),
      text: '',
      url: `${publicUrl()}/`,
    };
  }
}

/** What to know beside the phase. */
function textOf(type: EventType, { needsInput, error, response }: AgentStatus): string {
  if (type === 'agent.blocked') return [error?.message, needsInput].filter(Boolean).join('\n');
  if (type === 'agent.failed') return error?.message ?? '';
  return needsInput ?? response;
}

const cut = (text: string): string => cutTo(text, mostTextLength);

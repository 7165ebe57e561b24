import { createHmac } from 'node:crypto';
import { limits, type Tenant } from '@muster/sdk/contract';
import { type Channel, isSent, type Message, type Target } from './channel.ts';
import { cutTo } from './cut.ts';
import type { Sender } from './sender.ts';

/** Where there may be a long text, as many bytes are left for it as there are. */
const mostEntryBytes = 600;

/**
 * Sends a message as Standard Webhooks say (standardwebhooks.com): a small body, signed with its id and the time of the
 * attempt.
 */
export class WebhookChannel implements Channel {
  readonly #sender: Sender;

  constructor(sender: Sender) {
    this.#sender = sender;
  }

  async send(target: Target, message: Message) {
    const { tenant, name } = target;
    const [url, keys, tenantName] = await Promise.all([
      this.#sender.url(target),
      this.#sender.signingKeys(tenant, name),
      this.#sender.tenantName(tenant),
    ]);
    const body = webhookBody(message, { notification: name, tenant: tenantName });
    const timestamp = String(Math.floor(Date.now() / 1_000));
    const signature = keys
      .map((key) => `v1,${signatureOf(key, `${message.id}.${timestamp}.${body}`)}`)
      .join(' ');
    const headers = {
      'content-type': 'application/json',
      'webhook-id': message.id,
      'webhook-timestamp': timestamp,
      'webhook-signature': signature,
    };
    await this.#sender.post({ url, headers, body }, (status) => status === 410);
    return isSent;
  }

  end = (target: Target, reason: string): Promise<void> => this.#sender.pause(target, reason);
}

const signatureOf = (key: string, text: string): string =>
  createHmac('sha256', Buffer.from(key.replace(/^whsec_/, ''), 'base64'))
    .update(text)
    .digest('base64');

/** The same in every attempt, as far as the agent is the same. */
export function webhookBody(
  message: Message,
  about: { readonly notification: string; readonly tenant: Tenant },
): string {
  const { type, at, url, digest } = message;
  const data = digest
    ? {
        ...about,
        title: message.title,
        total: digest.total,
        counts: Object.fromEntries(digest.counts),
        dashboardUrl: url,
      }
    : { ...about, ...dataOf(message) };
  if (!digest)
    return fitting(
      (texts) => JSON.stringify({ type, timestamp: at, data: texts(data) }),
      limits.notificationBytes,
    );
  const events: unknown[] = [];
  const bodyOf = () => JSON.stringify({ type, timestamp: at, data: { ...data, events } });
  for (const one of digest.messages) {
    const entry = fitting(
      (texts) => JSON.stringify({ type: one.type, timestamp: one.at, ...texts(dataOf(one)) }),
      mostEntryBytes,
    );
    events.push(JSON.parse(entry));
    if (Buffer.byteLength(bodyOf()) < limits.notificationBytes) continue;
    events.pop();
    break;
  }
  return bodyOf();
}

function dataOf({ title, text, url, agent }: Message): Record<string, unknown> {
  if (!agent) return { title, text, dashboardUrl: url };
  const { agentId, phase, phaseReason, phaseSince, needsInput, dashboardUrl } = agent;
  const page = url === dashboardUrl ? {} : { url };
  return { agentId, phase, phaseReason, phaseSince, needsInput, title, text, ...page, dashboardUrl };
}

/** With the long texts cut, if it is too long otherwise. */
function fitting(
  write: (texts: (data: Record<string, unknown>) => Record<string, unknown>) => string,
  most: number,
): string {
  for (let length = 4_096; ; length = Math.floor(length / 2)) {
    const cut = (value: unknown): unknown => (typeof value === 'string' ? cutTo(value, length) : value);
    const body = write((data) => ({ ...data, text: cut(data.text), needsInput: cut(data.needsInput) }));
    if (Buffer.byteLength(body) < most || length <= 1) return body;
  }
}

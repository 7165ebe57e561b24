import { createHash } from 'node:crypto';
import type pg from 'pg';
import type { ServiceSecrets } from '../../lib/service-secret.ts';
import { resumed } from '../../store/statements/events.ts';
import { deleteTarget } from '../../store/statements/notifications.ts';
import { isAsking, type PushSettings, readReader, sessionOf } from '../../store/statements/push.ts';
import { type Channel, GoneError, isSent, type Message, type Sent, type Target } from '../channel.ts';
import { cutTo } from '../cut.ts';
import type { Sender } from '../sender.ts';
import { encryptFor, mostPayloadBytes } from './encrypt.ts';
import { VapidKey } from './vapid.ts';

export interface BrowserChannelOptions {
  readonly database: pg.Pool;
  readonly sender: Pick<Sender, 'post'>;
  readonly secrets: ServiceSecrets;
  readonly publicUrl: () => string;
}

/** A question that is older is not worth a notification: the dashboard shows it. */
const keptSeconds = 24 * 3600;
const urgentTypes: readonly string[] = [
  'agent.needs_input',
  'agent.blocked',
  'agent.budget',
  'agent.failed',
  'test',
];
const mostTitleLength = 200;
const mostTextLength = 1_500;

const dropped = (note: string): Sent => ({ state: 'DROPPED', note });

/** The keys of the service, by the service secret that made each. */
export function vapidKeys(secrets: ServiceSecrets): ReadonlyMap<string, VapidKey> {
  return new Map(secrets.all.map((secret) => [secret.id, new VapidKey(secret)]));
}

/** Sends messages to browsers by Web Push. What is pushed is encrypted for the browser, whose service worker shows it. */
export class BrowserChannel implements Channel<PushSettings> {
  readonly #options: BrowserChannelOptions;
  readonly #keys: ReadonlyMap<string, VapidKey>;

  constructor(options: BrowserChannelOptions) {
    this.#options = options;
    this.#keys = vapidKeys(options.secrets);
  }

  async send(target: Target<PushSettings>, message: Message): Promise<Sent> {
    const { settings } = target;
    const unneeded = await this.#unneeded(target, message);
    if (unneeded) return dropped(unneeded);
    const key = this.#keys.get(settings.secret);
    if (!key) throw new GoneError('the browser subscribed while the service had another secret');
    const { publicUrl, sender } = this.#options;
    const url = new URL(settings.endpoint);
    const tag = tagOf(message);
    const keys = { p256dh: bytesOf(settings.p256dh), auth: bytesOf(settings.auth) };
    const headers = {
      authorization: key.authorization(url, contactOf(publicUrl()), Date.now()),
      'content-type': 'application/octet-stream',
      'content-encoding': 'aes128gcm',
      ttl: String(keptSeconds),
      urgency: urgentTypes.includes(message.type) ? 'high' : 'normal',
      // A newer message replaces one that the push service has not delivered yet.
      topic: tag,
    };
    const body = encryptFor(keys, payloadOf(message, tag, publicUrl()));
    await sender.post({ url, headers, body }, (status) => status === 404 || status === 410);
    return isSent;
  }

  async end({ tenant, name }: Target<PushSettings>): Promise<void> {
    await deleteTarget(this.#options.database, tenant, name);
  }

  /** Why nothing has to be shown; empty if something has. */
  async #unneeded({ tenant, name }: Target, { type, at, agent }: Message): Promise<string> {
    const { database } = this.#options;
    const [reader] = await readReader(database, tenant, sessionOf(name), agent?.key ?? null, at);
    if (!reader) throw new GoneError('the session of the browser has ended');
    if (!agent) return '';
    if (type !== resumed) return reader.is_seen ? 'it was seen in the dashboard' : '';
    const [last] = await isAsking(database, tenant, name, agent.key);
    return last?.is_asking ? '' : 'the browser shows nothing that has passed';
  }
}

const bytesOf = (text: string): Buffer => Buffer.from(text, 'base64url');

/** Push services want to know whom to write to about a sender. */
const contactOf = (publicUrl: string): string =>
  publicUrl.startsWith('https://') ? publicUrl : 'mailto:muster@localhost';

/** One per agent. What is allowed as a topic: up to 32 characters of base64url. */
const tagOf = ({ type, agent, id }: Message): string =>
  createHash('sha256')
    .update(agent?.key ?? (type === 'digest' ? type : id))
    .digest('base64url')
    .slice(0, 32);

function payloadOf(message: Message, tag: string, publicUrl: string): Buffer {
  const { type, title, text, digest } = message;
  const url = message.url.startsWith(`${publicUrl}/`) ? message.url.slice(publicUrl.length) : message.url;
  const whole = digest ? digest.messages.map((one) => one.title).join('\n') : text;
  for (let length = mostTextLength; ; length = Math.floor(length / 2)) {
    const push = {
      ...{ title: cutTo(title, mostTitleLength), body: cutTo(whole, length), tag },
      // Of a long path, the page of the agent is not more than the list.
      ...{ url: url.length > 2_000 ? '/' : url, withdrawn: type === resumed },
    };
    const bytes = Buffer.from(JSON.stringify(push));
    if (bytes.length <= mostPayloadBytes || length === 0) return bytes.subarray(0, mostPayloadBytes);
  }
}

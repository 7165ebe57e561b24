import type { Transporter } from 'nodemailer';
import type { NotificationSettings } from '../control/catalog/kinds/notification.ts';
import { messageOf } from '../lib/errors.ts';
import { HostError } from '../work/host-error.ts';
import { type Channel, isSent, type Message, type Sent, type Target } from './channel.ts';
import type { Sender } from './sender.ts';

export interface MailOptions {
  /** As `smtps://user:password@mail.example.com`. */
  readonly url: string;
  /** As `Muster <muster@example.com>`. */
  readonly from: string;
}

export interface EmailOptions {
  /** Null: the operator has set up no mail server. */
  readonly mail: MailOptions | null;
  readonly sender: Sender;
  /** Where a person ends a notification without signing in. */
  readonly unsubscribeUrl: (target: Target) => Promise<string>;
}

const timeoutMs = 15_000;

/** Sends mail through the operator's server. Messages about one agent are one thread. */
export class EmailChannel implements Channel {
  readonly #options: EmailOptions;
  #transporter: Promise<Transporter> | undefined;

  constructor(options: EmailOptions) {
    this.#options = options;
  }

  async send(target: Target, message: Message): Promise<Sent> {
    const { mail, unsubscribeUrl } = this.#options;
    const { to = [] } = target.settings as NotificationSettings;
    if (!mail)
      throw new HostError(
        'refused',
        0,
        'this service sends no mail: its operator can set MUSTER_SMTP_URL and MUSTER_MAIL_FROM',
      );
    if (to.length === 0) throw new HostError('refused', 0, 'to: is not set; set it in the notification');
    const unsubscribe = target.account === '' ? null : await unsubscribeUrl(target);
    const transporter = await this.#open(mail);
    try {
      const { rejected = [] } = await transporter.sendMail(mailOf(message, mail.from, to, unsubscribe));
      return rejected.length === 0
        ? isSent
        : { state: 'SENT', note: `the mail server refused ${rejected.join(', ')}` };
    } catch (error) {
      const { responseCode = 0 } = error as { responseCode?: number };
      const kind = responseCode >= 500 && responseCode < 600 ? 'refused' : 'unknown';
      throw new HostError(kind, responseCode, `mail: ${messageOf(error)}`);
    }
  }

  end = (target: Target, reason: string): Promise<void> => this.#options.sender.pause(target, reason);

  #open({ url }: MailOptions): Promise<Transporter> {
    this.#transporter ??= import('nodemailer').then(({ createTransport }) =>
      createTransport({
        url,
        ...{
          connectionTimeout: timeoutMs,
          greetingTimeout: timeoutMs,
          socketTimeout: timeoutMs,
          dnsTimeout: timeoutMs,
        },
        ...{ disableFileAccess: true, disableUrlAccess: true },
      }),
    );
    return this.#transporter;
  }
}

/** Its subject is the same for all messages about an agent, so that programs show them as one thread. */
export function mailOf(message: Message, from: string, to: readonly string[], unsubscribe: string | null) {
  const { id, agent, title } = message;
  const domain = /@([\w.-]+)>?\s*$/.exec(from)?.[1] ?? 'muster.invalid';
  const thread = agent && `<agent-${agent.key}@${domain}>`;
  const subject = agent
    ? `[${agent.agentId.workspace}] ${agent.agentId.agent.join('/')}`
    : `[Muster] ${title}`;
  return {
    from,
    to: [...to],
    messageId: `<${id}@${domain}>`,
    ...(thread && { inReplyTo: thread, references: thread }),
    subject: oneLine(subject),
    text: textOf(message, unsubscribe),
    html: htmlOf(message, unsubscribe),
    headers: {
      'Auto-Submitted': 'auto-generated',
      ...(unsubscribe && {
        'List-Unsubscribe': `<${unsubscribe}>`,
        'List-Unsubscribe-Post': 'List-Unsubscribe=One-Click',
      }),
    },
  };
}

const oneLine = (text: string): string => text.replace(/[\p{Cc}\u2028\u2029]+/gu, ' ');

const entriesOf = ({ digest }: Message): readonly Message[] => digest?.messages ?? [];
const moreOf = (message: Message): number => (message.digest?.total ?? 0) - entriesOf(message).length;

function textOf(message: Message, unsubscribe: string | null): string {
  const { title, text, url } = message;
  const more = moreOf(message);
  return [
    title,
    text,
    ...entriesOf(message).map((one) =>
      [`- ${one.title}`, firstLine(one.text), one.url].filter(Boolean).join('\n  '),
    ),
    more > 0 ? `and ${more} more` : '',
    url,
    unsubscribe ? `--\nStop these messages: ${unsubscribe}` : '',
  ]
    .filter(Boolean)
    .join('\n\n');
}

function htmlOf(message: Message, unsubscribe: string | null): string {
  const { title, text, url, agent } = message;
  const more = moreOf(message);
  const items = entriesOf(message).map(
    (one) =>
      `<li><a href="${escaped(one.url)}">${escaped(one.title)}</a> ${escaped(firstLine(one.text))}</li>`,
  );
  return [
    '<!doctype html><html><body style="font-family: sans-serif">',
    `<p><strong>${escaped(title)}</strong></p>`,
    text && `<p style="white-space: pre-wrap">${escaped(text)}</p>`,
    items.length > 0 && `<ul>${items.join('')}</ul>`,
    more > 0 && `<p>and ${more} more</p>`,
    `<p><a href="${escaped(url)}">${agent ? 'Open agent' : 'Open Muster'}</a></p>`,
    unsubscribe && `<p style="color: #666"><a href="${escaped(unsubscribe)}">Stop these messages</a></p>`,
    '</body></html>',
  ]
    .filter(Boolean)
    .join('\n');
}

const firstLine = (text: string): string => text.trim().split('\n', 1)[0] ?? '';

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};
const escaped = (text: string): string => text.replace(/[&<>"']/g, (character) => entities[character] ?? '');

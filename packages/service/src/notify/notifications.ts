import type pg from 'pg';
import { pauseDocument } from '../control/catalog/pause-document.ts';
import type { Control } from '../control/control.ts';
import type { HostRule } from '../lib/host-rules.ts';
import type { ServiceSecrets } from '../lib/service-secret.ts';
import { dueTargets } from '../store/statements/notifications.ts';
import type { TenantMasks } from '../work/tenant-masks.ts';
import { loopOf, type NewLoop } from '../work/work-loops.ts';
import { Administration } from './administration.ts';
import { BrowserChannel } from './browser/browser.ts';
import { Subscriptions } from './browser/subscriptions.ts';
import type { Channel } from './channel.ts';
import { Composer } from './compose.ts';
import { Deliverer } from './deliver.ts';
import { EmailChannel, type MailOptions } from './email.ts';
import { FanOut } from './fan-out.ts';
import { Sender } from './sender.ts';
import { SlackChannel } from './slack.ts';
import { type LinkParts, UnsubscribeLinks } from './unsubscribe.ts';
import { WebhookChannel } from './webhook.ts';

export interface NotificationsOptions {
  readonly database: pg.Pool;
  readonly control: Control;
  readonly secrets: ServiceSecrets;
  readonly masks: TenantMasks;
  readonly publicUrl: () => string;
  readonly innerHosts: readonly HostRule[];
  readonly mail: MailOptions | null;
  /** How long a question and an idle agent wait before they are sent: somebody may be about to answer. */
  readonly settleMs: number;
  /** Looks at the work that waits in the database: there may be some. */
  readonly nudge: () => void;
}

/** Tells people what happened. This file puts the parts together; what they do waits in the database, and any node does it. */
export class Notifications {
  readonly administration: Administration;
  readonly subscriptions: Subscriptions;
  readonly work: readonly NewLoop[];
  readonly #links: UnsubscribeLinks;
  readonly #options: NotificationsOptions;
  readonly #closing = new AbortController();

  constructor(options: NotificationsOptions) {
    const { control, innerHosts, mail, settleMs } = options;
    const { catalog, tenants, reads, metrics, pageTokens } = control;
    this.#options = options;
    this.#links = new UnsubscribeLinks({ ...options, tenants });
    const sender = new Sender({ catalog, tenants, innerHosts, signal: this.#closing.signal });
    const channels: Readonly<Record<string, Channel>> = {
      webhook: new WebhookChannel(sender),
      slack: new SlackChannel(sender),
      email: new EmailChannel({ mail, sender, unsubscribeUrl: (target) => this.#links.url(target) }),
      browser: new BrowserChannel({ ...options, sender }),
    };
    const deliverer = new Deliverer({
      ...options,
      metrics,
      channels,
      composer: new Composer({ ...options, reads }),
    });
    this.administration = new Administration({ ...options, tenants, pageTokens, deliverer });
    this.subscriptions = new Subscriptions({
      ...options,
      administration: this.administration,
      hasMail: mail !== null,
    });
    this.work = [
      (shared) => new FanOut({ ...shared, settleMs }),
      loopOf('notification', dueTargets, deliverer),
    ];
  }

  /** The notification that a link in a mail ends, with its addresses; null if the link is not valid. */
  async linked(parts: LinkParts): Promise<{ readonly name: string } | null> {
    return this.#links.find(parts);
  }

  /** Pauses the notification of a link. False: the link is not valid. */
  async unsubscribe(parts: LinkParts): Promise<boolean> {
    const target = await this.#links.find(parts);
    if (!target) return false;
    const { tenant, name } = target;
    await pauseDocument(
      this.#options.control,
      tenant,
      'notification',
      name,
      'Somebody followed the link in a mail that ends it.',
    );
    return true;
  }

  /** Ends the calls to targets, so that the work that makes them ends. */
  cancel(): void {
    this.#closing.abort();
  }
}

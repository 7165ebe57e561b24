import type { BrowserContext, CDPSession, Page, Route, Worker } from 'playwright-core';
import { afterAll, expect, test } from 'vitest';
import { Mailbox } from '../notify/mailbox.ts';
import { Agents } from '../support/agents.ts';
import { until } from '../support/async.ts';
import { phone } from '../support/browser.ts';
import { type Push, type PushedBrowser, startPushService } from '../support/push-service.ts';
import { startServer } from '../support/server.ts';
import { browserFixture, describeInBrowser } from './fixture.ts';

describeInBrowser('the page of notifications', () => {
  let pushes: Awaited<ReturnType<typeof startPushService>>;
  let mailbox: Mailbox;
  const fixture = browserFixture(async () => {
    pushes = await startPushService();
    mailbox = await Mailbox.start();
    return startServer({
      env: {
        MUSTER_ALLOW_INNER_HOSTS: pushes.host,
        MUSTER_NOTIFICATION_SETTLE_SECONDS: '3',
        MUSTER_SANDBOX: 'off',
        MUSTER_SMTP_URL: mailbox.url,
        MUSTER_MAIL_FROM: 'Muster <muster@example.com>',
      },
    });
  });
  afterAll(async () => {
    await pushes?.close();
    await mailbox?.close();
  });

  /**
   * Chromium without a screen has no notifications and no push service of its own: the page gets a permission, and a
   * subscription for the push service of the test.
   */
  async function arrive(options: Parameters<typeof fixture.visit>[0] = {}) {
    const browser = pushes.browser();
    const prepare = async (context: BrowserContext) => {
      await context.addInitScript(subscribeTo, browser.subscription);
    };
    const visitor = await fixture.visit({ path: '/notifications', prepare, ...options });
    return { browser, visitor, page: visitor.page };
  }

  const card = (page: Page, name: string) => page.getByRole('region', { name });
  const turnOn = async (page: Page) => {
    await card(page, 'This browser').getByRole('button', { name: 'Turn on' }).click();
    await card(page, 'This browser').getByText('on', { exact: true }).waitFor();
  };

  /** The reply to a subscription with this in its text. */
  const subscribed = (page: Page, text: RegExp) =>
    page.waitForResponse(
      (response) =>
        response.url().endsWith('/v1/push/subscribe') && text.test(response.request().postData() ?? ''),
    );

  test('turns the notifications of this browser on and off, and sends a test', async () => {
    const { browser, visitor, page } = await arrive();
    expect(await visitor.accessibilityProblems()).toEqual([]);
    await turnOn(page);
    await page.getByRole('button', { name: 'Send a test' }).click();
    await page.getByText('If nothing appears').waitFor();
    expect(await browser.titles(1)).toEqual(['Test message']);
    await card(page, 'Sent lately').getByText('sent', { exact: true }).waitFor();

    // The first request arrives last. What was chosen is shown meanwhile, and what was chosen last is kept.
    const held: Route[] = [];
    await page.route('**/v1/push/subscribe', (route) => void held.push(route), { times: 1 });
    await page.getByLabel('About').selectOption('All agents that I may read');
    await expect.poll(() => held).toHaveLength(1);
    await page.getByLabel('Quiet hours').check();
    await page.getByLabel('From').focus();
    await page.keyboard.type('0930PM');
    expect(await page.getByLabel('About').inputValue()).toBe('ALL');
    expect(await page.getByLabel('From').inputValue()).toBe('21:30');
    const saved = subscribed(page, /21:30/);
    await held[0]?.continue();
    await saved;
    // A page that was closed at that moment may have stored an earlier choice.
    await page.evaluate(() => {
      for (const key of Object.keys(localStorage).filter((name) => name.startsWith('muster.push ')))
        localStorage.setItem(key, '{"scope":"MINE"}');
    });
    const renewed = subscribed(page, /./);
    await page.reload();
    await renewed;
    await expect.poll(() => page.getByLabel('About').inputValue()).toBe('ALL');
    await expect.poll(() => page.getByLabel('From').inputValue()).toBe('21:30');
    expect(await visitor.accessibilityProblems()).toEqual([]);
    const here = card(page, 'This browser');
    await here.getByRole('button', { name: 'Turn off' }).click();
    await here.getByRole('button', { name: 'Turn on' }).waitFor();
    await expect.poll(() => card(page, 'Sent lately').count()).toBe(0);
    expect(visitor.errors).toEqual([]);
    await visitor.leave();
  });

  test('sends email to an address of the person, and stops', async () => {
    const { visitor, page } = await arrive();
    const email = card(page, 'Email');
    await email.getByLabel('Address').fill('ada@example.com');
    await email.getByRole('button', { name: 'Turn on' }).click();
    await email.getByText('on', { exact: true }).waitFor();
    expect(await visitor.accessibilityProblems()).toEqual([]);
    await email.getByRole('button', { name: 'Send a test' }).click();
    await email.getByText('Sent.').waitFor();
    expect(mailbox.received.map(({ to }) => to)).toEqual([['ada@example.com']]);
    await email.getByRole('button', { name: 'Turn off' }).click();
    await email.getByText('off', { exact: true }).waitFor();
    expect(await email.getByRole('button', { name: 'Send a test' }).count()).toBe(0);
    await visitor.leave();
  });

  test('explains why notifications can not be turned on', async () => {
    for (const [text, init] of [
      ['Notifications of this site are blocked', () => undefined],
      ['can’t show notifications of a page', () => Reflect.deleteProperty(window, 'PushManager')],
      [
        'only of pages on HTTPS',
        () => Object.defineProperty(window, 'isSecureContext', { get: () => false }),
      ],
    ] as const) {
      const prepare = (context: BrowserContext) => context.addInitScript(init);
      const visitor = await fixture.visit({ path: '/notifications', prepare });
      await card(visitor.page, 'This browser').getByText(text).waitFor();
      expect(await card(visitor.page, 'This browser').getByRole('button').count()).toBe(0);
      await visitor.leave();
    }
  });

  test('the service worker shows a question, and a click opens the agent', async () => {
    const { browser, visitor, page } = await arrive();
    await turnOn(page);
    const worker = await workerOf(page);
    const agents = new Agents(fixture.api, 'default');
    await agents.spawn('asker', { description: '!ask Which database?' });
    await browser.titles(1);
    const [{ push }] = browser.received as [PushedBrowser['received'][number]];
    await worker.deliver(push);
    expect(await worker.shown()).toEqual([
      { title: 'asker needs input', body: 'Which database?', tag: push.tag },
    ]);

    // The page with the settings may have something unsaved, so another one is opened.
    await worker.click(push.tag);
    expect(await worker.shown()).toEqual([]);
    expect(await worker.opened()).toEqual([`${fixture.server.url}${push.url}`]);
    // A page with the list is taken.
    await visitor.goto('/');
    await worker.deliver(push);
    await worker.click(push.tag);
    await page.waitForURL(`**${push.url}`);
    await page.getByRole('heading', { level: 1, name: 'asker' }).waitFor();
    await worker.deliver(push);
    await worker.click(push.tag);
    expect(await worker.opened()).toHaveLength(1);
    await visitor.leave();
  });

  test('nothing is pushed while the page of the agent is visible', async () => {
    const { browser, visitor, page } = await arrive();
    await turnOn(page);
    const agents = new Agents(fixture.api, 'default');
    await agents.spawn('watched', { description: '!sleep 2\n!ask Which database?' });
    await visitor.follow(new URL((await agents.status('watched')).dashboardUrl).pathname);
    await page.getByText('Which database?').first().waitFor();
    const { session } = await page.evaluate(async () => (await fetch('/v1/session')).json());
    const states = async () => {
      const { subscriptions } = await page.evaluate(async () =>
        (
          await fetch('/v1/push/subscriptions', {
            method: 'POST',
            body: '{}',
            headers: { 'content-type': 'application/json' },
          })
        ).json(),
      );
      const one = subscriptions.find(({ id }: { id: string }) => id === session.id);
      return one.recent.map(({ state, error }: { state: string; error: string }) => `${state} ${error}`);
    };
    await expect.poll(states, { timeout: 20_000 }).toEqual(['DROPPED it was seen in the dashboard']);
    expect(browser.received).toEqual([]);

    // Somewhere else, it is.
    await visitor.follow('/catalog');
    await agents.queue('watched', '!ask And which port?');
    expect(await browser.titles(1)).toEqual(['watched needs input']);
    // An answer withdraws it, without a sound where nothing else is shown.
    const worker = await workerOf(page);
    await worker.deliver((browser.received[0] as PushedBrowser['received'][number]).push);
    await agents.queue('watched', '!say Thanks.');
    await browser.titles(2);
    await worker.deliver((browser.received[1] as PushedBrowser['received'][number]).push);
    expect(await worker.shown()).toEqual([]);
    await visitor.leave();
  });

  test('fits a phone, and begins again with the next session of the person', async () => {
    const desk = await arrive();
    await turnOn(desk.page);
    const { browser, visitor, page } = await arrive(phone);
    await turnOn(page);
    await visitor.expectNoSidewaysScroll();
    expect(await visitor.accessibilityProblems()).toEqual([]);
    await page.getByRole('button', { name: 'Account' }).tap();
    await page.getByRole('button', { name: 'Sign out' }).tap();
    await page.getByRole('heading', { name: 'Sign in' }).waitFor();
    const agents = new Agents(fixture.api, 'default');
    await agents.spawn('unheard', { description: '!ask Me?' });
    expect(await desk.browser.titles(1)).toEqual(['unheard needs input']);
    await desk.visitor.leave();
    await page.getByLabel('Key').fill(fixture.server.key);
    await page.getByRole('button', { name: 'Sign in' }).tap();
    await page.getByRole('button', { name: 'Account' }).tap();
    await page.getByRole('link', { name: 'Notifications' }).tap();
    await card(page, 'This browser').getByText('on', { exact: true }).waitFor();
    await agents.spawn('heard', { description: '!ask Me?' });
    expect((await browser.titles(1))[0]).toBe('heard needs input');
    await visitor.leave();
  });
});

/** The service worker of a page. It keeps what it would show, because there is no screen. */
async function workerOf(page: Page) {
  const context = page.context();
  const worker: Worker = context.serviceWorkers()[0] ?? (await context.waitForEvent('serviceworker'));
  await worker.evaluate(keepNotifications);
  const cdp: CDPSession = await context.newCDPSession(page);
  const registrations: { registrationId: string }[] = [];
  cdp.on('ServiceWorker.workerRegistrationUpdated', (event) => registrations.push(...event.registrations));
  await cdp.send('ServiceWorker.enable');
  const registrationId = await until(
    'the registration',
    async () => registrations[0]?.registrationId,
    (id) => id !== undefined,
  );
  const shown = () =>
    worker.evaluate(() =>
      (self as unknown as Kept).kept.map(({ title, body, tag }) => ({ title, body, tag })),
    );
  const settled = () => worker.evaluate(() => (self as unknown as Kept).settled());
  return {
    shown,
    deliver: async (push: Push) => {
      const { origin } = new URL(page.url());
      await cdp.send('ServiceWorker.deliverPushMessage', {
        origin,
        registrationId: registrationId as string,
        data: JSON.stringify(push),
      });
      await settled();
    },
    click: async (tag: string) => {
      await worker.evaluate((name) => (self as unknown as Kept).click(name), tag);
      await settled();
    },
    opened: () => worker.evaluate(() => (self as unknown as Kept).opened),
  };
}

interface KeptNotification {
  title: string;
  body: string;
  tag: string;
  data: unknown;
  close(): void;
}

interface Kept {
  kept: KeptNotification[];
  opened: string[];
  click(tag: string): void;
  settled(): Promise<void>;
}

/** Runs in the page. */
function subscribeTo(keys: PushedBrowser['subscription']): void {
  Object.defineProperty(Notification, 'permission', { get: () => 'granted' });
  Object.assign(Notification, { requestPermission: async () => 'granted' });
  let subscription: object | null = null;
  const decoded = (text: string) =>
    Uint8Array.from(atob(text.replaceAll('-', '+').replaceAll('_', '/')), (one) => one.charCodeAt(0)).buffer;
  Object.assign(PushManager.prototype, {
    getSubscription: async () => subscription,
    subscribe: async ({ applicationServerKey }: { applicationServerKey: string }) => {
      subscription = {
        options: { applicationServerKey: decoded(applicationServerKey) },
        toJSON: () => ({ endpoint: keys.endpoint, keys: { p256dh: keys.p256dh, auth: keys.auth } }),
        unsubscribe: async () => {
          subscription = null;
        },
      };
      return subscription;
    },
  });
}

/** Runs in the service worker. */
function keepNotifications(): void {
  const scope = self as unknown as Kept & {
    clients: { openWindow: unknown };
    dispatchEvent(event: Event): void;
  };
  if (scope.kept) return;
  scope.kept = [];
  scope.opened = [];
  const works: Promise<unknown>[] = [];
  const { waitUntil } = prototypeOf('ExtendableEvent');
  Object.assign(prototypeOf('ExtendableEvent'), {
    waitUntil(this: Event, work: Promise<unknown>) {
      works.push(work.catch(() => {}));
      // An event of this test is not one of the browser.
      if (this.isTrusted) waitUntil.call(this, work);
    },
  });
  scope.settled = async () => {
    await new Promise((resolve) => setTimeout(resolve, 0));
    while (works.length > 0) await works.shift();
  };
  Object.assign(prototypeOf('ServiceWorkerRegistration'), {
    getNotifications: async () => [...scope.kept],
    showNotification: async (title: string, { body = '', tag = '', data }: Partial<KeptNotification>) => {
      const one = {
        title,
        body,
        tag,
        data,
        close: () => (scope.kept = scope.kept.filter((other) => other !== one)),
      };
      scope.kept = [...scope.kept.filter((other) => other.tag !== tag), one];
    },
  });
  // Only a click of a person may do this.
  Object.assign(scope.clients, {
    openWindow: async (url: string) => {
      scope.opened.push(url);
      return null;
    },
  });
  Object.assign(prototypeOf('WindowClient'), {
    async focus() {
      return this;
    },
  });
  scope.click = (tag) => {
    const notification = scope.kept.find((one) => one.tag === tag);
    const event = new (self as unknown as { ExtendableEvent: typeof Event }).ExtendableEvent(
      'notificationclick',
    );
    scope.dispatchEvent(Object.assign(event, { notification }));
  };

  function prototypeOf(name: string) {
    return (
      self as unknown as Record<
        string,
        { prototype: { waitUntil: (this: Event, work: Promise<unknown>) => void } }
      >
    )[name]?.prototype as { waitUntil: (this: Event, work: Promise<unknown>) => void };
  }
}

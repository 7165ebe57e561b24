import type { BrowserContext, Page, Request, Route } from 'playwright-core';
import { afterAll, expect, test } from 'vitest';
import { Mailbox } from '../notify/mailbox.ts';
import { Agents } from '../support/agents.ts';
import { until } from '../support/async.ts';
import { hasWholeChromium, phone, Visitor } from '../support/browser.ts';
import { Desktop, type ShownNotification } from '../support/desktop.ts';
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
   * The headless shell has no notifications, and no Chromium of a test has a push service: the page gets a permission, and
   * a subscription for the push service of the test.
   */
  async function arrive(options: Parameters<typeof fixture.visit>[0] = {}) {
    const browser = pushes.browser();
    const prepare = async (context: BrowserContext) => {
      await context.addInitScript(allowNotifications);
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

    // Requests are sent in the order of the choices. What was chosen is shown meanwhile.
    const held: Route[] = [];
    await page.route('**/v1/push/subscribe', (route) => void held.push(route), { times: 1 });
    await page.getByLabel('About').selectOption('All agents that I may read');
    await expect.poll(() => held).toHaveLength(1);
    const early: string[] = [];
    const note = (request: Request) =>
      void (request.url().includes('/v1/push/') && early.push(request.url()));
    page.on('request', note);
    await page.getByLabel('Quiet hours').check();
    await page.getByLabel('From').focus();
    await page.keyboard.type('0930PM');
    expect(await page.getByLabel('About').inputValue()).toBe('ALL');
    expect(await page.getByLabel('From').inputValue()).toBe('21:30');
    expect(early).toEqual([]);
    page.off('request', note);
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
    // Quiet hours are saved with the address, and both can be changed later.
    await email.getByLabel('Quiet hours').check();
    await email.getByLabel('To').fill('06:30');
    await email.getByRole('button', { name: 'Save' }).click();
    await expect.poll(() => email.getByRole('button', { name: 'Save' }).isDisabled()).toBe(true);
    await page.reload();
    await expect.poll(() => email.getByLabel('To').inputValue()).toBe('06:30');
    expect(await visitor.accessibilityProblems(email)).toEqual([]);
    await email.getByLabel('Quiet hours').uncheck();
    await email.getByRole('button', { name: 'Save' }).click();
    await expect.poll(() => email.getByRole('button', { name: 'Save' }).isDisabled()).toBe(true);
    await page.reload();
    await email.getByText('on', { exact: true }).waitFor();
    expect(await email.getByLabel('Quiet hours').isChecked()).toBe(false);
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

  test.skipIf(!hasWholeChromium)(
    'the desktop shows a question until it is answered, and a click opens the agent',
    async () => {
      const desktop = await Desktop.start();
      const browser = pushes.browser();
      const prepare = (context: BrowserContext) => context.addInitScript(subscribeTo, browser.subscription);
      const visitor = await Visitor.arriveOnDesktop(desktop, fixture.server, {
        path: '/notifications',
        prepare,
      });
      const { page } = visitor;
      const pages = () => page.context().pages().length;
      await turnOn(page);
      const deliver = await pushTo(page);
      const agents = new Agents(fixture.api, 'default');
      await agents.spawn('asker', { description: '!ask Which <b>database</b>?' });
      await browser.titles(1);
      const [{ push }] = browser.received as [PushedBrowser['received'][number]];
      const shown = async () => {
        await deliver(push);
        return until(
          'a notification',
          async () => desktop.shown[0],
          (one) => one !== undefined,
        ) as Promise<ShownNotification>;
      };
      const first = await shown();
      expect(first.title).toBe('asker needs input');
      expect(first.body).toBe(`${new URL(page.url()).host}\n\nWhich <b>database</b>?`);

      // The page with the settings may have something unsaved, so another one is opened.
      const opening = page.context().waitForEvent('page');
      desktop.click(first);
      const opened = await opening;
      await opened.waitForURL(`**${push.url}`);
      await opened.getByRole('heading', { level: 1, name: 'asker' }).waitFor();
      await expect.poll(() => desktop.shown).toEqual([]);
      await opened.close();
      // A page with the list is taken, and one that shows the agent is.
      await visitor.goto('/');
      const before = pages();
      for (const _ of ['list', 'agent']) {
        desktop.click(await shown());
        await page.waitForURL(`**${push.url}`);
        await expect.poll(() => desktop.shown).toEqual([]);
      }
      expect(pages()).toBe(before);

      await shown();
      await agents.queue('asker', '!say Thanks.');
      await browser.titles(2);
      await deliver((browser.received[1] as PushedBrowser['received'][number]).push);
      await expect.poll(() => desktop.shown).toEqual([]);
      await visitor.leave();
      await desktop.close();
    },
  );

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

/** Delivers to the service worker of a page what its push service would. */
async function pushTo(page: Page): Promise<(push: Push) => Promise<void>> {
  const cdp = await page.context().newCDPSession(page);
  const registrations: { registrationId: string }[] = [];
  cdp.on('ServiceWorker.workerRegistrationUpdated', (event) => registrations.push(...event.registrations));
  await cdp.send('ServiceWorker.enable');
  await expect.poll(() => registrations.length).toBeGreaterThan(0);
  const { origin } = new URL(page.url());
  const { registrationId = '' } = registrations[0] ?? {};
  return async (push) => {
    await cdp.send('ServiceWorker.deliverPushMessage', {
      origin,
      registrationId,
      data: JSON.stringify(push),
    });
  };
}

/** Runs in the page. */
function allowNotifications(): void {
  Object.defineProperty(Notification, 'permission', { get: () => 'granted' });
  Object.assign(Notification, { requestPermission: async () => 'granted' });
}

/** Runs in the page. */
function subscribeTo(keys: PushedBrowser['subscription']): void {
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

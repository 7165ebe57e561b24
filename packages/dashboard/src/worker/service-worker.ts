/**
 * Shows what the service pushes, and opens the agent on a click. It stores nothing and answers no requests of pages. The
 * bundle is one file at the root, so that its scope is the whole dashboard; it imports nothing.
 */
interface Push {
  readonly title: string;
  readonly body: string;
  /** Of one agent; a newer notification replaces the one before. */
  readonly tag: string;
  /** A path of the dashboard, or the address of another site. */
  readonly url: string;
  /** The agent no longer needs a person. */
  readonly withdrawn: boolean;
}

interface ExtendableEvent extends Event {
  waitUntil(work: Promise<unknown>): void;
}

interface WindowClient {
  readonly url: string;
  readonly visibilityState: string;
  focus(): Promise<WindowClient>;
  navigate(url: string): Promise<WindowClient | null>;
}

interface WorkerScope {
  readonly registration: ServiceWorkerRegistration;
  readonly clients: {
    claim(): Promise<void>;
    matchAll(options: { type: 'window'; includeUncontrolled: true }): Promise<readonly WindowClient[]>;
    openWindow(url: string): Promise<WindowClient | null>;
  };
  skipWaiting(): Promise<void>;
  addEventListener(type: 'install' | 'activate', listener: (event: ExtendableEvent) => void): void;
  addEventListener(
    type: 'push',
    listener: (event: ExtendableEvent & { readonly data: { json(): unknown } | null }) => void,
  ): void;
  addEventListener(
    type: 'notificationclick',
    listener: (event: ExtendableEvent & { readonly notification: Notification }) => void,
  ): void;
}

const worker = self as unknown as WorkerScope;

const windows = () => worker.clients.matchAll({ type: 'window', includeUncontrolled: true });

/**
 * Browsers demand that a push shows something, unless a page of the dashboard is visible. So the last notification is
 * replaced, without a sound, instead of closed.
 */
async function withdraw({ title, tag, url }: Push): Promise<void> {
  const shown = await worker.registration.getNotifications();
  const own = shown.filter((one) => one.tag === tag);
  const isVisible = (await windows()).some(({ visibilityState }) => visibilityState === 'visible');
  if (shown.length > own.length || isVisible) for (const one of own) one.close();
  else await worker.registration.showNotification(title, { tag, silent: true, data: { url } });
}

async function open(url: string): Promise<void> {
  const { href } = new URL(url, location.origin);
  const pages = await windows();
  const same = pages.find((page) => page.url === href);
  // Any other page may have something that is not saved.
  const list = pages.find((page) => new URL(page.url).pathname === '/');
  if (same) await same.focus();
  else if (list) await (await list.focus()).navigate(href).catch(() => worker.clients.openWindow(href));
  else await worker.clients.openWindow(href);
}

worker.addEventListener('install', (event) => event.waitUntil(worker.skipWaiting()));
worker.addEventListener('activate', (event) => event.waitUntil(worker.clients.claim()));

worker.addEventListener('push', (event) => {
  const push = event.data?.json() as Push | undefined;
  if (!push) return;
  const { title, body, tag, url } = push;
  event.waitUntil(
    push.withdrawn
      ? withdraw(push)
      : worker.registration.showNotification(title, { body, tag, data: { url } }),
  );
});

worker.addEventListener('notificationclick', (event) => {
  event.notification.close();
  event.waitUntil(open((event.notification.data as { url?: string } | null)?.url ?? '/'));
});

import type { MusterClient, PushSubscription as Subscription } from '@muster/sdk';
import { trustedUrl } from '../../parts/model/trusted-url.ts';

/** Of the query for the person's browsers. */
export const pushKey = ['push'];

/** What a person wants of this browser. It is stored in the browser, because the service forgets it with the session. */
export interface PushChoice {
  readonly scope: Subscription['scope'];
  readonly quietHours: Subscription['quietHours'];
}

/** Why this browser can't show notifications, or `null`. */
export type Obstacle = 'insecure' | 'unsupported' | 'denied' | null;

export function obstacle(): Obstacle {
  if (!window.isSecureContext) return 'insecure';
  const isSupported = 'serviceWorker' in navigator && 'PushManager' in window && 'Notification' in window;
  if (!isSupported) return 'unsupported';
  return Notification.permission === 'denied' ? 'denied' : null;
}

const choiceKey = (person: string): string => `muster.push ${person}`;

export function storedChoice(person: string): PushChoice | null {
  try {
    const { scope, quietHours = null } = JSON.parse(
      localStorage.getItem(choiceKey(person)) ?? '',
    ) as PushChoice;
    return { scope, quietHours };
  } catch {
    return null;
  }
}

const workerUrl = '/service-worker.js';

let registration: Promise<ServiceWorkerRegistration> | undefined;

async function register(): Promise<ServiceWorkerRegistration> {
  registration ??= navigator.serviceWorker.register(trustedUrl('service-worker', workerUrl));
  await registration;
  return navigator.serviceWorker.ready;
}

let last: Promise<unknown> = Promise.resolve();

/** One after the other, so that the last choice is the one that is kept. */
function inOrder<T>(work: () => Promise<T>): Promise<T> {
  const next = last.then(work, work);
  last = next;
  return next;
}

/** Asks for the permission if that is needed; a click has to be the cause. Throws with what to do. */
export async function turnOn(client: MusterClient, person: string, choice: PushChoice): Promise<void> {
  if ((await Notification.requestPermission()) !== 'granted')
    throw new Error('The browser did not allow notifications for this site.');
  await inOrder(async () => {
    await subscribe(client, () => choice);
    localStorage.setItem(choiceKey(person), JSON.stringify(choice));
  });
}

/** `choose` gets what the service has for this session. */
async function subscribe(
  client: MusterClient,
  choose: (current: Subscription | undefined) => PushChoice | null,
): Promise<void> {
  const { pushManager } = await register();
  const { publicKey, subscriptions } = await client.pushSubscriptions();
  const choice = choose(subscriptions.find(({ isCurrent }) => isCurrent));
  if (!choice) return;
  const { scope, quietHours } = choice;
  const subscription = await subscriptionFor(pushManager, publicKey);
  const { endpoint, keys: { p256dh = '', auth = '' } = {} } = subscription.toJSON();
  await client.subscribePush({
    ...{ endpoint: endpoint ?? '', p256dh, auth, scope },
    ...(quietHours && { quietHours }),
  });
}

/** A subscription for another key of the service gets nothing. */
async function subscriptionFor(pushManager: PushManager, publicKey: string): Promise<PushSubscription> {
  const before = await pushManager.getSubscription();
  if (before && base64url(before.options.applicationServerKey) === publicKey) return before;
  await before?.unsubscribe();
  return pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: publicKey });
}

const base64url = (bytes: ArrayBuffer | null): string =>
  btoa(String.fromCharCode(...new Uint8Array(bytes ?? new ArrayBuffer(0))))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replace(/=+$/, '');

export function turnOff(client: MusterClient, person: string, id: string): Promise<void> {
  localStorage.removeItem(choiceKey(person));
  return inOrder(async () => {
    // A change before it has stored its choice.
    localStorage.removeItem(choiceKey(person));
    await client.unsubscribePush(id);
  });
}

/**
 * A new session begins without notifications: a person who has turned them on in this browser gets them again. A session
 * that has them keeps what the service knows, for a page that was closed may not have stored its last choice.
 */
export function renew(client: MusterClient, person: string): Promise<void> {
  return inOrder(async () => {
    if (!storedChoice(person) || obstacle() !== null || Notification.permission !== 'granted') return;
    await subscribe(client, (current) => current ?? storedChoice(person));
  });
}

import { afterAll, beforeAll, describe } from 'vitest';
import { type Api, apiOf } from '../support/api.ts';
import { closeContexts, hasChromium, sharedChromium, Visitor } from '../support/browser.ts';
import type { Server } from '../support/server.ts';

type TestServer = Pick<Server, 'url' | 'key' | 'close'>;

export interface BrowserFixture<S> {
  readonly server: S;
  /** Calls the server with its own key. */
  readonly api: Api;
  /** Opens the dashboard, signed in with the server's own key unless the options say otherwise. */
  readonly visit: (options?: Parameters<typeof Visitor.arrive>[2]) => Promise<Visitor>;
}

/**
 * Whether checks are repeated on every page and screen, as `npm run test:deep` does. Otherwise accessibility on a phone is
 * checked on the home page, the page of an agent with its review, and the dialog for a new agent; pictures.test.ts opens
 * every page on a phone.
 */
export const onEveryScreen = process.env.MUSTER_BROWSER_EVERY_SCREEN !== undefined;

/** A suite that needs Chromium. */
export const describeInBrowser = describe.skipIf(!hasChromium);

/**
 * Starts a server and the browser before the suite and closes both after it. Call it first in the suite: hooks that are
 * registered after it can use the server, and run before the server closes.
 */
export function browserFixture<S extends TestServer>(start: () => Promise<S>): BrowserFixture<S> {
  let started: S | undefined;
  const server = (): S => {
    if (!started) throw new Error('the server of the browser fixture has not started yet');
    return started;
  };
  beforeAll(async () => {
    [started] = await Promise.all([start(), sharedChromium()]);
  });
  afterAll(async () => {
    await closeContexts(await sharedChromium());
    await started?.close();
  });
  return {
    get server() {
      return server();
    },
    get api() {
      return apiOf(server());
    },
    visit: async (options) => Visitor.arrive(await sharedChromium(), server(), options),
  };
}

import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text as readText } from 'node:stream/consumers';
import { anthropicProtocol } from './anthropic.ts';
import { makersName, placeOf } from './clouds.ts';
import { openaiProtocol } from './openai.ts';
import type {
  AnswerStep,
  ConversationEntry,
  Pieces,
  SeenRequest,
  Step,
  StubProtocol,
  Tokens,
} from './script.ts';

type Body = Readonly<Record<string, unknown>>;

/** Both providers on one port, with the scripts of a test. It accepts any key, and records it. */
export interface ProviderStub {
  readonly url: string;
  /** For ANTHROPIC_BASE_URL. */
  readonly anthropicUrl: string;
  /** For OPENAI_BASE_URL. */
  readonly openaiUrl: string;
  /** Every model request so far, oldest first. */
  readonly requests: readonly SeenRequest[];
  /** The usage in each answer from now on. */
  tokens: Tokens;
  /** Keys with which the list of models is refused. Requests for the list do not count as model requests. */
  readonly refusedKeys: Set<string>;
  /** Every request for a token of a login so far. */
  readonly logins: readonly Login[];
  /** Registers a script and returns its marker, which starts it anywhere in a message. */
  script(steps: readonly Step[]): string;
  /** The requests in whose conversation this marker is the last. */
  requestsOf(marker: string): SeenRequest[];
  /** The first request that matches, whether it was received already or will be. */
  whenSeen(predicate: (request: SeenRequest) => boolean): Promise<SeenRequest>;
  close(): Promise<void>;
}

/** A request to the token endpoint of ChatGPT or Google. */
export interface Login {
  readonly path: string;
  readonly text: string;
  /** The access token in the answer. */
  readonly token: string;
}

/** Served at their own paths, and below the prefixes of the gateway. */
const protocols: readonly StubProtocol[] = [anthropicProtocol, openaiProtocol];

const unscripted: AnswerStep = { say: 'Nothing to do.' };

export const startProviderStub = async (): Promise<ProviderStub> => {
  const stub = new Stub();
  stub.server.listen(0, '127.0.0.1');
  await once(stub.server, 'listening');
  return stub;
};

class Stub implements ProviderStub {
  /** As providers, it leaves connections open for long. */
  readonly server = createServer({ keepAliveTimeout: 60_000 }, (request, response) => {
    this.#serve(request, response).catch((failure: unknown) => {
      if (response.headersSent) response.destroy();
      else sendJson(response, 500, { error: { message: String(failure) } });
    });
  });
  readonly requests: SeenRequest[] = [];
  readonly logins: Login[] = [];
  readonly refusedKeys = new Set<string>();
  /** The last marker in each request's conversation. */
  readonly #markers = new Map<SeenRequest, string | undefined>();
  tokens: Tokens = { input: 100, cached: 0, output: 10 };

  readonly #scripts: (readonly Step[])[] = [];
  /** How often a step with `times` was used. */
  readonly #used = new Map<Step, number>();
  readonly #watchers = new Set<(request: SeenRequest) => void>();
  #answers = 0;

  get url(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  get anthropicUrl(): string {
    return this.url;
  }

  get openaiUrl(): string {
    return `${this.url}/v1`;
  }

  script(steps: readonly Step[]): string {
    // Copies: scripts may share steps, but not their counts.
    return `[[script ${this.#scripts.push(steps.map((step) => ({ ...step })))}]]`;
  }

  requestsOf(marker: string): SeenRequest[] {
    return this.requests.filter((request) => this.#markers.get(request) === marker);
  }

  whenSeen(predicate: (request: SeenRequest) => boolean): Promise<SeenRequest> {
    const seen = this.requests.find(predicate);
    if (seen !== undefined) return Promise.resolve(seen);
    return new Promise((resolve) => {
      const watch = (request: SeenRequest): void => {
        if (!predicate(request)) return;
        this.#watchers.delete(watch);
        resolve(request);
      };
      this.#watchers.add(watch);
    });
  }

  async close(): Promise<void> {
    this.server.close();
    this.server.closeAllConnections();
    await once(this.server, 'close');
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname, search } = new URL(request.url ?? '/', 'http://stub');
    const text = await readText(request);
    if (pathname.startsWith('/login/')) return this.#login(pathname, text, response);
    if (request.method === 'GET' && pathname === '/v1/models') return this.#models(request, response);
    const place = placeOf(pathname);
    const { protocol, path } = place ? { ...place, path: place.protocol.path } : route(pathname);
    const given = text === '' ? {} : (JSON.parse(text) as Body);
    const body = place?.model === undefined ? given : { ...given, model: makersName(place.model) };
    place?.prepare?.(response);
    if (request.method !== 'POST' || path !== protocol.path) {
      const reply = request.method === 'HEAD' || path === '/' ? {} : protocol.other?.(path, body);
      sendJson(response, reply === undefined ? 404 : 200, reply ?? protocol.error(404));
      return;
    }
    const received = { path: pathname, query: search, headers: request.headers, body: given, text };
    const seen = { provider: protocol.provider, at: Date.now(), ...received };
    this.#markers.set(seen, lastMarker(protocol.conversation(body))?.marker);
    this.#see(seen);
    await this.#answer(protocol, body, response);
  }

  /** A token for each request, in the format of both: ChatGPT's is JSON with three tokens, Google's has a lifetime. */
  #login(path: string, text: string, response: ServerResponse): void {
    const token = `canary-access-${this.logins.length + 1}-${randomBytes(8).toString('hex')}`;
    this.logins.push({ path, text, token });
    const refresh_token = `canary-refresh-${randomBytes(8).toString('hex')}`;
    const types = {
      issued_token_type: 'urn:ietf:params:oauth:token-type:access_token',
      token_type: 'Bearer',
    };
    const id_token = `${refresh_token}-id`;
    sendJson(response, 200, { access_token: token, refresh_token, id_token, expires_in: 3600, ...types });
  }

  #models({ headers }: IncomingMessage, response: ServerResponse): void {
    const key = String(headers['x-api-key'] ?? headers.authorization?.replace(/^Bearer /, ''));
    const isRefused = this.refusedKeys.has(key);
    sendJson(response, isRefused ? 401 : 200, isRefused ? anthropicProtocol.error(401) : { data: [] });
  }

  #see(request: SeenRequest): void {
    this.requests.push(request);
    for (const watch of [...this.#watchers]) watch(request);
  }

  async #answer(protocol: StubProtocol, body: Body, response: ServerResponse): Promise<void> {
    this.#answers += 1;
    const exchange = { body, response, tokens: this.tokens, id: String(this.#answers) };
    const thoughts: Pieces[] = [];
    for (const step of this.#stepsFor(protocol.conversation(body))) {
      if ('think' in step) {
        thoughts.push(step.think);
      } else if ('until' in step) {
        await Promise.race([step.until, once(response, 'close')]);
        if (response.destroyed) return;
      } else if ('status' in step) {
        if (!this.#isDue(step)) continue;
        sendJson(response, step.status, step.body ?? protocol.error(step.status), step.headers);
        return;
      } else if ('stall' in step) {
        if (!this.#isDue(step)) continue;
        protocol.begin(exchange);
        return;
      } else {
        return protocol.answer(exchange, thoughts, step);
      }
    }
    return protocol.answer(exchange, thoughts, unscripted);
  }

  /** The steps of the script after the answers that the model has given. */
  #stepsFor(conversation: readonly ConversationEntry[]): readonly Step[] {
    const last = lastMarker(conversation);
    if (last === undefined) return [];
    const steps = this.#scripts[last.number - 1];
    if (steps === undefined) return [];
    let answered = conversation.slice(last.at).filter((message) => message.by === 'model').length;
    let from = 0;
    while (answered > 0 && from < steps.length) {
      const step = steps[from];
      if (step !== undefined && isAnswer(step)) answered -= 1;
      from += 1;
    }
    return steps.slice(from);
  }

  #isDue(step: Step & { readonly times?: number }): boolean {
    const used = this.#used.get(step) ?? 0;
    this.#used.set(step, used + 1);
    return used < (step.times ?? Number.POSITIVE_INFINITY);
  }
}

const isAnswer = (step: Step): step is AnswerStep =>
  !('think' in step || 'until' in step || 'status' in step || 'stall' in step);

const lastMarker = (
  conversation: readonly ConversationEntry[],
): { marker: string; number: number; at: number } | undefined => {
  for (let at = conversation.length - 1; at >= 0; at -= 1) {
    const message = conversation[at];
    const found =
      message?.by === 'user' ? [...message.text.matchAll(/\[\[script (\d+)\]\]/g)].at(-1) : undefined;
    if (found !== undefined) return { marker: found[0], number: Number(found[1]), at };
  }
  return undefined;
};

const route = (pathname: string): { protocol: StubProtocol; path: string } => {
  for (const protocol of protocols) {
    const prefix = `/${protocol.provider}/`;
    if (pathname.startsWith(prefix)) return { protocol, path: pathname.slice(prefix.length - 1) };
  }
  return {
    protocol: pathname.startsWith(anthropicProtocol.path) ? anthropicProtocol : openaiProtocol,
    path: pathname,
  };
};

const sendJson = (
  response: ServerResponse,
  status: number,
  body: unknown,
  headers: Readonly<Record<string, string>> = {},
): void => {
  response.writeHead(status, { 'content-type': 'application/json', ...headers });
  response.end(JSON.stringify(body));
};

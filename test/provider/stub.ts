import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { anthropicWire } from './anthropic.ts';
import { openaiWire } from './openai.ts';
import type { SeenRequest, Step, Tokens } from './script.ts';
import type { AnswerStep, Said, Wire } from './wire.ts';

type Body = Readonly<Record<string, unknown>>;

/** Both providers behind one port, playing the scripts that a test gives them. It checks no keys, but shows them. */
export interface ProviderStub {
  readonly url: string;
  /** For ANTHROPIC_BASE_URL. */
  readonly anthropicUrl: string;
  /** For OPENAI_BASE_URL. */
  readonly openaiUrl: string;
  /** Every model request so far, oldest first. */
  readonly requests: readonly SeenRequest[];
  /** What each answer from now on says it used. */
  tokens: Tokens;
  /** Registers a script; the text that is returned calls for it wherever it stands in a message. */
  script(steps: readonly Step[]): string;
  /** The requests in whose conversation this marker is the last. */
  requestsOf(marker: string): SeenRequest[];
  /** The first request that fits, whether it has come or is still to come. */
  whenSeen(predicate: (request: SeenRequest) => boolean): Promise<SeenRequest>;
  close(): Promise<void>;
}

/** Reached by their own paths, and below the prefixes by which the gateway tells them apart. */
const wires: readonly Wire[] = [anthropicWire, openaiWire];

const unscripted: AnswerStep = { say: 'Nothing to do.' };

export const startProviderStub = async (): Promise<ProviderStub> => {
  const stub = new Stub();
  stub.server.listen(0, '127.0.0.1');
  await once(stub.server, 'listening');
  return stub;
};

class Stub implements ProviderStub {
  readonly server = createServer((request, response) => {
    this.#serve(request, response).catch((failure: unknown) => {
      if (response.headersSent) response.destroy();
      else sendJson(response, 500, { error: { message: String(failure) } });
    });
  });
  readonly requests: SeenRequest[] = [];
  tokens: Tokens = { input: 100, cached: 0, output: 10 };

  readonly #scripts: (readonly Step[])[] = [];
  /** How often a step that is given only some `times` has been given. */
  readonly #given = new Map<Step, number>();
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
    // Copied, since what is counted per step must not be shared between scripts that share it.
    return `[[script ${this.#scripts.push(steps.map((step) => ({ ...step })))}]]`;
  }

  requestsOf(marker: string): SeenRequest[] {
    return this.requests.filter(({ provider, body }) => {
      const wire = wires.find((each) => each.provider === provider);
      return wire !== undefined && lastMarker(wire.conversation(body))?.marker === marker;
    });
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
    const { wire, path } = route(request.url ?? '/');
    const body = await readBody(request);
    if (request.method !== 'POST' || path !== wire.path) {
      const reply = request.method === 'HEAD' || path === '/' ? {} : wire.other?.(path, body);
      sendJson(response, reply === undefined ? 404 : 200, reply ?? wire.error(404));
      return;
    }
    this.#see({ provider: wire.provider, at: Date.now(), headers: request.headers, body });
    await this.#play(wire, body, response);
  }

  #see(request: SeenRequest): void {
    this.requests.push(request);
    for (const watch of [...this.#watchers]) watch(request);
  }

  async #play(wire: Wire, body: Body, response: ServerResponse): Promise<void> {
    this.#answers += 1;
    const exchange = { body, response, tokens: this.tokens, id: String(this.#answers) };
    const thoughts: string[] = [];
    for (const step of this.#stepsFor(wire.conversation(body))) {
      if ('think' in step) {
        thoughts.push(step.think);
      } else if ('until' in step) {
        await Promise.race([step.until, once(response, 'close')]);
        if (response.destroyed) return;
      } else if ('status' in step) {
        if (!this.#isDue(step)) continue;
        sendJson(response, step.status, step.body ?? wire.error(step.status), step.headers);
        return;
      } else if ('stall' in step) {
        if (!this.#isDue(step)) continue;
        wire.begin(exchange);
        return;
      } else {
        wire.answer(exchange, thoughts, step);
        return;
      }
    }
    wire.answer(exchange, thoughts, unscripted);
  }

  /** What is left of the script: from behind the answers that the model has already given. */
  #stepsFor(conversation: readonly Said[]): readonly Step[] {
    const last = lastMarker(conversation);
    if (last === undefined) return [];
    const steps = this.#scripts[last.number - 1];
    if (steps === undefined) return [];
    let answered = conversation.slice(last.at).filter((said) => said.by === 'model').length;
    let from = 0;
    while (answered > 0 && from < steps.length) {
      const step = steps[from];
      if (step !== undefined && isAnswer(step)) answered -= 1;
      from += 1;
    }
    return steps.slice(from);
  }

  #isDue(step: Step & { readonly times?: number }): boolean {
    const given = this.#given.get(step) ?? 0;
    this.#given.set(step, given + 1);
    return given < (step.times ?? Number.POSITIVE_INFINITY);
  }
}

const isAnswer = (step: Step): step is AnswerStep =>
  !('think' in step || 'until' in step || 'status' in step || 'stall' in step);

const lastMarker = (
  conversation: readonly Said[],
): { marker: string; number: number; at: number } | undefined => {
  for (let at = conversation.length - 1; at >= 0; at -= 1) {
    const said = conversation[at];
    const found = said?.by === 'user' ? [...said.text.matchAll(/\[\[script (\d+)\]\]/g)].at(-1) : undefined;
    if (found !== undefined) return { marker: found[0], number: Number(found[1]), at };
  }
  return undefined;
};

const route = (url: string): { wire: Wire; path: string } => {
  const { pathname } = new URL(url, 'http://stub');
  for (const wire of wires) {
    const prefix = `/${wire.provider}/`;
    if (pathname.startsWith(prefix)) return { wire, path: pathname.slice(prefix.length - 1) };
  }
  return { wire: pathname.startsWith(anthropicWire.path) ? anthropicWire : openaiWire, path: pathname };
};

const readBody = async (request: IncomingMessage): Promise<Body> => {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const text = Buffer.concat(chunks).toString();
  return text === '' ? {} : (JSON.parse(text) as Body);
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

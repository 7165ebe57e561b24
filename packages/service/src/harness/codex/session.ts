import { setTimeout as pause } from 'node:timers/promises';
import type { HarnessSession, TurnResult } from '../harness.ts';
import { providerFault } from '../provider-fault.ts';
import type { AppServer } from './app-server.ts';
import type { Items } from './items.ts';
import { type Output, structuredOutputIn } from './output-format.ts';
import type { Notification, Turn, TurnSettings } from './protocol.ts';
import { providerWords } from './provider-error.ts';

export interface Conversation {
  readonly server: AppServer;
  readonly threadId: string;
  readonly settings: TurnSettings;
  readonly output: Output | undefined;
  readonly items: Items;
  /** A turn came to rest by itself: whatever it was told is in the thread. */
  onRest(): void;
}

/** An interrupt takes some 20 ms; a session that does not heed it is ended. */
const interruptMs = 1200;
const closeMs = 2000;

const continueText = 'The conversation was compacted because it was too long. Continue with your task.';

/** One process of Codex and the thread that is open in it. */
export class CodexSession implements HarnessSession {
  readonly #conversation: Conversation;
  #turn: RunningTurn | undefined;
  #interrupted = false;
  #cutting: Promise<void> | undefined;
  #over: TurnResult | undefined;

  constructor(conversation: Conversation) {
    this.#conversation = conversation;
    void conversation.server.over.then((why) => {
      this.#over = { type: 'failed', code: 'HARNESS_ERROR', message: why };
      this.#turn?.rest(this.#over);
    });
  }

  /** Codex compacts a thread in time, but not when one message or result is larger than what is left. */
  async deliver(text: string): Promise<TurnResult> {
    const { server, threadId, items } = this.#conversation;
    const result = await this.#turnOf(() => this.#start(text));
    if (result.type !== 'failed' || result.code !== 'CONTEXT_OVERFLOW') return result;
    const compacted = await this.#turnOf(() => server.request('thread/compact/start', { threadId }));
    if (compacted.type === 'failed') return result;
    items.warn('The conversation was too long for the model. It was compacted, and the turn continues.');
    return this.#turnOf(() => this.#start(continueText));
  }

  #start(text: string): Promise<unknown> {
    const { server, threadId, settings } = this.#conversation;
    const input = [{ type: 'text', text, text_elements: [] }] as const;
    return server.request('turn/start', { threadId, input, ...settings });
  }

  async #turnOf(start: () => Promise<unknown>): Promise<TurnResult> {
    const { items } = this.#conversation;
    if (this.#interrupted) return { type: 'interrupted', response: '' };
    if (this.#over !== undefined) return this.#over;
    items.lastText = '';
    const turn = new RunningTurn();
    this.#turn = turn;
    start().catch((error: Error) => {
      turn.rest({ type: 'failed', code: 'HARNESS_ERROR', message: error.message });
    });
    const result = await turn.rested;
    this.#turn = undefined;
    if (!this.#interrupted) return result;
    await this.#cutting;
    return { type: 'interrupted', response: items.lastText };
  }

  interrupt(): void {
    if (this.#interrupted) return;
    this.#interrupted = true;
    if (this.#turn !== undefined) this.#cutting = this.#cut(this.#turn);
  }

  async kill(): Promise<void> {
    this.#interrupted = true;
    await this.#conversation.server.process.kill();
  }

  async close(): Promise<void> {
    const { process } = this.#conversation.server;
    process.child.stdin.end();
    await within(closeMs, process.exited);
    await process.kill();
  }

  hear(notification: Notification): void {
    const { threadId, items } = this.#conversation;
    const { method, params } = notification;
    if ('threadId' in params && params.threadId !== threadId) return;
    items.tell(notification);
    if (method === 'turn/started') this.#turn?.begin(params.turn.id);
    if (method === 'turn/completed') this.#turn?.rest(this.#resultOf(params.turn));
  }

  #resultOf({ status, error }: Turn): TurnResult {
    const { items, output, onRest } = this.#conversation;
    const response = items.lastText;
    if (error || status === 'failed') {
      const code = providerFault(error?.message, JSON.stringify(error?.codexErrorInfo ?? null));
      return { type: 'failed', code, message: providerWords(error), response };
    }
    if (status !== 'completed') return { type: 'interrupted', response };
    onRest();
    return { type: 'done', response, structuredOutput: output && structuredOutputIn(response) };
  }

  /** The turn ends at once, but its command goes on until it is told, too. */
  async #cut(turn: RunningTurn): Promise<void> {
    const { server, threadId } = this.#conversation;
    const cut = async (): Promise<true> => {
      const turnId = await turn.begun;
      // A turn that has just ended can't be interrupted.
      await server.request('turn/interrupt', { threadId, turnId }).catch(() => {});
      await server.request('thread/backgroundTerminals/clean', { threadId });
      await turn.rested;
      return true;
    };
    const isCut = await within(
      interruptMs,
      cut().catch(() => {}),
    );
    if (isCut !== true) await server.process.kill();
  }
}

/** A turn between the request for it and its end. It can be interrupted only once Codex says that it began. */
class RunningTurn {
  readonly begun: Promise<string>;
  readonly rested: Promise<TurnResult>;
  begin: (turnId: string) => void = () => {};
  rest: (result: TurnResult) => void = () => {};

  constructor() {
    this.begun = new Promise((resolve) => {
      this.begin = resolve;
    });
    this.rested = new Promise((resolve) => {
      this.rest = resolve;
    });
  }
}

/** What was promised, or undefined when it takes longer. */
async function within<T>(ms: number, promised: Promise<T>): Promise<T | undefined> {
  const patience = new AbortController();
  const late = pause(ms, undefined, { signal: patience.signal }).catch(() => undefined);
  try {
    return await Promise.race([promised, late]);
  } finally {
    patience.abort();
  }
}

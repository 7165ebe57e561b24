import { randomUUID } from 'node:crypto';
import { within } from '../agent-process.ts';
import type { HarnessSession, Message, TurnResult } from '../harness.ts';
import { noReasonText, providerFault } from '../harness-text.ts';
import {
  type AppServer,
  type Delta,
  type Notification,
  questionText,
  type Turn,
  type TurnError,
} from './app-server.ts';
import { type OutputFormat, structuredOutputIn } from './output-format.ts';
import type { Timeline } from './timeline.ts';

export interface Conversation {
  readonly server: AppServer;
  readonly threadId: string;
  /** Of every turn: model, effort, tier, output schema. */
  readonly settings: object;
  readonly output: OutputFormat | undefined;
  readonly timeline: Timeline;
  /** Called when a turn ended by itself: the thread contains its instructions. */
  onTurnEnd(): void;
}

/** An interrupt takes some 20 ms; a session that does not stop within this time is killed. */
const interruptMs = 1200;
const closeMs = 2000;
/** How long the end of a turn waits for images. */
const imagesMs = 10_000;

const continueText = 'The conversation was compacted because it was too long. Continue with your task.';

/** One process of Codex and its open thread. */
export class CodexSession implements HarnessSession {
  readonly #conversation: Conversation;
  #turn: RunningTurn | undefined;
  #isInterrupted = false;
  #interrupting: Promise<void> | undefined;
  /** The messages that Codex got during a turn and has not reported as items, by their id. */
  readonly #steers = new Map<string, (isTaken: boolean) => void>();
  #ended: TurnResult | undefined;
  /** What Codex asked for in the turn. */
  #question = '';

  constructor(conversation: Conversation) {
    this.#conversation = conversation;
    void conversation.server.ended.then((message) => {
      this.#ended = { type: 'failed', code: 'HARNESS_ERROR', message };
      this.#turn?.end(this.#ended);
    });
  }

  /** Codex compacts a thread when it gets long, but not when one message or result exceeds what is left. */
  async deliver(message: Message): Promise<TurnResult> {
    const { server, threadId, timeline } = this.#conversation;
    const result = await this.#runTurn(() => this.#start(message));
    if (result.type !== 'failed' || result.code !== 'CONTEXT_OVERFLOW') return result;
    const compacted = await this.#runTurn(() => server.request('thread/compact/start', { threadId }));
    if (compacted.type === 'failed') return result;
    timeline.warn('The conversation was too long for the model. It was compacted, and the turn continues.');
    return this.#runTurn(() => this.#start({ text: continueText, images: [] }));
  }

  #start(message: Message): Promise<unknown> {
    const { server, threadId, settings } = this.#conversation;
    return server.request('turn/start', { threadId, input: inputOf(message), ...settings });
  }

  /** Codex reports the message as an item when the model will get it. */
  async steer(message: Message): Promise<boolean> {
    const turn = this.#turn;
    if (turn === undefined || this.#isInterrupted) return false;
    const { server, threadId } = this.#conversation;
    const clientUserMessageId = randomUUID();
    const taken = new Promise<boolean>((resolve) => {
      this.#steers.set(clientUserMessageId, resolve);
    });
    const over = turn.ended.then(() => false);
    const steer = async (): Promise<boolean> => {
      const params = { threadId, expectedTurnId: await turn.started, clientUserMessageId };
      await server.request('turn/steer', { ...params, input: inputOf(message) });
      return taken;
    };
    const isTaken = await Promise.race([steer().catch(() => false), over]);
    this.#steers.delete(clientUserMessageId);
    return isTaken;
  }

  async #runTurn(start: () => Promise<unknown>): Promise<TurnResult> {
    const { timeline } = this.#conversation;
    if (this.#isInterrupted) return { type: 'interrupted', response: '' };
    if (this.#ended !== undefined) return this.#ended;
    timeline.lastText = '';
    this.#question = '';
    const turn = new RunningTurn();
    this.#turn = turn;
    start().catch((error: Error) => {
      turn.end({ type: 'failed', code: 'HARNESS_ERROR', message: error.message });
    });
    const result = await turn.ended;
    this.#turn = undefined;
    if (!this.#isInterrupted) return result;
    await this.#interrupting;
    return { type: 'interrupted', response: timeline.lastText };
  }

  interrupt(): void {
    if (this.#isInterrupted) return;
    this.#isInterrupted = true;
    if (this.#turn !== undefined) this.#interrupting = this.#interruptTurn(this.#turn);
  }

  async kill(): Promise<void> {
    this.#isInterrupted = true;
    await this.#conversation.server.process.kill();
  }

  async close(): Promise<void> {
    const { process } = this.#conversation.server;
    process.child.stdin.end();
    await within(closeMs, process.exited);
    await process.kill();
    this.#conversation.timeline.endCalls();
  }

  handleDelta(delta: Delta): void {
    const { threadId, timeline } = this.#conversation;
    if (delta.params.threadId === threadId) timeline.addPiece(delta);
  }

  handle(notification: Notification): void {
    const { threadId, timeline } = this.#conversation;
    const { method, params } = notification;
    if ('threadId' in params && params.threadId !== threadId) return;
    timeline.add(notification);
    if (method === 'item/started' && params.item.type === 'userMessage')
      this.#steers.get(String(params.item.clientId))?.(true);
    if (method === 'item/tool/requestUserInput') this.#question = questionText(params);
    if (method === 'turn/started') this.#turn?.start(params.turn.id);
    if (method === 'turn/completed') void this.#endTurn(this.#resultOf(params.turn));
  }

  /** When the images are reported that the agent viewed. */
  async #endTurn(result: TurnResult): Promise<void> {
    const turn = this.#turn;
    await within(imagesMs, this.#conversation.timeline.imagesRead());
    turn?.end(result);
  }

  #resultOf({ status, error }: Turn): TurnResult {
    const { timeline, output, onTurnEnd } = this.#conversation;
    const response = timeline.lastText;
    if (error || status === 'failed') {
      const code = providerFault(error?.message, JSON.stringify(error?.codexErrorInfo ?? null));
      return { type: 'failed', code, message: errorText(error), response };
    }
    if (status !== 'completed') return { type: 'interrupted', response };
    onTurnEnd();
    if (this.#question !== '') return { type: 'done', response, question: this.#question };
    return { type: 'done', response, structuredOutput: output && structuredOutputIn(response) };
  }

  /** An interrupt ends the turn, but not its commands: those are stopped separately. */
  async #interruptTurn(turn: RunningTurn): Promise<void> {
    const { server, threadId } = this.#conversation;
    const interrupt = async (): Promise<true> => {
      const turnId = await turn.started;
      // Fails when the turn has just ended.
      await server.request('turn/interrupt', { threadId, turnId }).catch(() => {});
      await server.request('thread/backgroundTerminals/clean', { threadId });
      await turn.ended;
      return true;
    };
    const isInterrupted = await within(
      interruptMs,
      interrupt().catch(() => undefined),
    );
    if (!isInterrupted) await server.process.kill();
  }
}

const inputOf = ({ text, images }: Message): object[] => [
  ...images.map(({ mediaType, base64 }) => ({ type: 'image', url: `data:${mediaType};base64,${base64}` })),
  { type: 'text', text, text_elements: [] },
];

/** A turn from its request to its end. It can be interrupted only once Codex has started it. */
class RunningTurn {
  readonly started: Promise<string>;
  readonly ended: Promise<TurnResult>;
  start: (turnId: string) => void = () => {};
  end: (result: TurnResult) => void = () => {};

  constructor() {
    this.started = new Promise((resolve) => {
      this.start = resolve;
    });
    this.ended = new Promise((resolve) => {
      this.end = resolve;
    });
  }
}

/** The text of the provider: the message in its JSON answer, or the sentence without URL and request id. */
function errorText(error: TurnError | null): string {
  const message = error?.message ?? '';
  const text = jsonMessage(message) ?? message.replace(/, url: \S+(, request id: \S+)?.*$/s, '');
  return text.trim() || noReasonText;
}

function jsonMessage(text: string): string | undefined {
  try {
    const message: unknown = Object(Object(JSON.parse(text)).error).message;
    return typeof message === 'string' ? message : undefined;
  } catch {
    return undefined;
  }
}

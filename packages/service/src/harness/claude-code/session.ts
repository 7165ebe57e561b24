import { setTimeout as pause } from 'node:timers/promises';
import type { Query, SDKMessage, SDKResultMessage } from '@anthropic-ai/claude-agent-sdk';
import type { AgentProcess, HarnessSession, TurnResult } from '../harness.ts';
import type { Input } from './input.ts';
import type { Items } from './items.ts';
import type { Output } from './output-format.ts';
import { resultOf } from './result.ts';

export interface Conversation {
  readonly query: Query;
  readonly input: Input;
  readonly items: Items;
  readonly output: Output | undefined;
  /** The process behind the query, once it was started. */
  process(): AgentProcess | undefined;
  /** The last words that it wrote beside its protocol. */
  complaint(): string;
}

/** An interrupt takes some 40 ms; a session that does not heed it is ended. */
const interruptMs = 1200;
const closeMs = 2000;

/**
 * One process of Claude Code and the conversation with it. A turn begins with a message and is over when Claude is
 * idle: there may be more than one result before that, and the last one counts.
 */
export class ClaudeSession implements HarnessSession {
  readonly #conversation: Conversation;
  readonly #read: Promise<void>;
  #result: SDKResultMessage | undefined;
  #rest: ((result: TurnResult) => void) | undefined;
  #interrupted = false;
  #over: string | undefined;

  constructor(conversation: Conversation) {
    this.#conversation = conversation;
    this.#read = this.#listen();
  }

  async deliver(text: string): Promise<TurnResult> {
    const { items, input } = this.#conversation;
    if (this.#interrupted) return { type: 'interrupted', response: '' };
    if (this.#over !== undefined) return this.#died();
    this.#result = undefined;
    items.lastText = '';
    const rested = new Promise<TurnResult>((resolve) => {
      this.#rest = resolve;
    });
    input.send(text);
    return rested;
  }

  interrupt(): void {
    if (this.#interrupted) return;
    this.#interrupted = true;
    if (this.#rest === undefined) return;
    this.#askToStop();
    this.#insist().catch(() => {});
  }

  async kill(): Promise<void> {
    this.#interrupted = true;
    await this.#conversation.process()?.kill();
    await this.#read;
  }

  async close(): Promise<void> {
    this.#conversation.input.end();
    const process = this.#conversation.process();
    if (process === undefined) return;
    const patience = new AbortController();
    await Promise.race([
      process.exited,
      pause(closeMs, undefined, { signal: patience.signal }).catch(() => {}),
    ]);
    patience.abort();
    await process.kill();
    await this.#read;
  }

  #askToStop(): void {
    this.#conversation.query.interrupt().catch(() => {});
  }

  async #insist(): Promise<void> {
    await pause(interruptMs, undefined, { ref: false });
    if (this.#rest !== undefined) await this.kill();
  }

  async #listen(): Promise<void> {
    try {
      for await (const message of this.#conversation.query) this.#hear(message);
      this.#over = 'Claude Code ended';
    } catch (error) {
      this.#over = error instanceof Error ? error.message : String(error);
    }
    this.#settle();
  }

  #hear(message: SDKMessage): void {
    this.#conversation.items.tell(message);
    if (message.type === 'result') this.#result = message;
    if (message.type !== 'system' || message.subtype !== 'session_state_changed') return;
    // It was interrupted before it had taken up the message: only now is there something to interrupt.
    if (message.state === 'running' && this.#interrupted) this.#askToStop();
    if (message.state === 'idle' && this.#result !== undefined) this.#settle();
  }

  #settle(): void {
    const rest = this.#rest;
    this.#rest = undefined;
    rest?.(this.#outcome());
  }

  #outcome(): TurnResult {
    const { items, output } = this.#conversation;
    if (this.#interrupted) return { type: 'interrupted', response: items.lastText };
    if (this.#result === undefined) return this.#died();
    return resultOf(this.#result, items.lastText, output);
  }

  #died(): TurnResult {
    const words = [this.#over, this.#conversation.complaint()].filter((part) => part);
    return { type: 'failed', code: 'HARNESS_ERROR', message: `Claude Code is gone: ${words.join(': ')}` };
  }
}

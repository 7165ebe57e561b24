import { randomUUID } from 'node:crypto';
import { dirname } from 'node:path';
import { PassThrough, Readable } from 'node:stream';
import { setTimeout as pause } from 'node:timers/promises';
import type {
  OutputFormat,
  Query,
  SDKMessage,
  SDKResultMessage,
  SDKUserMessage,
  SpawnedProcess,
  SpawnOptions,
} from '@anthropic-ai/claude-agent-sdk';
import type { FaultCode } from '@muster/sdk/contract';
import { messageOf } from '../../lib/errors.ts';
import { isObject } from '../../lib/json.ts';
import { lastErrorOutput, within } from '../agent-process.ts';
import type { AgentProcess, HarnessSession, Message, TurnResult, Work } from '../harness.ts';
import { boundedLines, type LeftOutLine } from '../harness-lines.ts';
import { noReasonText, providerFault } from '../harness-text.ts';
import type { CommandOutput } from './command-output.ts';
import type { Timeline } from './timeline.ts';

export interface Conversation {
  /** Starts the conversation. The SDK calls `spawn` to start the program. */
  query(input: PassThrough, spawn: (options: SpawnOptions) => SpawnedProcess): Query;
  readonly work: Work;
  /** The native program. */
  readonly executable: string;
  readonly timeline: Timeline;
  readonly commands: CommandOutput;
  readonly output: OutputAdapter | undefined;
}

/** An interrupt takes some 40 ms; a session that does not stop within this time is killed. */
const interruptMs = 1200;
const closeMs = 2000;

/**
 * One process of Claude Code and the conversation with it. A turn begins with a message and ends when Claude Code is
 * idle. There may be several results before that; the last one counts.
 */
export class ClaudeSession implements HarnessSession {
  readonly #conversation: Conversation;
  /** The messages to Claude Code, open between turns. Without a listener, its error would end the runner. */
  readonly #input = new PassThrough({ objectMode: true }).on('error', () => {});
  readonly #query: Query;
  readonly #reading: Promise<void>;
  /** Undefined until the SDK has started it. */
  #process: AgentProcess | undefined;
  #errorOutput = (): string => '';
  #result: SDKResultMessage | undefined;
  #endTurn: ((result: TurnResult) => void) | undefined;
  /** The messages that Claude Code got during the turn and has not begun to use, by their id. */
  readonly #steers = new Map<string, (isTaken: boolean) => void>();
  #isInterrupted = false;
  /** Why the process was killed. */
  #invalid: string | undefined;
  /** Why the process has ended. */
  #ended: string | undefined;

  constructor(conversation: Conversation) {
    this.#conversation = conversation;
    this.#query = conversation.query(this.#input, (options) => this.#spawn(options));
    this.#reading = this.#readMessages();
  }

  async deliver(message: Message): Promise<TurnResult> {
    if (this.#isInterrupted) return { type: 'interrupted', response: '' };
    if (this.#ended !== undefined) return this.#processEnded();
    this.#result = undefined;
    this.#conversation.timeline.lastText = '';
    const turn = new Promise<TurnResult>((resolve) => {
      this.#endTurn = resolve;
    });
    this.#write(message);
    return turn;
  }

  async steer(message: Message): Promise<boolean> {
    if (this.#endTurn === undefined || this.#isInterrupted) return false;
    const uuid = randomUUID();
    const taken = new Promise<boolean>((resolve) => {
      this.#steers.set(uuid, resolve);
    });
    this.#write(message, { uuid, priority: 'next' });
    return taken;
  }

  #write({ text, images }: Message, more: Pick<SDKUserMessage, 'uuid' | 'priority'> = {}): void {
    const blocks = images.map(({ mediaType, base64 }) => ({
      type: 'image' as const,
      source: { type: 'base64' as const, media_type: mediaType as MediaType, data: base64 },
    }));
    const content = blocks.length === 0 ? text : [...blocks, { type: 'text' as const, text }];
    const message: SDKUserMessage = {
      type: 'user',
      message: { role: 'user', content },
      parent_tool_use_id: null,
      ...more,
    };
    this.#input.write(message);
  }

  interrupt(): void {
    if (this.#isInterrupted) return;
    this.#isInterrupted = true;
    if (this.#endTurn === undefined) return;
    this.#query.interrupt().catch(() => {});
    this.#killAfterTimeout().catch(() => {});
  }

  async kill(): Promise<void> {
    this.#isInterrupted = true;
    await Promise.all([this.#process?.kill(), this.#conversation.commands.close()]);
    await this.#reading;
  }

  async close(): Promise<void> {
    this.#input.end();
    await this.#conversation.commands.close();
    if (this.#process === undefined) return;
    await within(closeMs, this.#process.exited);
    await this.#process.kill();
    await this.#reading;
  }

  async #killAfterTimeout(): Promise<void> {
    await pause(interruptMs, undefined, { ref: false });
    if (this.#endTurn !== undefined) await this.kill();
  }

  async #readMessages(): Promise<void> {
    try {
      const { work, timeline } = this.#conversation;
      for await (const message of this.#query) {
        if (message.type === 'stream_event') timeline.addPiece(message);
        else this.#handle(work.mask.value(message));
      }
      this.#ended = 'the process ended';
    } catch (error) {
      this.#ended = messageOf(error);
    }
    this.#finishTurn();
  }

  #handle(message: SDKMessage): void {
    this.#conversation.timeline.add(message);
    if (message.type === 'result') this.#result = message;
    this.#followSteer(message);
    if (message.type !== 'system' || message.subtype !== 'session_state_changed') return;
    // The first interrupt came before Claude Code had read the message, and had no effect.
    if (message.state === 'running' && this.#isInterrupted) this.#query.interrupt().catch(() => {});
    if (message.state === 'idle' && this.#result !== undefined && !this.#hasMore()) this.#finishTurn();
  }

  /** A message that came too late for the turn of Claude Code begins another one by itself. */
  #hasMore(): boolean {
    return this.#steers.size > 0 && !this.#isInterrupted;
  }

  /** The SDK does not declare these messages. */
  #followSteer(message: unknown): void {
    if (!isObject(message) || message.type !== 'command_lifecycle' || message.state === 'queued') return;
    const id = String(message.command_uuid);
    this.#steers.get(id)?.(message.state === 'started' || message.state === 'completed');
    this.#steers.delete(id);
  }

  #finishTurn(): void {
    for (const resolve of this.#steers.values()) resolve(false);
    this.#steers.clear();
    const endTurn = this.#endTurn;
    this.#endTurn = undefined;
    endTurn?.(this.#turnResult());
  }

  #turnResult(): TurnResult {
    const { timeline, output } = this.#conversation;
    if (this.#isInterrupted) return { type: 'interrupted', response: timeline.lastText };
    if (this.#result === undefined) return this.#processEnded();
    try {
      return resultOf(this.#result, timeline.lastText, output);
    } catch (error) {
      // The agent can write to the output, so any field may have any type. Nothing else would catch this.
      const message = `Claude Code sent an invalid result: ${messageOf(error)}`;
      return { type: 'failed', code: 'HARNESS_ERROR', message };
    }
  }

  #processEnded(): TurnResult {
    const reasons = [this.#invalid ?? this.#ended, this.#errorOutput()].filter(Boolean);
    return { type: 'failed', code: 'HARNESS_ERROR', message: `Claude Code ended: ${reasons.join(': ')}` };
  }

  /** Starts the native program as one of the agent's processes. */
  #spawn({ command, args, env }: SpawnOptions): SpawnedProcess {
    const { work, executable } = this.#conversation;
    const environment = Object.fromEntries(
      Object.entries(env).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
    );
    const reads = [dirname(executable)];
    const started = work.processes.start([...createFolders, command, ...args], { environment, reads });
    this.#process = started;
    const { child } = started;
    // An unhandled error would end the runner. The exit of the process says why the pipe broke.
    child.stdin.on('error', () => {});
    this.#errorOutput = lastErrorOutput(child, work.mask.stream());
    const lines = boundedLines(child.stdout, (line) => this.#leaveOut(line));
    child.stdout = Readable.from(readlineLines(lines), { objectMode: false });
    return child;
  }

  /** The result of a tool is only for the timeline. Without another message the session can't go on. */
  #leaveOut(line: LeftOutLine): void {
    if (line.beginning.startsWith('{"type":"user"')) return this.#conversation.timeline.leaveOut(line);
    this.#invalid ??= `it sent a message with ${line.reason}`;
    void this.#process?.kill();
  }
}

type MediaType = 'image/png' | 'image/jpeg' | 'image/webp' | 'image/gif';

/** The result of a turn that was not interrupted. An error of the provider is a success with `is_error`. */
function resultOf(result: SDKResultMessage, lastText: string, output: OutputAdapter | undefined): TurnResult {
  const failed = (code: FaultCode, message: string): TurnResult => ({
    type: 'failed',
    code,
    message,
    response: lastText,
  });
  if (result.subtype === 'success') {
    if (result.is_error) {
      const code = providerFault(result.result, result.stop_reason && `reason: ${result.stop_reason}`);
      return failed(code, result.result || noReasonText);
    }
    const response = lastText || result.result;
    return { type: 'done', response, structuredOutput: output?.unwrap(result.structured_output) };
  }
  const message = result.errors.join('; ') || result.subtype;
  if (/No conversation found/.test(message)) return failed('SESSION_NOT_OPENED', message);
  if (result.subtype === 'error_max_structured_output_retries')
    return failed('INVALID_STRUCTURED_OUTPUT', message);
  return failed('HARNESS_ERROR', message);
}

/** The agent owns its home: these folders are created inside its sandbox, not by the runner. */
const createFolders = [
  '/bin/sh',
  '-c',
  'mkdir -p "$TMPDIR" && mkdir -p -m 700 "$XDG_RUNTIME_DIR"; exec "$0" "$@"',
];

/** The SDK reads lines with `readline`, which also splits them at these characters. They occur in strings only. */
async function* readlineLines(lines: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  for await (const line of lines) {
    yield separators.some((text) => line.includes(text)) ? escapedSeparators(line) : line;
    yield lineBreak;
  }
}

const separators = ['\r', '\u2028', '\u2029'];
const lineBreak = Buffer.from('\n');

const escapedSeparators = (line: Buffer): Buffer =>
  Buffer.from(
    line
      .toString()
      .replaceAll('\r', ' ')
      .replace(/[\u2028\u2029]/g, (text) => (text === '\u2028' ? '\\u2028' : '\\u2029')),
  );

/**
 * Claude Code returns structured output as the arguments of a tool, which must be an object. Any other output is wrapped
 * in one.
 */
export interface OutputAdapter {
  readonly format: OutputFormat;
  unwrap(output: unknown): unknown;
}

export function outputAdapter(schemaText: string): OutputAdapter | undefined {
  if (schemaText === '') return undefined;
  const schema: unknown = JSON.parse(schemaText);
  if (isObject(schema) && schema.type === 'object')
    return { format: formatOf(schema), unwrap: (output) => output };
  const { $defs, definitions } = isObject(schema) ? schema : {};
  const wrapped = {
    type: 'object',
    properties: { output: schema },
    required: ['output'],
    $defs,
    definitions,
  };
  return { format: formatOf(wrapped), unwrap: (output) => (isObject(output) ? output.output : undefined) };
}

/** Claude Code refuses a schema that names another dialect than its own. The runner checks the output anyway. */
function formatOf({ $schema: _, ...schema }: Record<string, unknown>): OutputFormat {
  return { type: 'json_schema', schema: JSON.parse(JSON.stringify(schema)) as Record<string, unknown> };
}

import type { Claim, ModelProvider, ReportItem } from '@muster/sdk/contract';
import type { Usage } from '../../harness/harness.ts';
import { cutText } from '../../lib/cut-text.ts';
import { errorType, genAi, muster, providerNames } from '../../lib/traces/attributes.ts';
import {
  type Attributes,
  type Link,
  parseTraceparent,
  type Span,
  type Tracer,
  traceparentOf,
} from '../../lib/traces/tracer.ts';
import type { ValueMask } from '../../lib/value-mask.ts';
import type { AnswerUsage } from '../gateway/provider-protocols.ts';
import type { RunEnd } from './report-stream.ts';
import { noUsage, sumOf } from './usage.ts';

/** An agent decides how many tools and models it calls. */
const mostSpans = 2_000;
/** Tools that run at the same time. */
const mostOpenTools = 100;
const mostLinks = 50;
const largestNameLength = 128;
/** Of one text; and the messages of a run of which the texts are recorded. */
const largestContentBytes = 8 * 1024;
const mostPrompts = 3;

/** The span of one request to a provider. */
export interface ChatSpan {
  /** The first bytes of the answer have arrived. */
  firstByte(): void;
  used(answered: AnswerUsage, usage: Usage): void;
  /** The answer said so after it had begun. */
  failed(error: string): void;
  end(error?: string): void;
}

/**
 * The trace of one run: a span for the run itself, and below it one for each step of the preparation, request to a
 * model, call of a tool and checkpoint. Nothing that an agent writes chooses an id, and the number and size of its spans
 * are limited.
 */
export class RunTrace {
  readonly #tracer: Tracer;
  readonly #root: Span;
  readonly #claim: Claim;
  readonly #mask: ValueMask;
  /** By the id of the call. */
  readonly #tools = new Map<string, Span>();
  readonly #open = new Set<Span>();
  #spans = 0;
  #leftOut = 0;
  #usage: Usage = noUsage;
  #ended: RunEnd | undefined;

  constructor(tracer: Tracer, claim: Claim, mask: ValueMask) {
    this.#tracer = tracer;
    this.#claim = claim;
    this.#mask = mask;
    const { agent } = claim.agentId;
    this.#root = tracer.start(`invoke_agent ${agent.at(-1) ?? ''}`, {
      links: linksOf(claim),
      attributes: {
        [genAi.operation]: 'invoke_agent',
        [genAi.agentId]: claim.agentKey,
        [genAi.agentName]: agent.join('/'),
        [genAi.conversationId]: claim.session || undefined,
        [genAi.requestModel]: claim.model,
        [muster.run]: claim.runId,
        [muster.attempt]: claim.attempt,
        [muster.tenant]:
          claim.agentId.tenant && `${claim.agentId.tenant.provider}/${claim.agentId.tenant.org}`,
        [muster.workspace]: claim.agentId.workspace,
      },
    });
  }

  /** For the service, which records it with the run; undefined if the trace is not sampled. */
  get traceId(): string | undefined {
    const { traceId, isSampled } = this.#root.context;
    return isSampled ? traceId : undefined;
  }

  /** For the harness, and for the requests of the agent's tools. */
  get traceparent(): string {
    return traceparentOf(this.#root.context);
  }

  /** Measures a step of the run. */
  async step<T>(name: string, work: () => Promise<T>): Promise<T> {
    const span = this.#start(name);
    try {
      return await work();
    } catch (error) {
      this.#end(span, error instanceof Error ? error.name : 'Error');
      throw error;
    } finally {
      this.#end(span);
    }
  }

  chat(provider: ModelProvider, requested: string): ChatSpan {
    const startedMs = performance.now();
    const model = requested.slice(0, largestNameLength);
    const span = this.#start(`chat ${model}`, 'client', {
      [genAi.operation]: 'chat',
      [genAi.provider]: providerNames[provider],
      [genAi.requestModel]: model,
    });
    this.#root.set({ [genAi.provider]: providerNames[provider] });
    let hasBegun = false;
    return {
      firstByte: () => {
        if (hasBegun) return;
        hasBegun = true;
        span?.set({ [genAi.timeToFirstChunk]: (performance.now() - startedMs) / 1_000 });
      },
      used: ({ model: answered, tokens, finishReason }, usage) => {
        span?.set({
          [genAi.responseModel]: answered || undefined,
          [genAi.finishReasons]: finishReason === undefined ? undefined : [finishReason],
          ...usageAttributes(usage),
          [genAi.cacheWriteTokens]: tokens.cacheWrite + tokens.cacheWrite1h,
        });
      },
      failed: (error) => span?.set({ [errorType]: error }),
      end: (error) => this.#end(span, error),
    };
  }

  /** An item of the timeline, whose texts are masked already. */
  item({ type, text = '', data = {} }: ReportItem): void {
    const id = String(data.id ?? data.tool ?? '').slice(0, largestNameLength);
    if (type === 'TOOL_CALL')
      this.#toolCalled(id, String(data.tool ?? '').slice(0, largestNameLength), data, text);
    if (type === 'TOOL_RESULT') {
      const span = this.#tools.get(id);
      this.#tools.delete(id);
      if (this.#tracer.capturesContent) span?.set({ [genAi.toolResult]: this.#content(text) });
      const { error, exitCode = 0, signal = null } = data;
      const hasFailed = error === true || exitCode !== 0 || signal !== null;
      this.#end(span, hasFailed ? 'tool_error' : undefined);
    }
  }

  used(usage: Usage): void {
    this.#usage = sumOf(this.#usage, usage);
  }

  /** How the run ends, before what is left of it is closed. */
  ended(end: RunEnd): void {
    this.#ended = end;
  }

  /** Nothing is left of the run. `outcome` is that of a run without an end to report. */
  close(outcome: string): void {
    for (const span of this.#open) span.end('_OTHER');
    this.#open.clear();
    const { outcome: ended = outcome, error, response } = this.#ended ?? {};
    this.#tracer.drop(this.#leftOut);
    this.#root.set({
      ...usageAttributes(this.#usage),
      [muster.outcome]: ended,
      [muster.leftOut]: this.#leftOut || undefined,
    });
    if (this.#tracer.capturesContent) this.#root.set(this.#contents(response));
    this.#root.end(error?.code ?? (this.#ended ? undefined : outcome));
  }

  #toolCalled(id: string, tool: string, data: Readonly<Record<string, unknown>>, text: string): void {
    if (this.#tools.size >= mostOpenTools) {
      this.#leftOut += 1;
      return;
    }
    const span = this.#start(`execute_tool ${tool}`, 'internal', {
      [genAi.operation]: 'execute_tool',
      [genAi.toolName]: tool,
      [genAi.toolCallId]: typeof data.id === 'string' ? id : undefined,
      ...(this.#tracer.capturesContent && {
        [genAi.toolArguments]: this.#content(data.input === undefined ? text : JSON.stringify(data.input)),
      }),
    });
    // A call whose id is used again has no result any more.
    this.#end(this.#tools.get(id));
    if (span) this.#tools.set(id, span);
  }

  #start(name: string, kind: 'internal' | 'client' = 'internal', attributes?: Attributes): Span | undefined {
    if (this.#spans >= mostSpans) {
      this.#leftOut += 1;
      return undefined;
    }
    this.#spans += 1;
    const span = this.#tracer.start(name, {
      kind,
      parent: this.#root.context,
      ...(attributes && { attributes }),
    });
    this.#open.add(span);
    return span;
  }

  #end(span: Span | undefined, error?: string): void {
    if (!span) return;
    this.#open.delete(span);
    span.end(error);
  }

  /** Prompts and the response. Before the mask has the values of the run's secrets, there are none. */
  #contents(response: string | undefined): Attributes {
    const { messages, secrets = [] } = this.#claim;
    if (secrets.length > 0 && this.#mask.isEmpty) return {};
    const message = (role: string, text: string) => ({
      role,
      parts: [{ type: 'text', content: this.#content(text, largestContentBytes / mostPrompts) }],
    });
    return {
      [genAi.inputMessages]: JSON.stringify(
        messages.slice(0, mostPrompts).map(({ text }) => message('user', text)),
      ),
      [genAi.outputMessages]: response
        ? JSON.stringify([{ ...message('assistant', response), finish_reason: 'stop' }])
        : undefined,
    };
  }

  #content(text: string, mostBytes = largestContentBytes): string {
    const masked = this.#mask.text(text).replaceAll(this.#claim.token, '(the key of this run)');
    return cutText(masked, mostBytes).text;
  }
}

const usageAttributes = (usage: Usage): Attributes => ({
  [genAi.inputTokens]: usage.inputTokens,
  [genAi.cacheReadTokens]: usage.cachedInputTokens,
  [genAi.outputTokens]: usage.outputTokens,
  [genAi.cost]: usage.costUsd,
});

/** To the requests that sent the messages. For a child's first message, that is the run of its parent. */
function linksOf({ messages }: Claim): Link[] {
  return messages.slice(0, mostLinks).flatMap(({ followUpId, traceparent }) => {
    const context = parseTraceparent(traceparent);
    return context ? [{ context, attributes: { [muster.followUp]: followUpId || undefined } }] : [];
  });
}

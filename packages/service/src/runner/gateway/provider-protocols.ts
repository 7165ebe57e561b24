import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http';
import { gatewayName } from '../../harness/harness-text.ts';
import { isObject } from '../../lib/json.ts';
import type { ProtocolName } from '../accounts/account.ts';
import type { Tokens } from './prices.ts';
import { forwardedHeaders } from './upstream.ts';

/** What differs between the protocols. */
export interface ProviderProtocol {
  /**
   * The calls that a harness needs. All others are refused: with the key an agent could read what other agents stored
   * with the provider, or spend unmetered in batches.
   */
  readonly calls: RegExp;
  /** Finds the model in the path, where it is not in the body. */
  readonly modelInPath?: RegExp;
  /** Those of the calls that a model answers: only their failures end a run. */
  readonly modelCalls: RegExp;
  /** The headers to forward, besides those of HTTP itself. Organizations and projects are not among them. */
  readonly headers: RegExp;
  /** The header that lists features, and which of them to forward. */
  readonly features: { readonly header: string; readonly known: RegExp };
  /** The query parameters to forward. */
  readonly queries: readonly string[];
  readonly reader: () => UsageReader;
  readonly errorBody: (status: number, message: string) => unknown;
}

/** The betas of Claude Code, without their dates. None of them lets the provider fetch, store or run anything. */
export const knownBetas =
  /^(?:claude-code|interleaved-thinking|context-management|context-1m|effort|fast-mode|per-turn-control|thinking-(?:token-count|display-updates|resumption|binding-controls)|redact-thinking|mid-conversation-(?:system|tool-changes|system-clear-at)|advanced-tool-use|tool-search-tool|inline-tools|structured-outputs|extended-cache-ttl|prompt-caching-(?:scope|evict)|token-counting|task-budgets|fine-grained-tool-streaming)-\d[\d-]*$/;

/** The headers of Claude Code; the same for every protocol. */
const claudeHeaders =
  /^(?:accept|user-agent|x-app|x-stainless-[a-z-]+|x-claude-code-session-id|anthropic-(?:version|beta|dangerous-direct-browser-access))$/;
const claudeBetas = { header: 'anthropic-beta', known: knownBetas };

const bedrockCall = /^\/model\/([\w.:%-]+)\/invoke(?:-with-response-stream)?$/;
const vertexCall =
  /^\/projects\/[\w:.-]+\/locations\/[\w-]+\/publishers\/anthropic\/models\/([\w.@%-]+):(?:streamRawPredict|rawPredict)$/;
const posted = (path: RegExp): RegExp => new RegExp(path.source.replace('^', '^POST '));

export const providerProtocols: Readonly<Record<ProtocolName, ProviderProtocol>> = {
  anthropic: {
    calls: /^(?:POST \/v1\/messages(?:\/count_tokens)?|GET \/v1\/models(?:\/[\w:-][\w.:-]*)?)$/,
    modelCalls: /^POST \/v1\/messages$/,
    headers: claudeHeaders,
    features: claudeBetas,
    queries: ['beta', 'limit', 'after_id', 'before_id'],
    reader: () => new AnthropicReader(),
    errorBody: anthropicError,
  },
  bedrock: {
    calls: posted(bedrockCall),
    modelCalls: posted(bedrockCall),
    modelInPath: bedrockCall,
    headers: claudeHeaders,
    features: claudeBetas,
    queries: [],
    reader: () => new AnthropicReader(),
    errorBody: (_status, message) => ({ message }),
  },
  vertex: {
    calls: posted(vertexCall),
    modelCalls: posted(vertexCall),
    modelInPath: vertexCall,
    headers: claudeHeaders,
    features: claudeBetas,
    queries: [],
    reader: () => new AnthropicReader(),
    errorBody: anthropicError,
  },
  openai: {
    calls: /^(?:POST \/responses(?:\/compact)?|GET \/models(?:\/[\w:-][\w.:-]*)?)$/,
    modelCalls: /^POST \/responses(?:\/compact)?$/,
    headers:
      /^(?:accept|user-agent|originator|session-id|thread-id|x-client-request-id|x-codex-(?:beta-features|installation-id|parent-thread-id|turn-metadata|turn-state|window-id)|x-openai-(?:subagent|internal-codex-responses-lite)|openai-beta)$/,
    features: { header: 'openai-beta', known: /^responses=/ },
    queries: ['client_version'],
    reader: () => new OpenaiReader(),
    errorBody: (status, message) => ({
      error: {
        message,
        type: status < 500 ? 'invalid_request_error' : 'server_error',
        param: null,
        code: null,
      },
    }),
  },
};

function anthropicError(status: number, message: string) {
  return { type: 'error', error: { type: anthropicTypes[status] ?? 'api_error', message } };
}

const anthropicTypes: Readonly<Record<number, string>> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  408: 'timeout_error',
  413: 'request_too_large',
  415: 'invalid_request_error',
  429: 'rate_limit_error',
};

/** Answers with an error of the gateway in the provider's format, which its clients understand. */
export function refuse(
  name: ProtocolName,
  response: ServerResponse,
  status: number,
  message: string,
  headers: OutgoingHttpHeaders = {},
): void {
  if (response.headersSent) {
    response.destroy();
    return;
  }
  const body = JSON.stringify(providerProtocols[name].errorBody(status, `${gatewayName}: ${message}`));
  const signed = { ...headers, 'content-type': 'application/json', server: 'muster-gateway' };
  response.writeHead(status, signed).end(body);
}

/** The headers of a request that are forwarded: none that has the run's token, and none that says where a trace is. */
export function requestHeaders(
  { headers: allowed, features }: ProviderProtocol,
  request: IncomingMessage,
  body: Uint8Array,
  token: string,
): OutgoingHttpHeaders {
  const { [features.header]: requested = '', ...headers } = forwardedHeaders(
    request,
    (name, value) => allowed.test(name) && !value.includes(token),
  );
  const known = String(requested)
    .split(/\s*,\s*/)
    .filter((feature) => features.known.test(feature));
  return {
    ...headers,
    ...(known.length > 0 && { [features.header]: known.join(',') }),
    ...(request.method === 'POST' && { 'content-type': 'application/json', 'content-length': body.length }),
    'accept-encoding': 'identity',
  };
}

/** The model that the path names, in the protocols where the body has none. */
export function modelIn({ modelInPath }: ProviderProtocol, path: string): string | undefined {
  if (!modelInPath) return undefined;
  const encoded = modelInPath.exec(path)?.[1] ?? '';
  try {
    return decodeURIComponent(encoded);
  } catch {
    return encoded;
  }
}

export function requestQuery({ queries }: ProviderProtocol, query: string): string {
  const allowed = [...new URLSearchParams(query)].filter(([name]) => queries.includes(name));
  return new URLSearchParams(allowed).toString();
}

/** The tokens that one answer of a model used, as far as the provider reported them. */
export interface AnswerUsage {
  readonly model: string;
  readonly fast: boolean;
  readonly tier: string | undefined;
  readonly tokens: Tokens;
  /** In the provider's own words. */
  readonly finishReason?: string | undefined;
  /** The answer was cut off before the provider reported all of it. */
  readonly estimated?: boolean;
}

type Fields = Readonly<Record<string, unknown>>;

/** Reads the usage from an answer: from each event of a stream, or from the one object of any other answer. */
export interface UsageReader {
  /** True when nothing more about usage will follow. */
  read(event: Fields): boolean;
  usage(): AnswerUsage | undefined;
}

/**
 * Anthropic counts up: `message_start` has the input, each `message_delta` the output so far. Input, cache reads and
 * cache writes are separate counts.
 */
export class AnthropicReader implements UsageReader {
  #model = '';
  #usage: Fields | undefined;
  #finishReason: string | undefined;

  read(event: Fields): boolean {
    if (event.type === 'message_stop') return true;
    const message = event.type === 'message_start' ? fieldsOf(event.message) : event;
    if (typeof message.model === 'string') this.#model = message.model;
    this.#finishReason =
      textOf(message.stop_reason) ?? textOf(fieldsOf(message.delta).stop_reason) ?? this.#finishReason;
    if (isObject(message.usage)) this.#usage = { ...this.#usage, ...merged(this.#usage, message.usage) };
    return event.type === 'message';
  }

  usage(): AnswerUsage | undefined {
    if (!this.#usage) return undefined;
    const { input_tokens, cache_creation_input_tokens, cache_read_input_tokens, output_tokens } = this.#usage;
    const written = countOf(cache_creation_input_tokens);
    const cacheWrite1h = Math.min(
      countOf(fieldsOf(this.#usage.cache_creation).ephemeral_1h_input_tokens),
      written,
    );
    return {
      model: this.#model,
      fast: this.#usage.speed === 'fast',
      tier: textOf(this.#usage.service_tier),
      tokens: {
        input: countOf(input_tokens),
        cachedInput: countOf(cache_read_input_tokens),
        cacheWrite: written - cacheWrite1h,
        cacheWrite1h,
        output: countOf(output_tokens),
      },
      finishReason: this.#finishReason,
    };
  }
}

/** Counts never fall, even when a later event has zero; fields that are absent keep their value. */
function merged(before: Fields | undefined, after: Fields): Fields {
  return Object.fromEntries(
    Object.entries(after)
      .filter(([, value]) => value !== null && value !== undefined)
      .map(([name, value]) => [
        name,
        typeof value === 'number' ? Math.max(value, countOf(before?.[name])) : value,
      ]),
  );
}

const lastEvents = ['response.completed', 'response.incomplete', 'response.failed'];

/** OpenAI reports usage once, at the end. Its input includes cache reads and writes. */
export class OpenaiReader implements UsageReader {
  #found: AnswerUsage | undefined;

  read(event: Fields): boolean {
    const isLast = lastEvents.includes(String(event.type));
    const response = isLast ? fieldsOf(event.response) : event;
    if (isObject(response.usage)) this.#found = openaiUsage(response, response.usage);
    return isLast || this.#found !== undefined;
  }

  usage(): AnswerUsage | undefined {
    return this.#found;
  }
}

function openaiUsage(response: Fields, usage: Fields): AnswerUsage {
  const details = fieldsOf(usage.input_tokens_details);
  const input = countOf(usage.input_tokens);
  const cachedInput = Math.min(countOf(details.cached_tokens), input);
  const cacheWrite = Math.min(countOf(details.cache_write_tokens), input - cachedInput);
  return {
    model: textOf(response.model) ?? '',
    fast: false,
    tier: textOf(response.service_tier),
    tokens: {
      input: input - cachedInput - cacheWrite,
      cachedInput,
      cacheWrite,
      cacheWrite1h: 0,
      output: countOf(usage.output_tokens),
    },
    finishReason: textOf(fieldsOf(response.incomplete_details).reason) ?? textOf(response.status),
  };
}

const fieldsOf = (value: unknown): Fields => (isObject(value) ? value : {});

const textOf = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined);

/** Zero for anything but a count: what a provider sends must not break a report. */
const countOf = (value: unknown): number =>
  typeof value === 'number' && Number.isSafeInteger(value) && value > 0 ? value : 0;

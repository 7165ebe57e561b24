import type { OutgoingHttpHeaders, ServerResponse } from 'node:http';
import type { ProviderName } from '../../harness/harness.ts';
import { AnthropicReader, OpenaiReader, type WireReader } from './provider-protocols.ts';

/** How a provider is spoken to. */
export interface Wire {
  /**
   * What a harness needs, and no more: the key can do much else, read what other agents stored with the provider or
   * spend unmetered in batches.
   */
  readonly calls: RegExp;
  /** Of those, the ones by which a model works: only their failures stop a run. */
  readonly modelCalls: RegExp;
  /** Headers that go on, besides what HTTP itself needs. Organizations, projects and the rest stay here. */
  readonly headers: RegExp;
  /** Of a header that lists features, those that go on. */
  readonly features: { readonly header: string; readonly known: RegExp };
  readonly queries: readonly string[];
  readonly reader: () => WireReader;
  readonly credentials: (apiKey: string) => OutgoingHttpHeaders;
  readonly errorBody: (status: number, message: string) => unknown;
}

/** What Claude Code asks for, without the dates: none lets the provider fetch, store or run anything. */
const knownBetas =
  /^(?:claude-code|interleaved-thinking|context-management|context-1m|effort|fast-mode|per-turn-control|thinking-(?:token-count|display-updates|resumption|binding-controls)|redact-thinking|mid-conversation-(?:system|tool-changes|system-clear-at)|advanced-tool-use|tool-search-tool|inline-tools|structured-outputs|extended-cache-ttl|prompt-caching-(?:scope|evict)|token-counting|task-budgets|fine-grained-tool-streaming)-\d[\d-]*$/;

export const wires: Readonly<Record<ProviderName, Wire>> = {
  anthropic: {
    calls: /^(?:POST \/v1\/messages(?:\/count_tokens)?|GET \/v1\/models(?:\/[\w:-][\w.:-]*)?)$/,
    modelCalls: /^POST \/v1\/messages$/,
    headers:
      /^(?:accept|user-agent|x-app|x-stainless-[a-z-]+|x-claude-code-session-id|anthropic-(?:version|beta|dangerous-direct-browser-access))$/,
    features: { header: 'anthropic-beta', known: knownBetas },
    queries: ['beta', 'limit', 'after_id', 'before_id'],
    reader: () => new AnthropicReader(),
    credentials: (apiKey) => ({ 'x-api-key': apiKey }),
    errorBody: (status, message) => ({
      type: 'error',
      error: { type: anthropicTypes[status] ?? 'api_error', message },
    }),
  },
  openai: {
    calls: /^(?:POST \/responses(?:\/compact)?|GET \/models(?:\/[\w:-][\w.:-]*)?)$/,
    modelCalls: /^POST \/responses(?:\/compact)?$/,
    headers:
      /^(?:accept|user-agent|originator|session-id|thread-id|x-client-request-id|x-codex-(?:beta-features|installation-id|parent-thread-id|turn-metadata|turn-state|window-id)|x-openai-(?:subagent|internal-codex-responses-lite)|openai-beta)$/,
    features: { header: 'openai-beta', known: /^responses=/ },
    queries: ['client_version'],
    reader: () => new OpenaiReader(),
    credentials: (apiKey) => ({ authorization: `Bearer ${apiKey}` }),
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

/** An answer without the request's success, in the words that the provider's own clients understand. */
export function refuse(
  name: ProviderName,
  response: ServerResponse,
  status: number,
  message: string,
  headers: OutgoingHttpHeaders = {},
): void {
  if (response.headersSent) {
    response.destroy();
    return;
  }
  const body = JSON.stringify(wires[name].errorBody(status, message));
  response.writeHead(status, { ...headers, 'content-type': 'application/json' }).end(body);
}

import type { IncomingMessage, ServerResponse } from 'node:http';
import { limits } from '@muster/sdk/contract';
import { exceededBound } from '../../lib/json.ts';
import type { ValueMask } from '../../lib/value-mask.ts';
import { answer } from './answer.ts';
import type { Capacity } from './capacity.ts';
import { receiveBody } from './request-body.ts';
import { forward, forwardedHeaders, framingHeaders, joinUrl, requestUpstream } from './upstream.ts';

/** More than the service accepts. */
const mostToolBytes = 2 * limits.bodyBytes;

const toolBounds = { depth: limits.bodyDepth, values: 2 * limits.bodyObjects };

export interface ToolRequestOptions {
  /** The token of the run's claim. */
  readonly token: string;
  /** Where the run is in its trace; replaces what the agent sends. */
  readonly traceparent?: string | undefined;
  /** Called before a call of one of the agent's tools is sent to the service. */
  readonly beforeTool?: ((tool: string) => Promise<void>) | undefined;
  /** Applied to what the agent's tools tell the service. */
  readonly mask?: ValueMask;
  readonly serviceUrl: string;
  /** Bytes of requests that all runs together may have in memory. */
  readonly memory: Capacity;
  /** How long a client may take to send a request. */
  readonly receiveMs: number;
}

/**
 * Sends a message to the agent's tools at the service, without the values of secrets. A call of a tool waits until the
 * timeline has it.
 */
export async function forwardToService(
  request: IncomingMessage,
  response: ServerResponse,
  query: string,
  { mask, token, traceparent, beforeTool, serviceUrl, memory, receiveMs }: ToolRequestOptions,
): Promise<void> {
  const method = request.method ?? 'POST';
  const bounds = { memory, mostBytes: mostToolBytes, withinMs: receiveMs };
  const received = method === 'POST' ? await receiveBody(request, response, bounds) : null;
  if (received === undefined) return;
  if (received?.type === 'refused') return answer(response, received.status, received.message);
  const exceeded = received && exceededBound(received.bytes, toolBounds);
  const bytes = received && Buffer.from(received.bytes);
  received?.release();
  if (exceeded) return answer(response, 413, `The body has too many values or levels (${exceeded})`);
  const tool = bytes && toolIn(bytes);
  if (tool) await beforeTool?.(tool);
  if (response.destroyed) return;
  const body = bytes && mask && !mask.isEmpty ? maskedJson(bytes.toString(), mask) : bytes;
  const headers = {
    ...forwardedHeaders(request, (name) => !ownHeaders.has(name)),
    ...(body ? { 'content-length': body.length } : framingHeaders(request)),
    authorization: `Bearer ${token}`,
    ...(traceparent !== undefined && { traceparent }),
  };
  const url = joinUrl(serviceUrl, '/mcp', query);
  forward(
    request,
    requestUpstream(url, method, headers),
    response,
    (error) => answer(response, 502, `The runner can't reach the service: ${error.code ?? error.message}`),
    body ?? undefined,
  );
}

/** Those that an agent can't set. */
const ownHeaders = new Set(['x-api-key', 'cookie', 'traceparent', 'tracestate', 'baggage']);

/** The tool that a message of the protocol calls. */
function toolIn(bytes: Buffer): string | undefined {
  if (!bytes.includes('tools/call')) return undefined;
  try {
    const { method, params } = JSON.parse(bytes.toString());
    return method === 'tools/call' && typeof params?.name === 'string' ? params.name : undefined;
  } catch {
    return undefined;
  }
}

/** The service refuses what is not JSON. */
function maskedJson(text: string, mask: ValueMask): Buffer {
  try {
    return Buffer.from(JSON.stringify(mask.value(JSON.parse(text))));
  } catch {
    return Buffer.from(mask.text(text));
  }
}

import { hash } from 'node:crypto';
import { gunzipSync } from 'node:zlib';
import type { TriggerDocument } from '@muster/sdk/contract';
import { isObject } from '../lib/json.ts';
import { oneLine } from '../lib/quoting/quote.ts';
import { parsePath, type RequestValues, textAt } from '../lib/request-template.ts';
import { parseHostJson } from '../work/host-json.ts';
import { mismatch } from './filter.ts';
import { renderLabel, renderMessage, renderName } from './render.ts';

/** A request that a trigger received, as it is stored, and the trigger as it is now. */
export interface RequestJob {
  readonly name: string;
  readonly document: TriggerDocument;
  /** With the query, under `:query`. */
  readonly headers: Readonly<Record<string, string>>;
  /** Compressed. */
  readonly body: Uint8Array;
}

export interface ReadRequest {
  /** What the sender calls it; empty if it does not say. */
  readonly event: string;
  /** Why it is ignored; null if it matches the filter. */
  readonly mismatch: string | null;
  /** A digest of what tells what it is about; empty if the trigger has no path for that, or the request nothing there. */
  readonly about: string;
  /** The message, or the description of the agent to spawn. */
  readonly text: string;
  readonly expectedOutput: string;
  /** The path of the agent to spawn; empty without a usable one. */
  readonly path: readonly string[];
  readonly labels: Readonly<Record<string, string>>;
}

export const queryHeader = ':query';

/** Reads a request and fills in the texts of the trigger. It takes time, so it is done in a separate thread. */
export function readRequest({ name, document, headers, body }: RequestJob): ReadRequest {
  const { [queryHeader]: query = '', ...rest } = headers;
  const request = {
    body: bodyOf(gunzipSync(body), rest['content-type'] ?? ''),
    headers: rest,
    query: fieldsOf(query),
  };
  const { agentId, message, spawn, filter, dedupe } = document;
  const about = dedupe ? textAt(request, parsePath(dedupe)) : '';
  const given = agentId ? message : spawn?.description;
  const names = (spawn?.name ? [spawn.name] : (spawn?.agentId?.agent ?? [])).map((element) =>
    renderName(element, request),
  );
  const render = (text: string) => renderMessage(text, request, name);
  return {
    event: eventOf(request),
    mismatch: mismatch(filter, request),
    about: about && hash('sha256', about, 'hex'),
    text: render(given || `A request to the trigger "${name}":\n{{body}}`),
    expectedOutput: render(spawn?.expectedOutput ?? ''),
    path: names.every((element) => element !== '') ? names : [],
    labels: Object.fromEntries(
      Object.entries(spawn?.labels ?? {}).map(([key, value]) => [key, renderLabel(value, request)]),
    ),
  };
}

function bodyOf(bytes: Buffer, contentType: string): unknown {
  if (contentType.startsWith('application/x-www-form-urlencoded')) return fieldsOf(bytes.toString());
  if (bytes.length === 0) return {};
  try {
    return parseHostJson(bytes).value;
  } catch (error) {
    throw new TypeError(
      error instanceof SyntaxError ? 'the body is neither JSON nor a form' : (error as Error).message,
    );
  }
}

/** Of several fields of the same name, the first. */
function fieldsOf(text: string): Record<string, string> {
  const fields = new Map<string, string>();
  for (const [name, value] of new URLSearchParams(text)) if (!fields.has(name)) fields.set(name, value);
  return Object.fromEntries(fields);
}

const eventHeaders = [
  'x-github-event',
  'x-gitlab-event',
  'x-gitea-event',
  'sentry-hook-resource',
  'linear-event',
  'x-event-key',
];
const eventFields = ['type', 'event', 'webhookEvent', 'status'];

function eventOf({ headers, body }: RequestValues): string {
  const fields = isObject(body) ? eventFields.map((field) => body[field]) : [];
  const named = [...eventHeaders.map((header) => headers[header]), ...fields];
  return oneLine(
    (named.find((value) => typeof value === 'string' && value !== '') as string | undefined) ?? '',
    100,
  );
}

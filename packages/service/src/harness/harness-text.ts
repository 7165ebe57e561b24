import { relative } from 'node:path';
import type { FaultCode } from '@muster/sdk/contract';
import { isObject } from '../lib/json.ts';

/** Texts that the harnesses have in common, for the timeline and for errors. */

const lineLength = 200;
const textLength = 4000;
const listLength = 50;
const depth = 5;

/** A copy of a tool's arguments that fits into a timeline: long texts, lists and depths are cut. */
export function bounded(value: unknown, level = 0): unknown {
  if (typeof value === 'string') return value.length > textLength ? `${value.slice(0, textLength)}…` : value;
  if (typeof value !== 'object' || value === null) return value;
  if (level === depth) return '…';
  if (Array.isArray(value)) return value.slice(0, listLength).map((each) => bounded(each, level + 1));
  const fields = Object.entries(value).slice(0, listLength);
  return Object.fromEntries(fields.map(([name, each]) => [name, bounded(each, level + 1)]));
}

/** The text in one line, of limited length. */
export function oneLine(text: string): string {
  const line = text.replace(/\s+/g, ' ').trim();
  return line.length > lineLength ? `${line.slice(0, lineLength - 1)}…` : line;
}

/** The texts in the result of a tool. */
export function contentText(content: unknown): string {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return '';
  return content.flatMap((part) => (isObject(part) && 'text' in part ? [String(part.text)] : [])).join('\n');
}

/** The images in the result of a tool, as base64: of Claude Code, and as MCP has them. */
export function imagesIn(content: unknown): string[] {
  if (!Array.isArray(content)) return [];
  return content.flatMap((part) => {
    if (!isObject(part) || part.type !== 'image') return [];
    const { data } = isObject(part.source) ? part.source : part;
    return typeof data === 'string' ? [data] : [];
  });
}

/** A path relative to the workspace, if it is inside. */
export function workspacePath(workspaceFolder: string, path: string): string {
  const inside = relative(workspaceFolder, path);
  return path === '' || inside.startsWith('..') ? path : inside;
}

/** How the gateway signs its own answers. Everything else that a harness gets is what the provider answered. */
export const gatewayName = "Muster's gateway";

/** A harness does not say who answered: the provider or the gateway. */
export function retryText(
  status: number | undefined,
  attempt?: string | number,
  most?: string | number,
): string {
  const answer = status === undefined ? 'got no answer' : `failed with ${status}`;
  return `The request to the model ${answer}; retrying${most === undefined ? '' : ` (${attempt} of ${most})`}.`;
}

export const toolsUnavailableText = (server: string): string =>
  `The tools of ${server} are unavailable; the agent continues without them.`;

export const noReasonText = 'The request to the model was refused without a reason.';

/** How harnesses describe errors of a provider or of the gateway that have their own code. */
const faultPatterns: readonly (readonly [FaultCode, RegExp])[] = [
  ['GATEWAY_REFUSED', new RegExp(gatewayName)],
  [
    'CONTEXT_OVERFLOW',
    /prompt is too long|input is too long|context.?window.?exceeded|context_length_exceeded|exceeds the context window/i,
  ],
  ['OUTPUT_LIMIT', /output token maximum|max_output_tokens|reason: max_tokens/i],
  ['REFUSAL', /usage policy|content_filter|\brefusal\b|cyberPolicy/i],
  ['MODEL_UNKNOWN', /issue with the selected model|model_?not_?found|model .{0,200}does not exist/i],
];

/** The code of a provider's error, from the texts with which a harness reports it. */
export function providerFault(...texts: readonly (string | null | undefined)[]): FaultCode {
  const text = texts.filter(Boolean).join('\n');
  return faultPatterns.find(([, pattern]) => pattern.test(text))?.[0] ?? 'PROVIDER_ERROR';
}

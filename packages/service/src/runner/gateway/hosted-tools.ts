import { isObject } from '../../lib/json.ts';
import type { ProviderName } from './upstream.ts';

/**
 * A provider does more than answer when it is asked to: it searches the web, calls other servers, runs code, works on
 * in the background. By any of these an agent would reach hosts that its environment does not allow, or spend what
 * nobody meters. So a request may name tools that the harness itself performs, and no others.
 */
const ownTools: Readonly<Record<ProviderName, RegExp>> = {
  anthropic: /^(custom|(bash|text_editor|computer|memory|tool_search)(_.*)?)$/,
  openai: /^(function|custom|namespace|local_shell|apply_patch|tool_search)$/,
};

const hostedFields: Readonly<Record<ProviderName, readonly string[]>> = {
  anthropic: ['mcp_servers', 'container'],
  openai: ['background', 'prompt'],
};

type Values = Readonly<Record<string, unknown>>;

/** What of the request the agent may not have; undefined when it is all right. */
export function hostedIn(provider: ProviderName, body: unknown): string | undefined {
  if (!isObject(body)) return 'a body that is no JSON object';
  const field = hostedFields[provider].find((name) => isSet(body[name]));
  if (field !== undefined) return `"${field}"`;
  const tool = toolsOf(body).find(({ type }) => type !== undefined && !ownTools[provider].test(String(type)));
  return tool && `the tool "${String(tool.type)}", which ${provider} performs itself`;
}

const isSet = (value: unknown): boolean =>
  Array.isArray(value) ? value.length > 0 : value !== undefined && value !== null && value !== false;

/** Also those that come as items of the conversation, and those in a namespace. */
function toolsOf(body: Values): Values[] {
  const items = [body, ...listOf(body.input)];
  const inTools = (tool: Values): Values[] => [tool, ...listOf(tool.tools).flatMap(inTools)];
  return items.flatMap((item) => listOf(item.tools).flatMap(inTools));
}

const listOf = (value: unknown): Values[] => (Array.isArray(value) ? value.filter(isObject) : []);

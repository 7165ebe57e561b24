import { exceededBound, isObject } from '../../lib/json.ts';
import type { ProtocolName } from '../accounts/account.ts';
import { knownBetas } from './provider-protocols.ts';
import { type RequestSize, sizeOf } from './request-size.ts';

/**
 * Which requests to a provider the gateway forwards: only the fields, content types and tools listed here, and data
 * only inline.
 *
 * A provider does more than answer: it fetches URLs, reads files and conversations stored under the same key, searches
 * the web, runs code, continues in the background. With any of these an agent could reach hosts that its environment
 * does not allow, read data of others, or spend unmetered.
 */
export interface UncheckedRequest {
  readonly provider: ProtocolName;
  /** The path of the provider's API: `/v1/messages`, `/responses`. */
  readonly path: string;
  /** Whether the run may use the provider's web search. */
  readonly webSearch?: boolean | undefined;
  /** The model of the path; undefined where the body has it. */
  readonly model?: string | undefined;
  /** What to replace the model by. */
  readonly renames?: Readonly<Record<string, string>> | undefined;
  /** Reasoning that the provider has encrypted is left out. */
  readonly dropsReasoning?: boolean | undefined;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

export type CheckedRequest =
  | ({
      readonly type: 'allowed';
      /** Serialized from the checked value, so that the provider can't read it differently than the gateway did. */
      readonly bytes: Uint8Array<ArrayBuffer>;
      readonly models: readonly string[];
    } & RequestSize)
  | { readonly type: 'refused'; readonly status: 400 | 403 | 413; readonly message: string };

/** Anthropic accepts 32 MB. */
export const largestBodyBytes = 32 * 1024 * 1024;

/** A harness sends a few thousand values, some ten levels deep. */
const bounds = { depth: 128, values: 1_000_000 };

/** Checks a request to a provider and serializes it again. The largest takes up to a second: use a worker thread. */
export function checkRequest(request: UncheckedRequest): CheckedRequest {
  const { provider, path, webSearch, model, renames, dropsReasoning, bytes } = request;
  const exceeded = exceededBound(bytes, bounds);
  if (exceeded === 'depth') return refused(400, `The body is nested deeper than ${bounds.depth} levels`);
  if (exceeded === 'values') return refused(400, `The body has more than ${bounds.values} values`);
  const body = parsed(bytes);
  if (!isObject(body)) return refused(400, 'The body is not a JSON object in UTF-8');
  const problem = bodyProblem(provider, path, webSearch ? withoutSearch(body) : body, model !== undefined);
  if (problem !== undefined) return refused(400, problem);
  const text = JSON.stringify(forwarded(dropsReasoning ? withoutReasoning(body) : body, renames));
  const written = new TextEncoder().encode(text) as Uint8Array<ArrayBuffer>;
  if (written.length > largestBodyBytes)
    return refused(413, `The body is larger than ${largestBodyBytes} bytes`);
  return {
    type: 'allowed',
    bytes: written,
    models: model === undefined ? modelsIn(body) : [model],
    ...sizeOf(provider, body, written.length),
  };
}

const refused = (status: 400 | 413, message: string): CheckedRequest => ({
  type: 'refused',
  status,
  message,
});

function parsed(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch {
    return undefined;
  }
}

type Fields = Readonly<Record<string, unknown>>;
/** An error that begins with the field; undefined when there is none. */
type Problem = string | undefined;
type Check = (value: Fields, at: string) => Problem;

const claudeFields = [
  ...['messages', 'system', 'tools', 'tool_choice', 'max_tokens', 'stream', 'metadata'],
  ...['temperature', 'top_p', 'top_k', 'stop_sequences', 'thinking', 'output_config', 'output_format'],
  ...['context_management', 'compaction', 'cache_control', 'speed', 'service_tier'],
];

const fields: Readonly<Record<ProtocolName, readonly string[]>> = {
  anthropic: ['model', 'fallbacks', ...claudeFields],
  bedrock: ['anthropic_version', 'anthropic_beta', ...claudeFields],
  vertex: ['anthropic_version', 'anthropic_beta', ...claudeFields],
  openai: [
    ...['model', 'input', 'instructions', 'tools', 'tool_choice', 'parallel_tool_calls', 'max_tool_calls'],
    ...['stream', 'stream_options', 'store', 'include', 'reasoning', 'text', 'truncation', 'service_tier'],
    ...['temperature', 'top_p', 'top_logprobs', 'max_output_tokens', 'context_management'],
    ...['prompt_cache_key', 'prompt_cache_retention', 'safety_identifier', 'client_metadata'],
  ],
};

/** The tools that the harness runs. Every other tool runs at the provider. */
const claudeTools = /^(custom|(bash|text_editor|computer|memory|tool_search)(_.*)?)$/;
const harnessTools: Readonly<Record<ProtocolName, RegExp>> = {
  anthropic: claudeTools,
  bedrock: claudeTools,
  vertex: claudeTools,
  openai: /^(function|custom|namespace|local_shell|apply_patch|tool_search)$/,
};

/** Search tools, and searches that the provider has made. Both are complete in themselves. */
const searchType = /^web_search(_\d+|_call)?$/;

function withoutSearch(body: Fields): Fields {
  const rest = (list: unknown): unknown =>
    Array.isArray(list)
      ? list.filter((item) => !isObject(item) || !searchType.test(String(item.type)))
      : list;
  return { ...body, tools: rest(body.tools), input: rest(body.input) };
}

const withoutReasoning = ({ input, ...body }: Fields): Fields => ({
  ...body,
  input: Array.isArray(input)
    ? input.filter((item) => !isObject(item) || item.type !== 'reasoning' || !isSet(item.encrypted_content))
    : input,
});

/** Fields that refer to data stored elsewhere. */
const references = ['url', 'file_id', 'file_url', 'container_id'];

type Checks = Readonly<Record<string, Check>>;

/** Types whose data is always in the request itself. */
const inline = (...types: readonly string[]): Checks =>
  Object.fromEntries(types.map((type) => [type, () => undefined]));

const anthropicContent: Checks = {
  ...inline('text', 'thinking', 'redacted_thinking', 'tool_use', 'tool_reference', 'fallback'),
  ...inline('tool_search_tool_result'),
  server_tool_use: ({ name }, at) =>
    /^tool_search/.test(String(name)) ? undefined : expected(`${at}.name`, name, 'a tool search'),
  image: ({ source }, at) => sourceProblem(source, `${at}.source`, ['base64']),
  document: ({ source }, at) => sourceProblem(source, `${at}.source`, ['base64', 'text', 'content']),
  search_result: ({ content }, at) => contentProblem(content, `${at}.content`, anthropicContent),
  tool_result: ({ content }, at) => contentProblem(content, `${at}.content`, anthropicContent),
  compaction: ({ tool_changes }, at) => contentProblem(tool_changes, `${at}.tool_changes`, anthropicContent),
  tool_addition: ({ tool }, at) => toolChangeProblem(tool, `${at}.tool`),
  tool_removal: ({ tool }, at) => toolChangeProblem(tool, `${at}.tool`),
};

const openaiContent: Checks = {
  ...inline('input_text', 'output_text', 'summary_text', 'reasoning_text', 'text'),
  ...inline('refusal', 'encrypted_content'),
  input_image: ({ image_url }, at) => dataUrlProblem(image_url, `${at}.image_url`),
  input_file: ({ file_data }, at) => dataUrlProblem(file_data, `${at}.file_data`),
  input_audio: ({ audio_url, input_audio }, at) =>
    input_audio === undefined ? dataUrlProblem(audio_url, `${at}.audio_url`) : undefined,
};

const partsOf =
  (name: string): Check =>
  (item, at) =>
    contentProblem(item[name], `${at}.${name}`, openaiContent);
const toolsOf: Check = (item, at) => toolsProblem('openai', item.tools, `${at}.tools`);

const openaiItems: Checks = {
  ...inline('function_call', 'custom_tool_call', 'local_shell_call', 'local_shell_call_output'),
  ...inline('apply_patch_call', 'apply_patch_call_output', 'tool_search_call', 'configuration_update'),
  ...inline('compaction', 'compaction_summary', 'compaction_trigger', 'context_compaction'),
  message: partsOf('content'),
  agent_message: partsOf('content'),
  reasoning: (item, at) => reasoningProblem(item, at) ?? partsOf('content')(item, at),
  function_call_output: partsOf('output'),
  custom_tool_call_output: partsOf('output'),
  tool_search_output: toolsOf,
  additional_tools: toolsOf,
};

/** Why the gateway does not forward this body; undefined when it does. */
function bodyProblem(provider: ProtocolName, path: string, body: Fields, isModelInPath: boolean): Problem {
  const unknown = Object.keys(body).find((name) => !fields[provider].includes(name) && isSet(body[name]));
  if (unknown !== undefined) return `\`${unknown}\`: the gateway does not forward this field to ${provider}`;
  if (!isModelInPath && typeof body.model !== 'string') return '`model`: expected the name of a model';
  return (
    toolsProblem(provider, body.tools, 'tools') ??
    (provider === 'openai' ? openaiProblem(path, body) : anthropicProblem(body))
  );
}

/** Clouds get the list of features in the body, from which unknown ones are left out, as in the header. */
function forwarded(body: Fields, renames: Readonly<Record<string, string>> = {}): Fields {
  const model = String(body.model);
  if (Object.hasOwn(renames, model)) return { ...body, model: renames[model] };
  if (!Array.isArray(body.anthropic_beta)) return body;
  const known = body.anthropic_beta.filter((beta) => typeof beta === 'string' && knownBetas.test(beta));
  return { ...body, anthropic_beta: known };
}

/** Every model that the provider may answer with. */
function modelsIn(body: Fields): string[] {
  const others = Array.isArray(body.fallbacks) ? body.fallbacks : [];
  return [body, ...others].map((named) => (isObject(named) ? String(named.model) : ''));
}

function anthropicProblem(body: Fields): Problem {
  if (isSet(body.anthropic_beta) && !Array.isArray(body.anthropic_beta))
    return '`anthropic_beta`: expected a list';
  if (isSet(body.fallbacks) && !Array.isArray(body.fallbacks))
    return '`fallbacks`: expected a list that names each model';
  return (
    contentProblem(body.system, 'system', anthropicContent) ??
    listProblem(body.messages, 'messages', ({ content }, at) =>
      contentProblem(content, `${at}.content`, anthropicContent),
    )
  );
}

function openaiProblem(path: string, body: Fields): Problem {
  if (path === '/responses' && body.store !== false)
    return '`store`: expected false; the provider must not keep what an agent sends';
  if (typeof body.input === 'string') return undefined;
  return listProblem(body.input, 'input', (item, at) =>
    typeProblem({ ...item, type: item.type ?? 'message' }, at, openaiItems),
  );
}

/** A text, or a list of blocks of the known types. */
function contentProblem(content: unknown, at: string, types: Checks): Problem {
  if (typeof content === 'string') return undefined;
  return listProblem(content, at, (block, place) => typeProblem(block, place, types));
}

function typeProblem(block: Fields, at: string, types: Checks): Problem {
  const type = String(block.type);
  const check = Object.hasOwn(types, type) ? types[type] : undefined;
  if (!check)
    return `${quoted(`${at}.type`)}: the gateway does not forward content of the type ${quoted(type)}`;
  return referenceProblem(block, at) ?? check(block, at);
}

function referenceProblem(block: Fields, at: string): Problem {
  const name = references.find((reference) => isSet(block[reference]));
  return name && expected(`${at}.${name}`, block[name], 'data in the request itself');
}

function sourceProblem(source: unknown, at: string, types: readonly string[]): Problem {
  if (!isObject(source) || !types.includes(String(source.type)))
    return expected(`${at}.type`, isObject(source) ? source.type : source, types.join(', '));
  return (
    referenceProblem(source, at) ??
    (source.type === 'content'
      ? contentProblem(source.content, `${at}.content`, anthropicContent)
      : undefined)
  );
}

const dataUrlProblem = (value: unknown, at: string): Problem =>
  typeof value === 'string' && value.startsWith('data:') ? undefined : expected(at, value, 'a data: URL');

/** Without its content a reasoning item is a reference to one that the provider stored. */
const reasoningProblem: Check = ({ encrypted_content, content }, at) =>
  typeof encrypted_content === 'string' || isSet(content)
    ? undefined
    : expected(`${at}.encrypted_content`, encrypted_content, 'the encrypted reasoning itself');

function toolsProblem(provider: ProtocolName, tools: unknown, at: string): Problem {
  return listProblem(tools, at, (tool, place) => {
    if (tool.type !== undefined && !harnessTools[provider].test(String(tool.type)))
      return `${quoted(`${place}.type`)}: the gateway does not forward the tool ${quoted(tool.type)}, which runs at ${provider}`;
    return toolsProblem(provider, tool.tools, `${place}.tools`);
  });
}

function toolChangeProblem(tool: unknown, at: string): Problem {
  const type = isObject(tool) ? tool.type : tool;
  if (isObject(tool) && type === 'tool_definition')
    return toolsProblem('anthropic', [tool.definition], `${at}.definition`);
  return type === 'tool_reference'
    ? undefined
    : expected(`${at}.type`, type, 'tool_reference, tool_definition');
}

function listProblem(list: unknown, at: string, check: Check): Problem {
  if (list === undefined || list === null) return undefined;
  if (!Array.isArray(list)) return `${quoted(at)}: expected a list`;
  for (const [index, value] of list.entries()) {
    const place = `${at}[${index}]`;
    const problem = isObject(value) ? check(value, place) : `${quoted(place)}: expected an object`;
    if (problem !== undefined) return problem;
  }
  return undefined;
}

/** False, empty and missing values request nothing. */
const isSet = (value: unknown): boolean =>
  Array.isArray(value) ? value.length > 0 : value !== undefined && value !== null && value !== false;

const shownLength = 80;

const quoted = (value: unknown): string => {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? 'nothing');
  return `\`${text.length > shownLength ? `${text.slice(0, shownLength)}…` : text}\``;
};

const expected = (at: string, got: unknown, accepted: string): string =>
  `${quoted(at)}: expected ${accepted}; got ${quoted(got)}. The gateway forwards inline data only`;

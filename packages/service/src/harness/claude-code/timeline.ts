import type { SDKMessage, SDKPartialAssistantMessage } from '@anthropic-ai/claude-agent-sdk';
import { isObject } from '../../lib/json.ts';
import type { HarnessListener, McpServer } from '../harness.ts';
import { type LeftOutLine, leftOutText } from '../harness-lines.ts';
import {
  bounded,
  contentText,
  imagesIn,
  oneLine,
  retryText,
  toolsUnavailableText,
  workspacePath,
} from '../harness-text.ts';
import { keptText, OpenCalls } from '../open-calls.ts';
import { mostTokens, PlanReporter, reportCompaction, tokensIn } from '../plan.ts';
import type { CommandOutput } from './command-output.ts';
import { fileDiff } from './file-diff.ts';

/** A list may be as large as a line, and Claude Code changes it with one call at a time. */
const mostTodos = 4;

/** Turns the messages of Claude Code into items of the timeline. */
export class Timeline {
  readonly #listener: HarnessListener;
  readonly #workspaceFolder: string;
  readonly #commands: CommandOutput;
  readonly #servers: readonly Pick<McpServer, 'name'>[];
  /** The calls without a result yet, by their id. */
  readonly #calls = new OpenCalls<{ readonly tool: string; readonly path: string }>();
  /** The message and the block that are being written. */
  #messageId = '';
  #block: { readonly type: string; readonly key: string } | undefined;
  readonly #unavailableServers = new Set<string>();
  /** The calls that change the agent's todo list and have no result yet, with the list. */
  readonly #todos = new OpenCalls<readonly unknown[]>(mostTodos);
  readonly #plan: PlanReporter;
  #model = '';
  #usedTokens = 0;
  #windowTokens = 0;
  #isWarned = false;
  /** The last text of the turn, which is its response when it is interrupted. */
  lastText = '';

  constructor(
    listener: HarnessListener,
    workspaceFolder: string,
    commands: CommandOutput,
    servers: readonly Pick<McpServer, 'name'>[] = [],
  ) {
    this.#listener = listener;
    this.#commands = commands;
    this.#workspaceFolder = workspaceFolder;
    this.#servers = servers;
    this.#plan = new PlanReporter(listener);
  }

  /** A piece of the block that is being written. It is not masked: the listener masks it with the pieces before. */
  addPiece({ event, parent_tool_use_id }: SDKPartialAssistantMessage): void {
    if (parent_tool_use_id !== null) return;
    if (event.type === 'message_start') {
      this.#messageId = event.message.id;
      this.#discardBlock();
    }
    if (event.type === 'content_block_stop') this.#block = undefined;
    if (event.type === 'content_block_start')
      this.#block = { type: event.content_block.type, key: `${this.#messageId}/${event.index}` };
    if (event.type !== 'content_block_delta' || this.#block === undefined) return;
    const { key } = this.#block;
    const { delta } = event;
    if (delta.type === 'text_delta') this.#listener.partial({ key, type: 'MESSAGE', text: delta.text });
    if (delta.type === 'thinking_delta')
      this.#listener.partial({ key, type: 'THINKING', text: delta.thinking });
  }

  /** A message was begun and not completed: the provider failed, and is asked again. */
  #discardBlock(): void {
    if (this.#block) this.#listener.discardPartial(this.#block.key);
    this.#block = undefined;
  }

  add(message: SDKMessage): void {
    if (message.type === 'assistant' && message.error === undefined) {
      // Other messages are those of a sub-agent, which has its own context and todo list.
      const isOwn = message.parent_tool_use_id === null;
      if (isOwn) this.#setContext(usedTokensIn(message.message.usage));
      for (const block of message.message.content) this.#addBlock(block, isOwn);
    } else if (message.type === 'user' && Array.isArray(message.message.content)) {
      for (const block of message.message.content) {
        if (block.type === 'tool_result') this.#addResult(block, message.tool_use_result);
      }
    } else if (message.type === 'system' && message.subtype === 'api_retry') {
      this.#discardBlock();
      const { error_status, attempt, max_retries } = message;
      this.#warn(retryText(error_status ?? undefined, attempt, max_retries));
    } else if (message.type === 'system' && message.subtype === 'compact_boundary') {
      const { pre_tokens, post_tokens } = Object(message.compact_metadata) as Fields;
      reportCompaction(this.#listener, tokensIn(pre_tokens), tokensIn(post_tokens));
      this.#setContext(tokensIn(post_tokens));
    } else if (message.type === 'result') {
      this.#warnOfDenials(message.permission_denials);
      const usage = Object.entries(Object(message.modelUsage) as Fields).find(
        ([name]) => name === this.#model,
      );
      this.#windowTokens = tokensIn(Object(usage?.[1]).contextWindow);
      this.#setContext(this.#usedTokens);
    } else if (message.type === 'system' && message.subtype === 'init') {
      this.#model = message.model;
      const listed = message.mcp_servers;
      const unlisted = this.#servers.filter(({ name }) => !listed.some((server) => server.name === name));
      this.#warnUnavailable([...listed.filter((server) => server.status === 'failed'), ...unlisted]);
    }
  }

  leaveOut(line: LeftOutLine): void {
    if (!this.#isWarned) this.#warn(leftOutText('Claude Code', line));
    this.#isWarned = true;
  }

  /** Rules of the project that ask are refusals, because nobody can be asked during a turn. */
  #warnOfDenials(denials: unknown): void {
    const tools = new Set(
      (Array.isArray(denials) ? denials : []).map((denial) => String(Object(denial).tool_name)),
    );
    for (const tool of [...tools].slice(0, mostDenials))
      this.#warn(
        `Claude Code was not permitted to use ${bounded(tool)}: the permissions in .claude/settings.json deny it or ask, and nobody can be asked during a turn. Allow it there, or do it yourself.`,
      );
  }

  #warn(text: string): void {
    this.#listener.item({ type: 'WARNING', text });
  }

  #setContext(usedTokens: number): void {
    if (usedTokens === 0) return;
    this.#usedTokens = usedTokens;
    this.#listener.context({ usedTokens, windowTokens: this.#windowTokens });
  }

  #warnUnavailable(servers: readonly { readonly name: string }[]): void {
    for (const { name } of servers) {
      if (this.#unavailableServers.has(name)) continue;
      this.#unavailableServers.add(name);
      this.#warn(toolsUnavailableText(name));
    }
  }

  #addBlock(block: Block, isOwn: boolean): void {
    // The whole block comes before the stream says that it has ended.
    const key = isOwn && this.#block?.type === block.type ? this.#block.key : undefined;
    const data = key === undefined ? {} : { data: { key } };
    if (block.type === 'text' && block.text !== '') {
      this.lastText = block.text;
      this.#listener.item({ type: 'MESSAGE', text: block.text, ...data });
    } else if (block.type === 'thinking' && block.thinking !== '') {
      this.#listener.action('Thinking');
      this.#listener.item({ type: 'THINKING', text: block.thinking, ...data });
    } else if (block.type !== 'tool_use' || typeof block.id !== 'string') {
      return;
    } else if (block.name === 'TodoWrite' && isOwn) {
      this.#todos.set(block.id, todosIn(block.input));
    } else {
      this.#addCall(block);
    }
  }

  #addCall({ id, name, input }: Extract<Block, { type: 'tool_use' }>): void {
    const fields: Fields = isObject(input) ? input : {};
    const file = textIn(fields, 'file_path') || textIn(fields, 'notebook_path');
    const path = workspacePath(this.#workspaceFolder, file);
    this.#calls.set(id, { tool: keptText(name), path: keptText(path) });
    const { action, text } = describe(name, fields, path);
    this.#listener.action(oneLine(action));
    this.#listener.item({ type: 'TOOL_CALL', text, data: { tool: name, id, input: bounded(input) } });
    if (name === 'Bash') this.#commands.started(id);
  }

  #addResult(block: ToolResult, result: unknown): void {
    const todos = this.#todos.get(block.tool_use_id);
    this.#todos.delete(block.tool_use_id);
    if (todos && !block.is_error) return this.#plan.update(todos.map(stepOf));
    const { tool = todos ? 'TodoWrite' : '', path = '' } = this.#calls.get(block.tool_use_id) ?? {};
    this.#calls.delete(block.tool_use_id);
    const diff = fileDiff(result, path);
    const hasPartials = this.#commands.ended(block.tool_use_id);
    const data = {
      tool,
      id: block.tool_use_id,
      ...(block.is_error && { error: true }),
      ...(diff !== undefined && { diff }),
      ...(hasPartials && { key: block.tool_use_id }),
    };
    this.#listener.item(
      { type: 'TOOL_RESULT', text: contentText(block.content), data },
      imagesIn(block.content),
    );
  }
}

type Block = Extract<SDKMessage, { type: 'assistant' }>['message']['content'][number];

interface ToolResult {
  readonly tool_use_id: string;
  readonly content?: unknown;
  readonly is_error?: boolean;
}

type Fields = Readonly<Record<string, unknown>>;

/** The input comes from the sandbox and may be anything. */
function todosIn(input: unknown): readonly unknown[] {
  const { todos } = Object(input) as Fields;
  return Array.isArray(todos) ? todos : [];
}

function stepOf(todo: unknown): { text: unknown; status: unknown } {
  const { content, status } = Object(todo) as Fields;
  return { text: content, status };
}

/** All that the request contained, and the answer as far as it is counted. */
function usedTokensIn(usage: unknown): number {
  const counts = Object(usage) as Fields;
  const sum =
    tokensIn(counts.input_tokens) +
    tokensIn(counts.cache_creation_input_tokens) +
    tokensIn(counts.cache_read_input_tokens) +
    tokensIn(counts.output_tokens);
  return Math.min(sum, mostTokens);
}

const textIn = (fields: Fields, name: string): string => {
  const value = fields[name];
  return typeof value === 'string' ? value : '';
};

function describe(tool: string, input: Fields, path: string): { action: string; text: string } {
  const field = (name: string): string => textIn(input, name);
  switch (tool) {
    case 'Bash':
      return { action: `Running ${field('command')}`, text: field('command') };
    case 'Read':
      return { action: `Reading ${path}`, text: `Read ${path}` };
    case 'Write':
      return { action: `Writing ${path}`, text: `Write ${path}` };
    case 'Edit':
    case 'NotebookEdit':
      return { action: `Editing ${path}`, text: `Edit ${path}` };
    case 'Glob':
    case 'Grep':
      return { action: `Searching ${field('pattern')}`, text: `Search ${field('pattern')}` };
    case 'WebSearch':
      return { action: `Searching the web for ${field('query')}`, text: `Search the web: ${field('query')}` };
    case 'WebFetch':
      return { action: `Fetching ${field('url')}`, text: `Fetch ${field('url')}` };
    case 'Agent':
      return { action: `Sub-agent: ${field('description')}`, text: `Sub-agent: ${field('description')}` };
    case 'StructuredOutput':
      return { action: 'Returning its output', text: 'Return structured output' };
    default:
      return { action: `Using ${toolName(tool)}`, text: toolName(tool) };
  }
}

const mostDenials = 10;

/** The tools of Muster are shown without their server. */
const toolName = (tool: string): string => tool.replace(/^mcp__muster__/, '');

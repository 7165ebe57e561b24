import { relative } from 'node:path';
import type { SDKMessage } from '@anthropic-ai/claude-agent-sdk';
import type { ReportItem } from '@muster/sdk/contract';
import { bounded, oneLine } from '../bounded.ts';
import type { HarnessListener } from '../harness.ts';
import { fileDiff } from './file-diff.ts';

/** Turns what Claude says and does into the items of a timeline. */
export class Items {
  readonly #listener: HarnessListener;
  readonly #workspaceFolder: string;
  /** What results are still to come of, by the id of the call. */
  readonly #calls = new Map<string, { readonly tool: string; readonly path: string }>();
  readonly #missing = new Set<string>();
  /** What was last said, which is the answer of a turn that is cut. */
  lastText = '';

  constructor(listener: HarnessListener, workspaceFolder: string) {
    this.#listener = listener;
    this.#workspaceFolder = workspaceFolder;
  }

  tell(message: SDKMessage): void {
    if (message.type === 'assistant' && message.error === undefined) {
      for (const block of message.message.content) this.#said(block);
    } else if (message.type === 'user' && Array.isArray(message.message.content)) {
      for (const block of message.message.content) {
        if (block.type === 'tool_result') this.#returned(block, message.tool_use_result);
      }
    } else if (message.type === 'system' && message.subtype === 'api_retry') {
      this.#item({ type: 'WARNING', text: retryText(message) });
    } else if (message.type === 'system' && message.subtype === 'init') {
      this.#missed(message.mcp_servers.filter((server) => server.status === 'failed'));
    }
  }

  #missed(servers: readonly { readonly name: string }[]): void {
    for (const { name } of servers) {
      if (this.#missing.has(name)) continue;
      this.#missing.add(name);
      this.#item({ type: 'WARNING', text: `The tools of ${name} can't be reached: the agent goes without.` });
    }
  }

  #said(block: Said): void {
    if (block.type === 'text' && block.text !== '') {
      this.lastText = block.text;
      this.#item({ type: 'MESSAGE', text: block.text });
    } else if (block.type === 'thinking' && block.thinking !== '') {
      this.#listener.action('Thinking');
      this.#item({ type: 'THINKING', text: block.thinking });
    } else if (block.type === 'tool_use') {
      this.#called(block);
    }
  }

  #called({ id, name, input }: Extract<Said, { type: 'tool_use' }>): void {
    const fields = fieldsOf(input);
    const path = this.#pathIn(fields);
    this.#calls.set(id, { tool: name, path });
    const { doing, text } = describe(name, fields, path);
    this.#listener.action(oneLine(doing));
    this.#item({ type: 'TOOL_CALL', text, data: { tool: name, id, input: bounded(input) } });
  }

  #returned(block: Returned, result: unknown): void {
    const { tool = '', path = '' } = this.#calls.get(block.tool_use_id) ?? {};
    this.#calls.delete(block.tool_use_id);
    const diff = fileDiff(result, path);
    const data = {
      tool,
      id: block.tool_use_id,
      ...(block.is_error && { error: true }),
      ...(diff !== undefined && { diff }),
    };
    this.#item({ type: 'TOOL_RESULT', text: textOf(block.content), data });
  }

  /** Of the file that a call is about, as seen from the workspace. */
  #pathIn(input: Fields): string {
    const path = fieldOf(input, 'file_path') || fieldOf(input, 'notebook_path');
    const inside = relative(this.#workspaceFolder, path);
    return path === '' || inside.startsWith('..') ? path : inside;
  }

  #item(item: ReportItem): void {
    this.#listener.item(item);
  }
}

type Said = Extract<SDKMessage, { type: 'assistant' }>['message']['content'][number];

interface Returned {
  readonly tool_use_id: string;
  readonly content?: unknown;
  readonly is_error?: boolean;
}

type Fields = Readonly<Record<string, unknown>>;

const fieldsOf = (input: unknown): Fields =>
  typeof input === 'object' && input !== null ? (input as Fields) : {};

const fieldOf = (fields: Fields, name: string): string => {
  const value = fields[name];
  return typeof value === 'string' ? value : '';
};

function describe(tool: string, input: Fields, path: string): { doing: string; text: string } {
  const field = (name: string): string => fieldOf(input, name);
  switch (tool) {
    case 'Bash':
      return { doing: `Running ${field('command')}`, text: field('command') };
    case 'Read':
      return { doing: `Reading ${path}`, text: `Read ${path}` };
    case 'Write':
      return { doing: `Writing ${path}`, text: `Write ${path}` };
    case 'Edit':
    case 'NotebookEdit':
      return { doing: `Editing ${path}`, text: `Edit ${path}` };
    case 'Glob':
    case 'Grep':
      return { doing: `Searching ${field('pattern')}`, text: `Search ${field('pattern')}` };
    case 'StructuredOutput':
      return { doing: 'Returning its output', text: 'Return structured output' };
    default:
      return { doing: `Using ${plainName(tool)}`, text: plainName(tool) };
  }
}

/** The agent's own tools are known by their names alone. */
const plainName = (tool: string): string => tool.replace(/^mcp__muster__/, '');

function textOf(content: unknown): string {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return '';
  return content.flatMap((part) => (part?.type === 'text' ? [String(part.text)] : [])).join('\n');
}

function retryText(retry: Extract<SDKMessage, { subtype: 'api_retry' }>): string {
  const answer = retry.error_status === null ? 'gave no answer' : `answered ${retry.error_status}`;
  return `The provider ${answer}: trying again (${retry.attempt} of ${retry.max_retries}).`;
}

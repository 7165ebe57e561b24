import { relative } from 'node:path';
import type { ReportItem } from '@muster/sdk/contract';
import { bounded, oneLine } from '../bounded.ts';
import type { HarnessListener } from '../harness.ts';
import type { CommandExecution, FileChange, McpToolCall, Notification, ThreadItem } from './protocol.ts';
import { retryText } from './provider-error.ts';

const outputLength = 64 * 1024;

/** Turns what Codex says and does into the items of a timeline. */
export class Items {
  readonly #listener: HarnessListener;
  readonly #workspaceFolder: string;
  /** Calls that were told; a short one may come to be known only by its end. */
  readonly #called = new Set<string>();
  /** What was last said: the answer of the turn. */
  lastText = '';

  constructor(listener: HarnessListener, workspaceFolder: string) {
    this.#listener = listener;
    this.#workspaceFolder = workspaceFolder;
  }

  tell({ method, params }: Notification): void {
    switch (method) {
      case 'item/started':
        return this.#begun(params.item);
      case 'item/completed':
        return this.#ended(params.item);
      case 'error':
        if (params.willRetry) this.warn(retryText(params.error));
        return;
      case 'warning':
        return this.warn(params.message);
      case 'mcpServer/startupStatus/updated':
        if (params.status === 'failed')
          this.warn(`The tools of ${params.name} can't be reached: the agent goes without.`);
        return;
    }
  }

  #begun(item: ThreadItem): void {
    switch (item.type) {
      case 'reasoning':
        return this.#listener.action('Thinking');
      case 'contextCompaction':
        return this.#listener.action('Summing up the conversation');
      case 'commandExecution':
      case 'fileChange':
      case 'mcpToolCall':
        return this.#call(item);
    }
  }

  #ended(item: ThreadItem): void {
    switch (item.type) {
      case 'agentMessage':
        if (item.text === '') return;
        this.lastText = item.text;
        return this.#listener.item({ type: 'MESSAGE', text: item.text });
      case 'reasoning': {
        const text = [...item.summary, ...item.content].join('\n\n');
        return text === '' ? undefined : this.#listener.item({ type: 'THINKING', text });
      }
      case 'commandExecution':
      case 'fileChange':
      case 'mcpToolCall':
        if (!this.#called.has(item.id)) this.#call(item);
        this.#called.delete(item.id);
        return this.#listener.item(resultOf(item));
      case 'webSearch':
        return this.#told('web_search', item.id, item.query);
      case 'imageView':
        return this.#told('view_image', item.id, this.#shown(item.path));
    }
  }

  #call(item: Call): void {
    this.#called.add(item.id);
    const { doing, text, data } = this.#describe(item);
    this.#listener.action(oneLine(doing));
    this.#listener.item({ type: 'TOOL_CALL', text, data: { tool: toolOf(item), id: item.id, ...data } });
  }

  #describe(item: Call): { doing: string; text: string; data?: Record<string, unknown> } {
    switch (item.type) {
      case 'commandExecution': {
        const command = commandIn(item.command);
        return { doing: `Running ${command}`, text: command };
      }
      case 'fileChange': {
        const files = item.changes.map(({ path }) => this.#shown(path));
        return { doing: `Editing ${files.join(', ')}`, text: `Edit ${files.join(', ')}`, data: { files } };
      }
      case 'mcpToolCall': {
        const tool = toolOf(item);
        return { doing: `Using ${tool}`, text: tool, data: { input: bounded(item.arguments) } };
      }
    }
  }

  #told(tool: string, id: string, text: string): void {
    this.#listener.item({ type: 'TOOL_CALL', text, data: { tool, id } });
  }

  warn(text: string): void {
    this.#listener.item({ type: 'WARNING', text });
  }

  #shown(path: string): string {
    const inside = relative(this.#workspaceFolder, path);
    return inside.startsWith('..') ? path : inside;
  }
}

type Call = CommandExecution | FileChange | McpToolCall;

function resultOf(item: Call): ReportItem {
  const told = { tool: toolOf(item), id: item.id };
  switch (item.type) {
    case 'commandExecution': {
      const data = { ...told, ...(item.exitCode === null ? {} : { exitCode: item.exitCode }) };
      return { type: 'TOOL_RESULT', text: middleCut(item.aggregatedOutput ?? ''), data };
    }
    case 'fileChange': {
      const text = item.changes.map(({ kind, path, diff }) => `${kind.type} ${path}\n${diff}`).join('\n');
      return { type: 'TOOL_RESULT', text: middleCut(text), data: { ...told, ...failure(item) } };
    }
    case 'mcpToolCall': {
      const text = item.error?.message ?? textOf(item.result?.content ?? []);
      return { type: 'TOOL_RESULT', text: middleCut(text), data: { ...told, ...failure(item) } };
    }
  }
}

const failure = ({ status }: { readonly status: string }) => (status === 'completed' ? {} : { error: true });

/** The agent's own tools are known by their names alone. */
function toolOf(item: Call): string {
  if (item.type === 'commandExecution') return 'shell';
  if (item.type === 'fileChange') return 'apply_patch';
  return item.server === 'muster' ? item.tool : `${item.server}.${item.tool}`;
}

/** As the model wrote it: without the shell that Codex puts around it. */
function commandIn(command: string): string {
  const [shell = '', option = '', script] = shellWords(command);
  return script !== undefined && shell.endsWith('sh') && /^-l?c$/.test(option) ? script : command;
}

/** Splits where a shell would, and takes the quotes off. */
function shellWords(command: string): string[] {
  const words = command.match(/(?:'[^']*'|"(?:\\[\s\S]|[^"\\])*"|\\[\s\S]|[^\s'"\\])+/g) ?? [];
  const quoted = /'([^']*)'|"((?:\\[\s\S]|[^"\\])*)"|\\([\s\S])/g;
  return words.map((word) =>
    word.replace(
      quoted,
      (_, single?: string, double?: string, escaped?: string) =>
        single ?? double?.replace(/\\([$`"\\])/g, '$1') ?? escaped ?? '',
    ),
  );
}

function textOf(content: readonly unknown[]): string {
  return content
    .flatMap((part) =>
      typeof part === 'object' && part !== null && 'text' in part ? [String(part.text)] : [],
    )
    .join('\n');
}

/** A command says at its beginning what it does, and at its end how it went. */
function middleCut(text: string): string {
  const leftOut = text.length - outputLength;
  if (leftOut <= 0) return text;
  const half = outputLength / 2;
  return `${text.slice(0, half)}\n… ${leftOut} characters left out …\n${text.slice(-half)}`;
}

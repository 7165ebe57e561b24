import type { ReportItem } from '@muster/sdk/contract';
import { bounded, contentText, retryText } from '../harness-text.ts';
import type { CommandExecution, FileChange, McpToolCall, TurnError } from './app-server.ts';

/** How the timeline shows the calls of tools and their results. */
const outputLength = 64 * 1024;

export type Call = CommandExecution | FileChange | McpToolCall;

/** What the agent is doing, and the text of the call. */
export function describe(
  item: Call,
  shown: (path: string) => string,
): { action: string; text: string; data?: Record<string, unknown> } {
  switch (item.type) {
    case 'commandExecution': {
      const command = commandIn(item.command);
      return { action: `Running ${command}`, text: command };
    }
    case 'fileChange': {
      const files = item.changes.map(({ path }) => shown(path));
      return { action: `Editing ${files.join(', ')}`, text: `Edit ${files.join(', ')}`, data: { files } };
    }
    case 'mcpToolCall': {
      const tool = toolOf(item);
      return { action: `Using ${tool}`, text: tool, data: { input: bounded(item.arguments) } };
    }
  }
}

export function resultOf(item: Call, key: { readonly key: string } | undefined): ReportItem {
  const call = { tool: toolOf(item), id: item.id, ...key };
  switch (item.type) {
    case 'commandExecution': {
      const data = { ...call, ...(item.exitCode === null ? {} : { exitCode: item.exitCode }) };
      return { type: 'TOOL_RESULT', text: cutMiddle(item.aggregatedOutput ?? ''), data };
    }
    case 'fileChange': {
      const text = item.changes.map(({ kind, path, diff }) => `${kind.type} ${path}\n${diff}`).join('\n');
      return { type: 'TOOL_RESULT', text: cutMiddle(text), data: { ...call, ...failure(item) } };
    }
    case 'mcpToolCall': {
      const text = item.error?.message ?? contentText(item.result?.content);
      return { type: 'TOOL_RESULT', text: cutMiddle(text), data: { ...call, ...failure(item) } };
    }
  }
}

const failure = ({ status }: { readonly status: string }) => (status === 'completed' ? {} : { error: true });

/** The tools of Muster are shown without their server. */
export function toolOf(item: Call): string {
  if (item.type === 'commandExecution') return 'shell';
  if (item.type === 'fileChange') return 'apply_patch';
  return item.server === 'muster' ? item.tool : `${item.server}.${item.tool}`;
}

/** The command of the model, without the shell that Codex adds. */
function commandIn(command: string): string {
  const [shell = '', option = '', script] = shellWords(command);
  return script !== undefined && shell.endsWith('sh') && /^-l?c$/.test(option) ? script : command;
}

/** Splits a command as a shell does, and removes the quotes. */
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

/** Cuts the middle: the beginning of an output says what was done, its end how it went. */
function cutMiddle(text: string): string {
  const leftOut = text.length - outputLength;
  if (leftOut <= 0) return text;
  const half = outputLength / 2;
  return `${text.slice(0, half)}\n… ${leftOut} characters left out …\n${text.slice(-half)}`;
}

export function retryTextOf({ message, codexErrorInfo }: TurnError): string {
  const [, attempt, most] = /(\d+)\/(\d+)/.exec(message) ?? [];
  const codes = Object.values(Object(codexErrorInfo)).map((info): unknown => Object(info).httpStatusCode);
  return retryText(
    codes.find((code) => typeof code === 'number'),
    attempt,
    most,
  );
}

import { limits } from '@muster/sdk/contract';
import type { HarnessListener, PartialOutput } from '../harness.ts';
import { imagesIn, oneLine, toolsUnavailableText, workspacePath } from '../harness-text.ts';
import { keptText, OpenCalls } from '../open-calls.ts';
import { PlanReporter, reportCompaction, tokensIn } from '../plan.ts';
import type { Delta, Notification, ThreadItem } from './app-server.ts';
import { type Call, describe, resultOf, retryTextOf, toolOf } from './tool-texts.ts';

/** Turns the notifications of Codex into items of the timeline. */
export class Timeline {
  readonly #listener: HarnessListener;
  readonly #workspaceFolder: string;
  /** The tools of calls without a result. Of a short call Codex may report only the end. */
  readonly #called = new OpenCalls<string>();
  readonly #plan: PlanReporter;
  #usedTokens = 0;
  /** What was used when the compaction began that is running. */
  #beforeTokens = 0;
  /** Items whose pieces were reported, with the part of a reasoning that the last piece belonged to. */
  readonly #streamed = new OpenCalls<string>();
  readonly #readImage: ReadImage;
  /** The images that are being read, one after the other. */
  #reading: Promise<void> = Promise.resolve();
  #viewed = 0;
  /** The last text of the turn: its response. */
  lastText = '';

  constructor(listener: HarnessListener, workspaceFolder: string, readImage: ReadImage) {
    this.#listener = listener;
    this.#workspaceFolder = workspaceFolder;
    this.#readImage = readImage;
    this.#plan = new PlanReporter(listener);
  }

  /** A piece of an item. It is not masked: the listener masks it with the pieces before. */
  addPiece({ method, params }: Delta): void {
    const { itemId: key, delta: text, summaryIndex, contentIndex } = params;
    if (typeof text !== 'string' || typeof key !== 'string') return;
    const type = partialTypes[method];
    const part = `${method} ${Number(summaryIndex ?? contentIndex ?? 0)}`;
    const before = this.#streamed.get(key);
    this.#streamed.set(key, part);
    // The parts of a reasoning are paragraphs.
    const isNewPart = type === 'THINKING' && before !== undefined && before !== part;
    this.#listener.partial({ key, type, text: isNewPart ? `\n\n${text}` : text });
  }

  /** For the data of an item whose pieces were reported. */
  #keyOf(id: string): { readonly key: string } | undefined {
    return this.#streamed.delete(id) ? { key: id } : undefined;
  }

  #said(type: 'MESSAGE' | 'THINKING', { id }: ThreadItem, text: string): void {
    const data = this.#keyOf(id);
    if (text !== '') this.#listener.item({ type, text, ...(data && { data }) });
  }

  add({ method, params }: Notification): void {
    switch (method) {
      case 'item/started':
        return this.#started(params.item);
      case 'item/completed':
        return this.#completed(params.item);
      case 'turn/completed':
        return this.#discardTexts();
      case 'turn/plan/updated':
        return this.#plan.update(params.plan.map(({ step, status }) => ({ text: step, status })));
      case 'thread/tokenUsage/updated':
        return this.#setContext(params.tokenUsage);
      case 'error':
        if (!params.willRetry) return;
        this.#discardTexts();
        return this.warn(retryTextOf(params.error));
      case 'warning':
        return this.warn(params.message);
      case 'mcpServer/startupStatus/updated':
        if (params.status === 'failed') this.warn(toolsUnavailableText(params.name));
        return;
    }
  }

  /** Texts that were begun and not completed: the provider failed, or a new message came. Codex writes one at a time. */
  #discardTexts(next = ''): void {
    for (const [key, part] of this.#streamed) {
      if (part.startsWith(commandOutput) || key === next) continue;
      this.#listener.discardPartial(key);
      this.#streamed.delete(key);
    }
  }

  #started(item: ThreadItem): void {
    switch (item.type) {
      case 'agentMessage':
        return this.#discardTexts(item.id);
      case 'reasoning':
        this.#discardTexts(item.id);
        return this.#listener.action('Thinking');
      case 'contextCompaction':
        this.#beforeTokens = this.#usedTokens;
        return this.#listener.action('Compacting the conversation');
      case 'commandExecution':
      case 'fileChange':
      case 'mcpToolCall':
        return this.#call(item);
    }
  }

  #completed(item: ThreadItem): void {
    switch (item.type) {
      case 'agentMessage':
        if (item.text === '') return;
        this.lastText = item.text;
        return this.#said('MESSAGE', item, item.text);
      case 'reasoning':
        return this.#said('THINKING', item, [...item.summary, ...item.content].join('\n\n'));
      case 'commandExecution':
      case 'fileChange':
      case 'mcpToolCall':
        if (!this.#called.has(item.id)) this.#call(item);
        this.#called.delete(item.id);
        return this.#listener.item(
          resultOf(item, this.#keyOf(item.id)),
          item.type === 'mcpToolCall' ? imagesIn(item.result?.content) : [],
        );
      case 'contextCompaction':
        return this.#compacted();
      case 'webSearch':
        return this.#addTool('web_search', item.id, item.query);
      // Depending on the model, Codex reports the calls, or what the sub-agents do.
      case 'collabAgentToolCall':
        return this.#addTool('sub_agent', item.id, [item.tool, item.prompt].filter(Boolean).join(': '));
      case 'subAgentActivity':
        return this.#addTool('sub_agent', item.id, `${item.kind}: ${item.agentPath}`);
      case 'imageView':
        this.#addTool('view_image', item.id, this.#shown(item.path));
        return this.#showImage(item);
    }
  }

  /** Codex reports where the image is. One that can't be read stays a path. */
  #showImage({ id, path }: ImageView): void {
    this.#viewed += 1;
    if (this.#viewed > limits.toolImagesPerRun) return;
    this.#reading = this.#reading.then(async () => {
      const image = await this.#readImage(path);
      if (image) this.#listener.item({ type: 'TOOL_RESULT', data: { tool: 'view_image', id } }, [image]);
    });
  }

  /** Resolves, never rejects, when the images that the agent viewed were reported. */
  imagesRead(): Promise<void> {
    return this.#reading;
  }

  #setContext({ last, modelContextWindow }: TokenUsage): void {
    const usedTokens = tokensIn(last.totalTokens);
    if (usedTokens === 0) return;
    this.#usedTokens = usedTokens;
    this.#listener.context({ usedTokens, windowTokens: tokensIn(modelContextWindow) });
  }

  /** Codex reports what is left before the end of the compaction. */
  #compacted(): void {
    const before = this.#beforeTokens;
    reportCompaction(this.#listener, before, this.#usedTokens < before ? this.#usedTokens : 0);
  }

  #call(item: Call): void {
    this.#called.set(item.id, keptText(toolOf(item)));
    const { action, text, data } = describe(item, (path) => this.#shown(path));
    this.#listener.action(oneLine(action));
    this.#listener.item({ type: 'TOOL_CALL', text, data: { tool: toolOf(item), id: item.id, ...data } });
  }

  /** Codex is gone. A command that takes longer than ten seconds goes on in the background, and may outlive its turn. */
  endCalls(): void {
    for (const [id, tool] of this.#called) {
      const data = { tool, id, ...this.#keyOf(id), error: true };
      this.#listener.item({
        type: 'TOOL_RESULT',
        text: 'It was still running at the end of the run, and was stopped.',
        data,
      });
    }
    this.#called.clear();
  }

  #addTool(tool: string, id: string, text: string): void {
    this.#listener.item({ type: 'TOOL_CALL', text, data: { tool, id } });
  }

  warn(text: string): void {
    this.#listener.item({ type: 'WARNING', text });
  }

  #shown(path: string): string {
    return workspacePath(this.#workspaceFolder, path);
  }
}

/** The image as base64; empty if it can't be read. Never rejects. */
export type ReadImage = (path: string) => Promise<string>;
type ImageView = Extract<ThreadItem, { type: 'imageView' }>;
type TokenUsage = Extract<Notification, { method: 'thread/tokenUsage/updated' }>['params']['tokenUsage'];

const commandOutput = 'item/commandExecution/outputDelta';

const partialTypes: Readonly<Record<Delta['method'], PartialOutput['type']>> = {
  'item/agentMessage/delta': 'MESSAGE',
  'item/reasoning/summaryTextDelta': 'THINKING',
  'item/reasoning/textDelta': 'THINKING',
  [commandOutput]: 'TOOL_RESULT',
};

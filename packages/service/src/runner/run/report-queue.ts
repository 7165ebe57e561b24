import { limits, type ReportItem, type ReportRequest } from '@muster/sdk/contract';
import { within } from '../../harness/agent-process.ts';
import type { ContextUse, Diff, PartialOutput, Push, Usage } from '../../harness/harness.ts';
import { OpenCalls } from '../../harness/open-calls.ts';
import type { ValueMask } from '../../lib/value-mask.ts';
import { bounded, jsonBytes, storable, storableValue } from '../report-text.ts';
import { ToolCalls } from './tool-calls.ts';
import { noUsage, sumOf } from './usage.ts';

type Latest = Pick<ReportRequest, 'currentAction' | 'account' | 'session' | 'unpushed' | 'context'>;
type Contents = Latest & Pick<ReportRequest, 'items' | 'pushes' | 'diff' | 'usage'>;
/** Chooses which images of tools are stored. */
export interface ImageCheck {
  accept(base64: string): Buffer | undefined;
}
type Part = { readonly bytes: number } & (
  | { readonly item: ReportItem }
  | { readonly push: Push }
  | { readonly diff: Diff }
);

/** How long a call of a tool waits until the service has what is queued. */
const flushMs = 5_000;
/** So that the end of the run also fits into a request of 1 MiB. */
const reportBytes = 384 * 1024;
export const textBytes = 256 * 1024;
const diffBytes = 512 * 1024;
/** What is queued while the service is unavailable; beyond it new items are counted and dropped. */
const queueBytes = 16 * 1024 * 1024;
/** Of the queue, images are kept up to here. */
const imageBytes = (queueBytes * 3) / 4;
const pushesPerReport = 100;
const maxWaitingPushes = 100;
/** Items that the harness reports in the order of events; a warning can come from anywhere. */
const harnessItems: readonly ReportItem['type'][] = [
  'TOOL_CALL',
  'TOOL_RESULT',
  'MESSAGE',
  'THINKING',
  'PLAN',
];

export interface QueueOptions {
  readonly maxItems: number;
  readonly textLength: number;
  /** Called after each change. */
  readonly onChange: () => void;
  readonly onPush: () => void;
  /** Sends everything that is queued; resolves when the service has it. */
  readonly flush: () => Promise<void>;
  readonly onUsage?: (usage: Usage) => void;
  /** Called with each item as it is reported. */
  readonly onItem?: ((item: ReportItem) => void) | undefined;
  /** Applied to every text before it is cut. */
  readonly mask: ValueMask;
  readonly output: ProducedTexts;
  readonly images: ImageCheck;
}

/** What the run is producing, for those who watch it. */
export interface ProducedTexts {
  add(partial: PartialOutput): void;
  discard(key: string): void;
  /** The item with the whole text is reported. */
  settle(key: string): void;
  isWatched(): boolean;
  /** Nothing is sent until items that came before it are reported: `release` is called then. */
  hold(): void;
  release(): void;
}

/**
 * Collects what a run does, and splits it into reports that the service accepts. Pushes are reported after the commands
 * that made them: the gateway reports a push immediately, but the harness may report the command only when it has ended.
 * So a push without a running call waits for the next item of the harness.
 */
export class ReportQueue {
  readonly #options: QueueOptions;
  readonly #runningCalls = new OpenCalls<true>();
  readonly #toolCalls = new ToolCalls();
  readonly #waitingPushes: Push[] = [];
  #sessionName = '';
  #parts: Part[] = [];
  #bytes = 0;
  #dropped = 0;
  /** The images of items that are queued or were taken. */
  readonly #images = new WeakMap<ReportItem, readonly Buffer[]>();
  #usage: Usage | undefined;
  #latest: Latest = {};

  constructor(options: QueueOptions) {
    this.#options = options;
  }

  /** The number of items, pushes and diffs; everything else fits into any report. */
  get length(): number {
    return this.#parts.length;
  }

  /** The harness's last name of its session, or empty. */
  get sessionName(): string {
    return this.#sessionName;
  }

  item(item: ReportItem, images: readonly string[] = []): void {
    const { type, data } = item;
    this.#addItem(item, images);
    if (typeof data?.key === 'string') this.#options.output.settle(data.key);
    if (type === 'TOOL_CALL') {
      this.#runningCalls.set(callOf(data), true);
      this.#toolCalls.seen(String(data?.tool));
    }
    if (type === 'TOOL_RESULT') this.#runningCalls.delete(callOf(data));
    if (harnessItems.includes(type)) this.flushPushes();
    this.#options.onChange();
  }

  /**
   * The agent has called one of its tools at the service, which may write to the timeline: the call comes first. A harness
   * reports it at about the same time; if it does not, or the service can't be reached, the call goes on.
   */
  async beforeTool(tool: string): Promise<void> {
    await this.#toolCalls.whenSeen(tool);
    await within(flushMs, this.#options.flush());
  }

  /** Of an item that was taken. They are uploaded before it is reported. */
  imagesOf(item: ReportItem): readonly Buffer[] {
    return this.#images.get(item) ?? [];
  }

  partial(partial: PartialOutput): void {
    this.#options.output.add(partial);
  }

  discardPartial(key: string): void {
    this.#options.output.discard(key);
  }

  isWatched(): boolean {
    return this.#options.output.isWatched();
  }

  push(push: Push): void {
    this.#options.onPush();
    this.#waitingPushes.push(push);
    if (this.#runningCalls.size > 0 || this.#waitingPushes.length >= maxWaitingPushes) this.flushPushes();
    this.#options.onChange();
  }

  /** Also the pushes that wait for the next item. */
  flushPushes(): void {
    for (const push of this.#waitingPushes.splice(0)) this.#addPush(push);
  }

  action(currentAction: string): void {
    this.#set({ currentAction: bounded(this.#masked(currentAction), 512) });
  }

  session(name: string): void {
    this.#sessionName = name;
    this.#set({ session: bounded(name, 512) });
  }

  account(id: string): void {
    this.#set({ account: id });
  }

  context({ usedTokens, windowTokens }: ContextUse): void {
    const known = this.#latest.context?.windowTokens ?? 0;
    this.#set({ context: { usedTokens, windowTokens: windowTokens || known } });
  }

  unpushed({ isSaved, isPartial = !isSaved, ...counts }: NonNullable<ReportRequest['unpushed']>): void {
    const wasSaved = this.#latest.unpushed?.isSaved ?? false;
    this.#set({ unpushed: { ...counts, isSaved: isSaved || wasSaved, ...(isPartial && { isPartial }) } });
  }

  #set(latest: Latest): void {
    this.#latest = { ...this.#latest, ...latest };
    this.#options.onChange();
  }

  #addItem(item: ReportItem, images: readonly string[] = []): void {
    const { mask, textLength } = this.#options;
    const text =
      item.text === undefined ? {} : { text: bounded(mask.text(item.text), textLength, textBytes) };
    const data = storableValue(mask.value(item.data)) as ReportItem['data'];
    const stored: ReportItem = {
      type: item.type,
      ...text,
      ...(data && jsonBytes(data) <= textBytes / 4 && { data }),
    };
    this.#options.onItem?.(stored);
    const kept = this.#keptImages(images);
    if (kept.length > 0) this.#images.set(stored, kept);
    this.#add({ item: stored, bytes: jsonBytes(stored) + bytesOf(kept) });
  }

  /** Those that leave space for further items while the service is unavailable. */
  #keptImages(images: readonly string[]): Buffer[] {
    const kept: Buffer[] = [];
    for (const base64 of images) {
      if (this.#bytes + bytesOf(kept) + base64.length > imageBytes) continue;
      const image = this.#options.images.accept(base64);
      if (image) kept.push(image);
    }
    return kept;
  }

  #addPush(push: Push): void {
    const files: string[] = [];
    let bytes = 0;
    for (const file of push.files) {
      const name = bounded(this.#masked(file), limits.fileNameLength);
      bytes += jsonBytes(name) + 1;
      if (bytes > textBytes || files.length === limits.filesPerPush) break;
      files.push(name);
    }
    const stored = {
      ...(push.repo !== undefined && { repo: storable(push.repo) }),
      ref: bounded(push.ref, limits.fileNameLength),
      ...(push.tip !== undefined && { tip: storable(push.tip) }),
      commits: push.commits.map(storable),
      files,
    };
    this.#add({ push: stored, bytes: jsonBytes(stored) });
  }

  /** Replaces an older diff of the same repository. */
  diff(diff: Diff): void {
    const isOlder = (part: Part) =>
      'diff' in part && part.diff.repo === diff.repo && part.diff.workingTree === diff.workingTree;
    for (const part of this.#parts.filter(isOlder)) this.#bytes -= part.bytes;
    this.#parts = this.#parts.filter((part) => !isOlder(part));
    const stored = {
      ...diff,
      repo: storable(diff.repo),
      text: bounded(this.#masked(diff.text), limits.diffLength, diffBytes),
    };
    this.#add({ diff: stored, bytes: jsonBytes(stored) });
    this.#options.onChange();
  }

  usage({ parts = [], ...amounts }: Usage): void {
    const masked = parts.map((part) => ({ ...part, model: this.#masked(part.model ?? '') }));
    const usage: Usage = { ...amounts, ...(masked.length > 0 && { parts: masked }) };
    this.#usage = sumOf(this.#usage ?? noUsage, usage);
    this.#options.onUsage?.(usage);
    this.#options.onChange();
  }

  /** Removes and returns the contents of the next report. */
  take(): Contents {
    const items: ReportItem[] = [];
    const pushes: Push[] = [];
    let diff: Diff | undefined;
    let bytes = 0;
    let taken = 0;
    for (const part of this.#parts) {
      bytes += part.bytes;
      if (taken > 0 && bytes > reportBytes) break;
      if (items.length >= this.#options.maxItems || pushes.length >= pushesPerReport) break;
      if ('diff' in part && diff) break;
      if ('item' in part) items.push(part.item);
      else if ('push' in part) pushes.push(part.push);
      else diff = part.diff;
      this.#bytes -= part.bytes;
      taken += 1;
    }
    this.#parts = this.#parts.slice(taken);
    this.#reportDropped();
    const usage = this.#usage;
    const latest = this.#latest;
    this.#usage = undefined;
    this.#latest = {};
    return {
      ...latest,
      ...(items.length > 0 && { items }),
      ...(pushes.length > 0 && { pushes }),
      ...(diff && { diff }),
      ...(usage && { usage }),
    };
  }

  #masked(text: string): string {
    return this.#options.mask.text(text);
  }

  #add(part: Part): void {
    if (this.#bytes + part.bytes > queueBytes) {
      this.#dropped += 1;
      return;
    }
    this.#parts.push(part);
    this.#bytes += part.bytes;
  }

  #reportDropped(): void {
    if (this.#dropped === 0) return;
    const text = `${this.#dropped} items were dropped: the service was unavailable and the queue was full.`;
    this.#dropped = 0;
    this.#addItem({ type: 'WARNING', text });
  }
}

/** Of the call that an item is about; empty if it has none. */
const callOf = (data: ReportItem['data']): string => (typeof data?.id === 'string' ? data.id : '');

const bytesOf = (images: readonly Buffer[]): number => images.reduce((sum, { length }) => sum + length, 0);

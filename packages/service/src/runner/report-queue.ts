import { limits, type ReportItem, type ReportRequest } from '@muster/sdk/contract';
import type { Diff, Push, Usage } from '../harness/harness.ts';
import { bounded, jsonBytes, storable, storableValue } from './wire-text.ts';

type Latest = Pick<ReportRequest, 'currentAction' | 'session' | 'unpushed'>;
type Contents = Latest & Pick<ReportRequest, 'items' | 'pushes' | 'diff' | 'usage'>;
type Part =
  | { readonly item: ReportItem; readonly bytes: number }
  | { readonly push: Push; readonly bytes: number }
  | { readonly diff: Diff; readonly bytes: number };

/** A report leaves room in a request of 1 MiB for the end of the run. */
const reportBytes = 384 * 1024;
export const textBytes = 256 * 1024;
const diffBytes = 512 * 1024;
/** What waits while the service is away; beyond it the newest are counted and left out. */
const waitingBytes = 16 * 1024 * 1024;
const pushesPerReport = 100;

/** What waits to be reported, cut into reports that the service takes. */
export class ReportQueue {
  readonly #mostItems: number;
  readonly #textLength: number;
  #parts: Part[] = [];
  #bytes = 0;
  #leftOut = 0;
  #usage: Usage | undefined;
  #latest: Latest = {};

  constructor(mostItems: number, textLength: number) {
    this.#mostItems = mostItems;
    this.#textLength = textLength;
  }

  get length(): number {
    return this.#parts.length;
  }

  /** No items or pushes wait; what else there is goes with any report. */
  isEmpty(): boolean {
    return this.#parts.length === 0;
  }

  addItem(item: ReportItem): void {
    const text = item.text === undefined ? {} : { text: bounded(item.text, this.#textLength, textBytes) };
    const data = storableValue(item.data) as ReportItem['data'];
    const stored: ReportItem = {
      type: item.type,
      ...text,
      ...(data && jsonBytes(data) <= textBytes / 4 && { data }),
    };
    this.#add({ item: stored, bytes: jsonBytes(stored) });
  }

  addPush(push: Push): void {
    const files: string[] = [];
    let bytes = 0;
    for (const file of push.files) {
      const name = bounded(file, limits.fileNameLength);
      bytes += jsonBytes(name) + 1;
      if (bytes > textBytes || files.length === limits.filesPerPush) break;
      files.push(name);
    }
    const stored = {
      ...(push.repo !== undefined && { repo: storable(push.repo) }),
      ref: bounded(push.ref, limits.fileNameLength),
      commits: push.commits.map(storable),
      files,
    };
    this.#add({ push: stored, bytes: jsonBytes(stored) });
  }

  /** The newest of a repository says it all. */
  addDiff(diff: Diff): void {
    const isOlder = (part: Part) =>
      'diff' in part && part.diff.repo === diff.repo && part.diff.workingTree === diff.workingTree;
    for (const part of this.#parts.filter(isOlder)) this.#bytes -= part.bytes;
    this.#parts = this.#parts.filter((part) => !isOlder(part));
    const stored = {
      ...diff,
      repo: storable(diff.repo),
      text: bounded(diff.text, limits.diffLength, diffBytes),
    };
    this.#add({ diff: stored, bytes: jsonBytes(stored) });
  }

  addUsage(usage: Usage): void {
    const before = this.#usage;
    const sum = (field: keyof Usage, most: number) => Math.min(most, usage[field] + (before?.[field] ?? 0));
    this.#usage = {
      inputTokens: sum('inputTokens', Number.MAX_SAFE_INTEGER),
      cachedInputTokens: sum('cachedInputTokens', Number.MAX_SAFE_INTEGER),
      outputTokens: sum('outputTokens', Number.MAX_SAFE_INTEGER),
      costUsd: sum('costUsd', 1e9),
    };
  }

  get latest(): Latest {
    return this.#latest;
  }

  set(latest: Latest): void {
    this.#latest = { ...this.#latest, ...latest };
  }

  /** The next report's contents; they are the caller's now. */
  take(): Contents {
    const items: ReportItem[] = [];
    const pushes: Push[] = [];
    let diff: Diff | undefined;
    let bytes = 0;
    let taken = 0;
    for (const part of this.#parts) {
      bytes += part.bytes;
      if (taken > 0 && bytes > reportBytes) break;
      if (items.length >= this.#mostItems || pushes.length >= pushesPerReport) break;
      if ('diff' in part && diff) break;
      if ('item' in part) items.push(part.item);
      else if ('push' in part) pushes.push(part.push);
      else diff = part.diff;
      this.#bytes -= part.bytes;
      taken += 1;
    }
    this.#parts = this.#parts.slice(taken);
    this.#mentionLeftOut();
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

  #add(part: Part): void {
    if (this.#bytes + part.bytes > waitingBytes) {
      this.#leftOut += 1;
      return;
    }
    this.#parts.push(part);
    this.#bytes += part.bytes;
  }

  #mentionLeftOut(): void {
    if (this.#leftOut === 0) return;
    const text = `${this.#leftOut} items were left out: the service could not be reached, and too many waited.`;
    this.#leftOut = 0;
    this.addItem({ type: 'WARNING', text });
  }
}

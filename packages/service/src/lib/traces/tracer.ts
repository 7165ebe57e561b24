/** Where a span is: what W3C's header `traceparent` says. */
export interface SpanContext {
  readonly traceId: string;
  readonly spanId: string;
  readonly isSampled: boolean;
}

export type AttributeValue = string | number | boolean | readonly string[];
export type Attributes = Readonly<Record<string, AttributeValue | undefined>>;

export interface SpanOptions {
  readonly kind?: 'internal' | 'server' | 'client';
  readonly parent?: SpanContext | undefined;
  readonly links?: readonly Link[];
  readonly attributes?: Attributes;
}

export interface Link {
  readonly context: SpanContext;
  readonly attributes?: Attributes;
}

export interface Span {
  readonly context: SpanContext;
  set(attributes: Attributes): void;
  /** Sends it, once. `error` is the value of `error.type`. */
  end(error?: string): void;
}

export interface Tracer {
  /** Whether spans may have the texts of prompts, answers and tools. */
  readonly capturesContent: boolean;
  /** How many spans could not be queued or sent. */
  readonly dropped: number;
  start(name: string, options?: SpanOptions): Span;
  /** Spans that a run leaves out because it has too many. */
  drop(spans: number): void;
  /** Sends what is queued, and takes no longer than one export may. */
  close(): Promise<void>;
}

export const traceparentOf = ({ traceId, spanId, isSampled }: SpanContext): string =>
  `00-${traceId}-${spanId}-${isSampled ? '01' : '00'}`;

/** Undefined if the header is absent or malformed: such a header counts as absent. */
export function parseTraceparent(text: unknown): SpanContext | undefined {
  if (typeof text !== 'string' || text.length > longestTraceparent) return undefined;
  const [, version = '', traceId = '', spanId = '', flags = '', rest] =
    /^([\da-f]{2})-([\da-f]{32})-([\da-f]{16})-([\da-f]{2})(-.*)?$/.exec(text) ?? [];
  // Later versions may add fields at the end; the first version has none.
  const isKnown = version !== '' && version !== 'ff' && (version !== '00' || rest === undefined);
  if (!isKnown || /^0+$/.test(traceId) || /^0+$/.test(spanId)) return undefined;
  return { traceId, spanId, isSampled: (Number.parseInt(flags, 16) & 1) === 1 };
}

const longestTraceparent = 512;

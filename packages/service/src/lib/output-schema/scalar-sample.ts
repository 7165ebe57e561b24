import { samplePattern } from './pattern-sample.ts';

type Keywords = Readonly<Record<string, unknown>>;

const formatSamples: Readonly<Record<string, string>> = {
  'date-time': '1970-01-01T00:00:00Z',
  date: '1970-01-01',
  time: '00:00:00Z',
  duration: 'P1D',
  email: 'a@a.aa',
  'idn-email': 'a@a.aa',
  hostname: 'a',
  'idn-hostname': 'a',
  ipv4: '0.0.0.0',
  ipv6: '::',
  uri: 'a:a',
  iri: 'a:a',
  url: 'http://a.aa',
  uuid: '00000000-0000-0000-0000-000000000000',
  byte: 'aaaa',
};

const mostLength = 100_000;

/** The shortest text that the keywords allow; `nth` others differ from it. */
export function sampleText(schema: Keywords, nth: number): string | undefined {
  const least = typeof schema.minLength === 'number' ? Math.max(0, Math.ceil(schema.minLength)) : 0;
  if (least > mostLength) return undefined;
  const pattern = typeof schema.pattern === 'string' ? samplePattern(schema.pattern) : '';
  const format = typeof schema.format === 'string' ? formatSamples[schema.format] : undefined;
  const text = (pattern ?? '') || (format ?? '');
  if (text.length + nth < least) return text.padEnd(least + nth, text.at(-1) ?? 'a');
  return nth === 0 ? text : text + (text.at(-1) ?? 'a').repeat(nth);
}

/** The number nearest to zero that the keywords allow; `nth` others differ from it. */
export function sampleNumber(schema: Keywords, whole: boolean, nth: number): number | undefined {
  const numberOf = (key: string) => (typeof schema[key] === 'number' ? (schema[key] as number) : undefined);
  const multipleOf = numberOf('multipleOf');
  const step = whole && (multipleOf === undefined || !Number.isInteger(multipleOf)) ? 1 : (multipleOf ?? 0);
  const least = bound(numberOf('minimum'), numberOf('exclusiveMinimum'), Math.max);
  const most = bound(numberOf('maximum'), numberOf('exclusiveMaximum'), Math.min);
  const start = nearestToZero(least, most, step);
  return nth === 0 ? start : start + (least === undefined && most !== undefined ? -nth : nth) * (step || 1);
}

interface Bound {
  readonly value: number;
  readonly exclusive: boolean;
}

function bound(
  inclusive: number | undefined,
  exclusive: number | undefined,
  stricter: (a: number, b: number) => number,
): Bound | undefined {
  if (inclusive === undefined && exclusive === undefined) return undefined;
  if (inclusive === undefined) return { value: exclusive as number, exclusive: true };
  if (exclusive === undefined) return { value: inclusive, exclusive: false };
  return { value: stricter(inclusive, exclusive), exclusive: stricter(inclusive, exclusive) === exclusive };
}

function nearestToZero(least: Bound | undefined, most: Bound | undefined, step: number): number {
  if (least && (least.value > 0 || (least.value === 0 && least.exclusive))) return above(least, most, step);
  if (most && (most.value < 0 || (most.value === 0 && most.exclusive))) {
    const mirrored = above(mirror(most), least && mirror(least), step);
    return mirrored === 0 ? 0 : -mirrored;
  }
  return 0;
}

const mirror = ({ value, exclusive }: Bound): Bound => ({ value: -value, exclusive });

function above(least: Bound, most: Bound | undefined, step: number): number {
  if (step === 0) {
    if (!least.exclusive) return least.value;
    return most ? (least.value + most.value) / 2 : least.value + 1;
  }
  const steps = Math.ceil(least.value / step);
  return (least.exclusive && steps * step <= least.value ? steps + 1 : steps) * step;
}

import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { until } from '../../../../../test/support/async.ts';
import { OtlpReceiver } from '../../../../../test/support/otlp-receiver.ts';
import type { RunnerLog } from '../log.ts';
import { openTracer } from './open-tracer.ts';
import { parseTraceparent, type Tracer, traceparentOf } from './tracer.ts';

let collector: OtlpReceiver;
let warnings: object[];

beforeEach(async () => {
  collector = await OtlpReceiver.start();
  warnings = [];
});
afterEach(() => collector.close());

const log: RunnerLog = { info: () => {}, error: () => {}, warn: (fields) => void warnings.push(fields) };

async function tracer(env: Record<string, string> = {}): Promise<Tracer> {
  const opened = await openTracer({ OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, ...env }, 'muster', log);
  if (!opened) throw new Error('no tracer');
  return opened;
}

const names = (): string[] => collector.spans.map(({ name }) => name);

describe('a tracer', () => {
  it('sends spans in the fields of the protocol, with what the variables say', async () => {
    const traces = await tracer({
      OTEL_SERVICE_NAME: 'shop',
      OTEL_RESOURCE_ATTRIBUTES: 'team=a%20b,service.name=other,broken',
      OTEL_EXPORTER_OTLP_HEADERS: 'x-key=one,x-other=two',
      OTEL_EXPORTER_OTLP_TRACES_HEADERS: 'x-key=three',
      OTEL_EXPORTER_OTLP_COMPRESSION: 'gzip',
    });
    const root = traces.start('root', {
      attributes: { text: 'half of \ud83d', whole: 3, fraction: 0.5, 'gen_ai.usage.cost': 1, yes: true },
    });
    const link = { context: root.context, attributes: { of: 'x' } };
    const child = traces.start('child', { kind: 'client', parent: root.context, links: [link] });
    child.set({ list: ['a', 'b'], absent: undefined });
    child.end('timeout');
    child.end();
    root.end();
    await traces.close();
    expect(collector.problems).toEqual([]);
    expect(collector.requests[0]?.headers).toMatchObject({ 'x-key': 'three', 'x-other': 'two' });
    expect(collector.spans).toMatchObject([
      {
        name: 'child',
        kind: 3,
        traceId: root.context.traceId,
        parentSpanId: root.context.spanId,
        hasFailed: true,
        attributes: { list: ['a', 'b'], 'error.type': 'timeout' },
        links: [{ spanId: root.context.spanId, attributes: { of: 'x' } }],
        service: 'shop',
      },
      {
        name: 'root',
        kind: 1,
        parentSpanId: '',
        hasFailed: false,
        attributes: { text: 'half of \ufffd', whole: 3, fraction: 0.5, 'gen_ai.usage.cost': 1, yes: true },
      },
    ]);
    expect(collector.received).toContain('{"key":"gen_ai.usage.cost","value":{"doubleValue":1}}');
    expect(traces.dropped).toBe(0);
  });

  it('keeps spans in a queue of limited size while the collector is unavailable, and sends them later', async () => {
    collector.status = 503;
    const traces = await tracer({
      OTEL_BSP_MAX_QUEUE_SIZE: '10',
      OTEL_BSP_MAX_EXPORT_BATCH_SIZE: '4',
      OTEL_BSP_SCHEDULE_DELAY: '10',
    });
    for (let n = 0; n < 4; n++) traces.start(`span ${n}`).end();
    await until(
      'a request',
      async () => collector.requests.length,
      (requests) => requests > 0,
    );
    for (let n = 4; n < 15; n++) traces.start(`span ${n}`).end();
    expect(traces.dropped).toBe(5);
    collector.status = 200;
    await until(
      'the spans',
      async () => names().length,
      (sent) => sent === 10,
    );
    expect(names()).toEqual(Array.from({ length: 10 }, (_, n) => `span ${n}`));
    await traces.close();
    expect(warnings).toContainEqual({ reason: 'HTTP 503' });
  });

  it('drops and counts what a collector refuses, and what is left at the end', async () => {
    collector.status = 400;
    const refused = await tracer();
    refused.start('a').end();
    await refused.close();
    expect(refused.dropped).toBe(1);

    const unreachable = await tracer({ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:1' });
    unreachable.start('a').end();
    unreachable.start('b').end();
    await unreachable.close();
    unreachable.start('late').end();
    expect(unreachable.dropped).toBe(3);
  });

  it('waits for a collector that does not answer no longer than the timeout', async () => {
    collector.status = 0;
    const traces = await tracer({ OTEL_EXPORTER_OTLP_TIMEOUT: '50' });
    traces.start('a').end();
    await traces.close();
    expect(traces.dropped).toBe(1);
  });

  it('limits names and texts', async () => {
    const traces = await tracer();
    traces.start('n'.repeat(10_000), { attributes: { text: 'ä'.repeat(100_000) } }).end();
    await traces.close();
    const [span] = collector.spans;
    expect(span?.name).toHaveLength(256);
    expect(Buffer.byteLength(String(span?.attributes.text))).toBeLessThanOrEqual(16 * 1024);
  });
});

describe('a sampler', () => {
  const parent = (flags: string) => parseTraceparent(`00-${'a'.repeat(32)}-${'b'.repeat(16)}-${flags}`);

  it.each([
    ['parentbased_always_on', true, true, false],
    ['always_on', true, true, true],
    ['always_off', false, false, false],
    ['parentbased_always_off', false, true, false],
    ['unknown', true, true, false],
  ])('%s decides', async (name, alone, belowSampled, belowOther) => {
    const traces = await tracer({ OTEL_TRACES_SAMPLER: name });
    const sampled = [undefined, parent('01'), parent('00')].map(
      (above) => traces.start('a', { parent: above }).context.isSampled,
    );
    expect(sampled).toEqual([alone, belowSampled, belowOther]);
    expect(warnings).toHaveLength(name === 'unknown' ? 1 : 0);
    await traces.close();
  });

  it('traceidratio chooses part of the traces, and all spans of each', async () => {
    const traces = await tracer({ OTEL_TRACES_SAMPLER: 'traceidratio', OTEL_TRACES_SAMPLER_ARG: '0.25' });
    const roots = Array.from({ length: 2_000 }, () => traces.start('a').context);
    const chosen = roots.filter(({ isSampled }) => isSampled).length;
    expect(chosen).toBeGreaterThan(300);
    expect(chosen).toBeLessThan(700);
    for (const context of roots.slice(0, 100))
      expect(traces.start('b', { parent: context }).context.isSampled).toBe(context.isSampled);
    await traces.close();
    expect(collector.spans).toEqual([]);
  });
});

describe('without a usable collector', () => {
  it.each([
    [{}, 0],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: '' }, 0],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://c:4318', OTEL_SDK_DISABLED: 'true' }, 0],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://c:4318', OTEL_TRACES_EXPORTER: 'none' }, 0],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://c:4317', OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' }, 1],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: 'collector:4318' }, 1],
  ])('nothing is traced: %o', async (env, warned) => {
    expect(await openTracer(env, 'muster', log)).toBeUndefined();
    expect(warnings).toHaveLength(warned);
  });

  it('a number that is not understood is reported, and its default applies', async () => {
    const traces = await tracer({ OTEL_BSP_MAX_QUEUE_SIZE: 'many' });
    expect(warnings).toEqual([{ problem: expect.stringMatching(/OTEL_BSP_MAX_QUEUE_SIZE.*"many"/) }]);
    await traces.close();
  });
});

describe('traceparent', () => {
  const [traceId, spanId] = ['0af7651916cd43dd8448eb211c80319c', 'b7ad6b7169203331'];

  it('is read and written', () => {
    const text = `00-${traceId}-${spanId}-01`;
    const context = parseTraceparent(text);
    expect(context).toEqual({ traceId, spanId, isSampled: true });
    expect(context && traceparentOf(context)).toBe(text);
    expect(parseTraceparent(`00-${traceId}-${spanId}-00`)?.isSampled).toBe(false);
    expect(parseTraceparent(`cc-${traceId}-${spanId}-01-more`)).toMatchObject({ traceId });
  });

  it.each([
    undefined,
    '',
    ['a', 'b'],
    `00-${traceId}-${spanId}`,
    `00-${traceId}-${spanId}-01-more`,
    `ff-${traceId}-${spanId}-01`,
    `00-${'0'.repeat(32)}-${spanId}-01`,
    `00-${traceId}-${'0'.repeat(16)}-01`,
    `00-${traceId.toUpperCase()}-${spanId}-01`,
    `cc-${traceId}-${spanId}-01-${'x'.repeat(100_000)}`,
  ])('is ignored if it is malformed: %s', (text) => {
    expect(parseTraceparent(text)).toBeUndefined();
  });
});

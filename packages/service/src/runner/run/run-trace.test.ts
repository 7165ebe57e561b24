import type { Claim } from '@muster/sdk/contract';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { OtlpReceiver, type ReceivedSpan } from '../../../../../test/support/otlp-receiver.ts';
import { silentLog } from '../../lib/log.ts';
import { openTracer } from '../../lib/traces/open-tracer.ts';
import type { Tracer } from '../../lib/traces/tracer.ts';
import { ValueMask } from '../../lib/value-mask.ts';
import { RunTrace } from './run-trace.ts';

let collector: OtlpReceiver;
let tracer: Tracer;

beforeEach(async () => {
  collector = await OtlpReceiver.start();
  const env = {
    OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
    OTEL_BSP_MAX_QUEUE_SIZE: '10000',
    OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT: 'true',
  };
  const opened = await openTracer(env, 'muster-runner', silentLog);
  if (!opened) throw new Error('no tracer');
  tracer = opened;
});
afterEach(() => collector.close());

const token = 'mst_run.0123456789abcdef';
const sender = `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`;

function traceOf(messages: Partial<Claim['messages'][number]>[] = []): RunTrace {
  const claim = {
    ...{ agentKey: 'k', runId: 1, attempt: 1, model: 'm', session: '', token, secrets: [] },
    agentId: { tenant: undefined, agent: ['a'], workspace: 'w' },
    messages: messages.map((message) => ({ followUpId: 'f', text: '', attachmentIds: [], ...message })),
  };
  return new RunTrace(tracer, claim as unknown as Claim, new ValueMask(['the-hidden-value']));
}

/** The root comes last. */
async function sent(trace: RunTrace): Promise<{ root: ReceivedSpan | undefined; spans: ReceivedSpan[] }> {
  trace.close('KILLED');
  await tracer.close();
  expect(collector.problems).toEqual([]);
  return { root: collector.spans.at(-1), spans: collector.spans };
}

test('an agent that calls tools and models without end fills only part of the queue', async () => {
  const trace = traceOf();
  for (let n = 0; n < 3_000; n++) {
    trace.item({ type: 'TOOL_CALL', data: { tool: `tool-${'x'.repeat(10_000)}`, id: String(n) } });
    if (n > 50) trace.item({ type: 'TOOL_RESULT', data: { id: String(n) } });
    trace.chat('anthropic', 'm'.repeat(10_000)).end();
  }
  const { root, spans } = await sent(trace);
  expect(spans).toHaveLength(2_001);
  expect(root?.attributes['muster.spans.left_out']).toBe(4_000);
  expect(tracer.dropped).toBe(4_000);
  expect(Math.max(...spans.map(({ name }) => name.length))).toBeLessThan(150);
});

test('a result without a call, a call without a result and an id that is used twice are harmless', async () => {
  const trace = traceOf();
  trace.item({ type: 'TOOL_RESULT', data: { id: 'unknown' } });
  trace.item({ type: 'TOOL_CALL' });
  for (const text of ['first', 'second'])
    trace.item({ type: 'TOOL_CALL', text, data: { tool: 't', id: '1' } });
  trace.item({ type: 'TOOL_RESULT', data: { id: '1', exitCode: 0 } });
  trace.item({ type: 'TOOL_RESULT', data: { id: '1', exitCode: 1 } });
  const { spans } = await sent(trace);
  expect(spans.map(({ name, hasFailed }) => [name, hasFailed])).toEqual([
    ['execute_tool t', false],
    ['execute_tool t', false],
    ['execute_tool ', true],
    ['invoke_agent a', true],
  ]);
});

test('a message without a valid traceparent has no link, and the number of links is limited', async () => {
  const messages = Array.from({ length: 60 }, () => ({ traceparent: sender }));
  const { root } = await sent(traceOf([{ traceparent: 'forged' }, {}, ...messages]));
  expect(root?.links).toHaveLength(48);
  expect(root?.links[0]?.traceId).toBe('a'.repeat(32));
  expect(root?.traceId).not.toBe('a'.repeat(32));
});

test('texts are cut, and have neither the values of secrets nor the key of the run', async () => {
  const text = `the-hidden-value ${token} ${'long '.repeat(10_000)}`;
  const trace = traceOf(Array.from({ length: 5 }, () => ({ text })));
  trace.item({ type: 'TOOL_CALL', text, data: { tool: 't', id: '1' } });
  trace.item({ type: 'TOOL_RESULT', text, data: { id: '1' } });
  trace.ended({ outcome: 'COMPLETED', response: text });
  const { root, spans } = await sent(trace);
  expect(JSON.parse(String(root?.attributes['gen_ai.input.messages']))).toHaveLength(3);
  expect(root?.attributes['gen_ai.output.messages']).toContain('*** (the key of this run) long');
  expect(String(spans[0]?.attributes['gen_ai.tool.call.result'])).toHaveLength(8 * 1024);
  expect(collector.received).not.toContain('the-hidden-value');
  expect(collector.received).not.toContain(token);
});

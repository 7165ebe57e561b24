import { text } from 'node:stream/consumers';
import { describe, expect, it } from 'vitest';
import { type AnswerFormat, BoundedText, Meter } from './meter.ts';
import { type AnswerUsage, AnthropicReader, OpenaiReader, type UsageReader } from './provider-protocols.ts';

const events = (...all: unknown[]): string =>
  all
    .map((event) => `event: ${(event as { type: string }).type}\ndata: ${JSON.stringify(event)}\n\n`)
    .join('');

const anthropicStart = {
  type: 'message_start',
  message: {
    model: 'claude-opus-4-8',
    usage: {
      input_tokens: 10,
      cache_creation_input_tokens: 300,
      cache_read_input_tokens: 2_000,
      cache_creation: { ephemeral_5m_input_tokens: 100, ephemeral_1h_input_tokens: 200 },
      output_tokens: 1,
      service_tier: 'standard',
    },
  },
};
const anthropic = events(
  anthropicStart,
  { type: 'content_block_delta', delta: { type: 'text_delta', text: 'größe 🎷 "usage": {}' } },
  { type: 'message_delta', delta: {}, usage: { input_tokens: 0, output_tokens: 55, speed: 'fast' } },
  { type: 'message_stop' },
);
const anthropicUsage: AnswerUsage = {
  model: 'claude-opus-4-8',
  fast: true,
  tier: 'standard',
  tokens: { input: 10, cachedInput: 2_000, cacheWrite: 100, cacheWrite1h: 200, output: 55 },
};

const openaiResponse = {
  model: 'gpt-5.5',
  service_tier: 'priority',
  usage: {
    input_tokens: 1_000,
    input_tokens_details: { cached_tokens: 600, cache_write_tokens: 150 },
    output_tokens: 70,
  },
};
const openai = events(
  { type: 'response.created', response: { model: 'gpt-5.5', usage: null, error: null } },
  { type: 'response.output_text.delta', delta: 'größe 🎷' },
  { type: 'response.completed', response: openaiResponse },
);
const openaiUsage: AnswerUsage = {
  model: 'gpt-5.5',
  fast: false,
  tier: 'priority',
  tokens: { input: 250, cachedInput: 600, cacheWrite: 150, cacheWrite1h: 0, output: 70 },
};

function meterFor(reader: UsageReader, format: AnswerFormat = 'events', inputTokens?: number) {
  const reported: AnswerUsage[] = [];
  const failures: unknown[] = [];
  const meter = new Meter({
    reader,
    format,
    inputTokens,
    onUsage: (usage) => reported.push(usage),
    onFailure: (event) => failures.push(event),
    onByte: () => {},
  });
  return { meter, reported, failures };
}

describe('a stream that is cut into chunks', () => {
  it.each([1, 2, 3, 7, 64, 1_000_000])(
    'of %d bytes has the same usage and passes unchanged',
    async (bytes) => {
      for (const [reader, stream, usage] of [
        [new AnthropicReader(), anthropic, anthropicUsage],
        [new OpenaiReader(), openai, openaiUsage],
        [new AnthropicReader(), anthropic.replaceAll('\n', '\r\n'), anthropicUsage],
      ] as const) {
        const { meter, reported } = meterFor(reader);
        const passed = text(meter);
        const whole = Buffer.from(stream);
        for (let at = 0; at < whole.length; at += bytes) meter.write(whole.subarray(at, at + bytes));
        meter.end();
        expect(await passed).toBe(stream);
        expect(reported).toEqual([usage]);
      }
    },
  );
});

describe('usage is reported', () => {
  it('once, with the last event, before the stream ends', async () => {
    const { meter, reported } = meterFor(new AnthropicReader());
    meter.resume().write(anthropic);
    expect(reported).toEqual([anthropicUsage]);
    meter.settle();
    meter.end(events(anthropicStart));
    await text(meter).catch(() => {});
    expect(reported).toHaveLength(1);
  });

  it('as far as it is known when the stream breaks off', () => {
    const { meter, reported } = meterFor(new AnthropicReader());
    meter.on('error', () => {});
    meter.resume().write(events(anthropicStart).trimEnd());
    meter.destroy(new Error('broken off'));
    meter.settle();
    expect(reported).toEqual([
      { ...anthropicUsage, fast: false, tokens: { ...anthropicUsage.tokens, output: 1 } },
    ]);
  });

  it('for an answer that is not streamed', async () => {
    const { message } = anthropicStart;
    for (const [reader, body, model] of [
      [new AnthropicReader(), { type: 'message', ...message }, 'claude-opus-4-8'],
      [new OpenaiReader(), { object: 'response', ...openaiResponse }, 'gpt-5.5'],
    ] as const) {
      const { meter, reported } = meterFor(reader, 'body');
      meter.end(JSON.stringify(body));
      await text(meter);
      expect(reported.map(({ model }) => model)).toEqual([model]);
    }
  });

  it('for an incomplete response', async () => {
    const { meter, reported } = meterFor(new OpenaiReader());
    meter.end(events({ type: 'response.incomplete', response: openaiResponse }));
    await text(meter);
    expect(reported).toEqual([openaiUsage]);
  });

  it('not when there is none', async () => {
    for (const body of ['', 'not JSON "usage"', '{"input_tokens":5}', '[]', '{"usage":7}']) {
      for (const format of ['events', 'frames', 'body'] as const) {
        const { meter, reported } = meterFor(new AnthropicReader(), format);
        meter.end(body);
        await text(meter);
        expect(reported).toEqual([]);
      }
    }
  });

  it('without values that are not counts', async () => {
    const { meter, reported } = meterFor(new AnthropicReader(), 'body');
    const usage = { input_tokens: -5, output_tokens: 1e300, cache_read_input_tokens: 'many' };
    meter.end(JSON.stringify({ type: 'message', model: 'm', usage }));
    await text(meter);
    expect(reported[0]?.tokens).toEqual({
      input: 0,
      cachedInput: 0,
      cacheWrite: 0,
      cacheWrite1h: 0,
      output: 0,
    });
  });
});

describe('an answer that is cut off', () => {
  const delta = { type: 'content_block_delta', delta: { type: 'text_delta', text: 'a' } };
  const deltas = Array.from({ length: 40 }, () => delta);
  const cut = (meter: Meter) => meter.on('error', () => {}).destroy(new Error('cut off'));

  it('has used about one token for each event, if the provider has reported less', () => {
    const { meter, reported } = meterFor(new AnthropicReader(), 'events', 1_000);
    meter.resume().write(events(anthropicStart, ...deltas));
    meter.settle();
    cut(meter);
    const { model, tokens } = anthropicUsage;
    expect(reported).toMatchObject([{ model, tokens: { ...tokens, output: 41 }, estimated: true }]);
  });

  it('has used what the provider reported, if that is more', () => {
    const { meter, reported } = meterFor(new AnthropicReader(), 'events', 1_000);
    meter.resume().write(events(anthropicStart, { type: 'message_delta', usage: { output_tokens: 90 } }));
    cut(meter);
    expect(reported).toMatchObject([{ tokens: { input: 10, output: 90 } }]);
    expect(reported[0]).not.toHaveProperty('estimated');
  });

  it.each([
    ['before any event', '', 0],
    ['after some', events(...deltas), 40],
  ])('%s, with nothing reported, has used its input and what has arrived', (_when, text, output) => {
    const { meter, reported } = meterFor(new OpenaiReader(), 'events', 1_000);
    meter.resume().write(text);
    cut(meter);
    expect(reported).toMatchObject([{ model: '', tokens: { input: 1_000, output }, estimated: true }]);
  });

  it('by the provider, without an error, has used as much', async () => {
    const { meter, reported } = meterFor(new OpenaiReader(), 'events', 1_000);
    meter.end(events(...deltas));
    await text(meter);
    expect(reported).toMatchObject([{ tokens: { input: 1_000, output: 40 }, estimated: true }]);
  });

  it('as one body has used its input, and a token for four bytes', () => {
    const { meter, reported } = meterFor(new AnthropicReader(), 'body', 1_000);
    meter.resume().write('{"content":"'.padEnd(401, 'x'));
    cut(meter);
    expect(reported).toMatchObject([{ tokens: { input: 1_000, output: 101 }, estimated: true }]);
  });

  it('has used nothing if the provider says that it failed, or if no model was asked', async () => {
    const failed = { type: 'error', error: { type: 'overloaded_error' } };
    for (const [sent, inputTokens] of [
      [events(failed), 1_000],
      [events(delta), undefined],
    ] as const) {
      const { meter, reported } = meterFor(new AnthropicReader(), 'events', inputTokens);
      meter.resume().write(sent);
      cut(meter);
      expect(reported).toEqual([]);
    }
  });
});

it('an error event in a stream is reported', async () => {
  const { meter, failures } = meterFor(new OpenaiReader());
  const failed = {
    type: 'response.failed',
    response: { error: { code: 'rate_limit_exceeded' }, usage: null },
  };
  meter.end(events(failed));
  await text(meter);
  expect(failures).toEqual([failed]);
});

describe('an answer that is too long to keep', () => {
  const usage = openaiResponse.usage;
  const completed = (padding: unknown, response: object) =>
    events({ type: 'response.completed', response: { tools: padding, ...response } });
  const long = 'x'.repeat(1_000_000);

  it('is metered by its end, and passes unchanged', async () => {
    const { meter, reported } = meterFor(new OpenaiReader());
    const stream = completed([long], { usage, user: null });
    const passed = text(meter);
    for (let at = 0; at < stream.length; at += 60_000) meter.write(stream.slice(at, at + 60_000));
    meter.end();
    expect(await passed).toBe(stream);
    expect(reported).toEqual([{ ...openaiUsage, model: '', tier: undefined }]);
  });

  it('is not metered by what the agent wrote into it', async () => {
    const { meter, reported } = meterFor(new OpenaiReader());
    const fake = { usage: { input_tokens: 1, output_tokens: 1 } };
    meter.write(events({ type: 'response.created', response: { tools: [long, fake], usage: null } }));
    meter.end(completed([long, fake], { usage }));
    await text(meter);
    expect(reported.map(({ tokens }) => tokens)).toEqual([openaiUsage.tokens]);
  });

  it('is metered when it is not streamed', async () => {
    const { meter, reported } = meterFor(new AnthropicReader(), 'body');
    meter.end(JSON.stringify({ type: 'message', model: 'm', content: [long], usage: { output_tokens: 7 } }));
    await text(meter);
    expect(reported).toMatchObject([{ tokens: { output: 7 } }]);
  });

  it('is kept only in part: its end', () => {
    const body = new BoundedText();
    const part = Buffer.alloc(1024 * 1024, 'x');
    for (let i = 0; i < 30; i++) body.add(part);
    body.add(Buffer.from('the end'));
    const { text: kept, isWhole } = body.take();
    expect(isWhole).toBe(false);
    expect(kept.endsWith('the end')).toBe(true);
    expect(kept.length).toBeLessThan(1024 * 1024);
    expect(body.take()).toEqual({ text: '', isWhole: true });
  });
});

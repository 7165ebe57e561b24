import type { ModelProvider } from '@muster/sdk/contract';
import { describe, expect, it } from 'vitest';
import { failureOf, statusOfEvent } from './provider-errors.ts';

const now = new Date('2026-11-15T12:00:00Z');

const limited = (
  provider: ModelProvider,
  headers: Record<string, string>,
  body: unknown = { error: { type: 'rate_limit_error', message: 'slow down' } },
): string | undefined => {
  const answer = { provider, status: 429, headers, body: JSON.stringify(body), runnerName: undefined };
  const failure = failureOf(answer, now);
  return failure?.type === 'limit' ? failure.until.toISOString().slice(0, 19) : failure?.type;
};

describe('how long a rate limit lasts', () => {
  it.each([
    ['retry-after in seconds', { 'retry-after': '90' }, '2026-11-15T12:01:30'],
    ['retry-after as a date', { 'retry-after': 'Sun, 15 Nov 2026 13:00:00 GMT' }, '2026-11-15T13:00:00'],
    ['the unified reset', { 'anthropic-ratelimit-unified-reset': '1794747600' }, '2026-11-15T13:00:00'],
    [
      'retry-after before any other',
      { 'retry-after': '5', 'anthropic-ratelimit-unified-reset': '1794747600' },
      '2026-11-15T12:00:05',
    ],
    [
      'the latest of the limits that are exhausted',
      {
        'anthropic-ratelimit-requests-remaining': '0',
        'anthropic-ratelimit-requests-reset': '2026-11-15T12:00:10Z',
        'anthropic-ratelimit-input-tokens-remaining': '0',
        'anthropic-ratelimit-input-tokens-reset': '2026-11-15T12:00:30Z',
        'anthropic-ratelimit-output-tokens-remaining': '10',
        'anthropic-ratelimit-output-tokens-reset': '2026-11-15T12:05:00Z',
      },
      '2026-11-15T12:00:30',
    ],
    [
      'the first of the limits when none is exhausted',
      {
        'anthropic-ratelimit-requests-remaining': '3',
        'anthropic-ratelimit-requests-reset': '2026-11-15T12:00:10Z',
        'anthropic-ratelimit-tokens-remaining': '9',
        'anthropic-ratelimit-tokens-reset': '2026-11-15T12:00:30Z',
      },
      '2026-11-15T12:00:10',
    ],
    ['nothing: a minute', {}, '2026-11-15T12:01:00'],
    ['an invalid time: a minute', { 'retry-after': 'soon' }, '2026-11-15T12:01:00'],
    ['the past: a second', { 'retry-after': 'Sun, 15 Nov 2026 11:00:00 GMT' }, '2026-11-15T12:00:01'],
    ['a year: a week', { 'retry-after': '31536000' }, '2026-11-22T12:00:00'],
  ])('anthropic: %s', (_what, headers, until) => {
    expect(limited('anthropic', headers as Record<string, string>)).toBe(until);
  });

  it.each([
    ['retry-after', { 'retry-after': '7', 'retry-after-ms': '9000' }, {}, '2026-11-15T12:00:07'],
    ['retry-after-ms', { 'retry-after-ms': '9000' }, {}, '2026-11-15T12:00:09'],
    [
      'the reset of what is exhausted',
      {
        'x-ratelimit-remaining-requests': '12',
        'x-ratelimit-reset-requests': '120ms',
        'x-ratelimit-remaining-tokens': '0',
        'x-ratelimit-reset-tokens': '6m0s',
      },
      {},
      '2026-11-15T12:06:00',
    ],
    ['resets_at in the body', {}, { resets_at: 1794747600 }, '2026-11-15T13:00:00'],
    ['resets_in_seconds in the body', {}, { resets_in_seconds: 120 }, '2026-11-15T12:02:00'],
    ['the text of the error', {}, { message: 'Please try again in 11.5s. More' }, '2026-11-15T12:00:11'],
  ])('openai: %s', (_what, headers, error, until) => {
    const body = { error: { type: 'usage_limit_reached', ...error } };
    expect(limited('openai', headers as Record<string, string>, body)).toBe(until);
    expect(limited('chatgpt', headers as Record<string, string>, body)).toBe(until);
  });

  it('azure and vertex: the text of the error, else a minute', () => {
    const azure = { error: { code: '429', message: 'Rate limit exceeded. Please retry after 26 seconds.' } };
    expect(limited('azure', {}, azure)).toBe('2026-11-15T12:00:26');
    const vertex = [{ error: { code: 429, status: 'RESOURCE_EXHAUSTED', message: 'Quota exceeded' } }];
    expect(limited('vertex', {}, vertex)).toBe('2026-11-15T12:01:00');
  });
});

describe('what the operator must fix', () => {
  const refusal = (provider: 'anthropic' | 'openai', status: number, body: unknown): string | undefined => {
    const text = typeof body === 'string' ? body : JSON.stringify(body);
    const failure = failureOf({ provider, status, headers: {}, body: text, runnerName: 'north' }, now);
    return failure?.type === 'refused' ? failure.message : undefined;
  };

  it('names the provider, its error, the variable and the runner', () => {
    const body = { type: 'error', error: { type: 'authentication_error', message: 'invalid x-api-key' } };
    expect(refusal('anthropic', 401, body)).toBe(
      'anthropic answered 401 (authentication_error: invalid x-api-key). Set ANTHROPIC_API_KEY of the runner north to a valid key and start it again',
    );
    expect(refusal('openai', 403, 'no JSON')).toContain('(no JSON). Give the key in OPENAI_API_KEY');
  });

  it('is an account without credit, whatever the status', () => {
    const quota = { error: { message: 'You exceeded your current quota', code: 'insufficient_quota' } };
    expect(refusal('openai', 429, quota)).toContain('Add credit to the account of OPENAI_API_KEY');
    const credit = { error: { type: 'invalid_request_error', message: 'Your credit balance is too low' } };
    expect(refusal('anthropic', 400, credit)).toContain('Add credit');
  });

  it.each([
    ['PROVIDER_KEY_REFUSED', 'anthropic', 401, {}],
    ['PROVIDER_OUT_OF_CREDIT', 'anthropic', 402, {}],
    ['PROVIDER_OUT_OF_CREDIT', 'openai', 429, { error: { code: 'insufficient_quota' } }],
    ['PROVIDER_FORBIDDEN', 'openai', 403, {}],
    [
      'MODEL_UNKNOWN',
      'anthropic',
      404,
      { error: { type: 'not_found_error', message: 'model: claude-nope' } },
    ],
    ['MODEL_UNKNOWN', 'openai', 400, { error: { code: 'model_not_found', message: 'no such model' } }],
    ['PROVIDER_KEY_REFUSED', 'vertex', 401, { error: { code: 401, status: 'UNAUTHENTICATED' } }],
    ['PROVIDER_FORBIDDEN', 'vertex', 403, [{ error: { code: 403, status: 'PERMISSION_DENIED' } }]],
    [
      'MODEL_UNKNOWN',
      'vertex',
      404,
      { error: { status: 'NOT_FOUND', message: 'Publisher Model x not found' } },
    ],
    ['PROVIDER_KEY_REFUSED', 'azure', 401, { error: { code: '401', message: 'invalid subscription key' } }],
    ['MODEL_UNKNOWN', 'azure', 404, { error: { code: 'DeploymentNotFound', message: 'no deployment' } }],
    [
      'MODEL_UNKNOWN',
      'chatgpt',
      400,
      { detail: "The 'x' model is not supported when using Codex with a ChatGPT account." },
    ],
  ] as const)('has the code %s where %s answers %i', (code, provider, status, body) => {
    const answer = { provider, status, headers: {}, body: JSON.stringify(body), runnerName: 'north' };
    expect(failureOf(answer, now)).toMatchObject({ type: 'refused', code });
  });

  it('has a short text, however long the answer is', () => {
    expect(refusal('openai', 401, 'x'.repeat(100_000))?.length).toBeLessThan(1_000);
  });
});

it('an error that the harness can handle does not end the run', () => {
  for (const status of [400, 404, 500, 529]) {
    const answer = { provider: 'anthropic', status, headers: {}, body: '{}', runnerName: undefined } as const;
    expect(failureOf(answer, now)).toBeUndefined();
  }
});

it('an error event has the status of the same error as an answer', () => {
  expect(statusOfEvent({ type: 'error', error: { type: 'rate_limit_error' } })).toBe(429);
  const failed = { type: 'response.failed', response: { error: { code: 'rate_limit_exceeded' } } };
  expect(statusOfEvent(failed)).toBe(429);
  expect(statusOfEvent({ type: 'error', error: { type: 'overloaded_error' } })).toBeUndefined();
});

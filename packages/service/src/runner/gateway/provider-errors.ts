import type { FaultCode } from '@muster/sdk/contract';
import type { ProviderName } from '../../harness/harness.ts';
import { isObject } from '../../lib/json.ts';
import { bounded } from '../run/report-queue.ts';

/** Why a run can't continue with its provider: for some time, or until a person fixes it. */
export type ProviderFailure =
  | { readonly type: 'limit'; readonly until: Date; readonly waitMs: number; readonly message: string }
  | { readonly type: 'refused'; readonly code: FaultCode; readonly message: string };

export interface FailedAnswer {
  readonly provider: ProviderName;
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** With the provider's key masked. */
  readonly body: string;
  readonly runnerName?: string | undefined;
}

const variables: Readonly<Record<ProviderName, string>> = {
  anthropic: 'ANTHROPIC_API_KEY',
  openai: 'OPENAI_API_KEY',
};

const secondMs = 1_000;
const shortestMs = secondMs;
const longestMs = 7 * 24 * 3_600 * secondMs;
const fallbackMs = 60 * secondMs;

/** Undefined when the run can continue: the harness handles the error. */
export function failureOf(answer: FailedAnswer, now: Date): ProviderFailure | undefined {
  const error = errorIn(answer.body);
  const answered = `${answer.provider} answered ${answer.status}${detailOf(error, answer.body)}`;
  const code = refusalCode(answer.status, error);
  if (code) return { type: 'refused', code, message: `${answered}. ${remedy(answer, code)}` };
  if (answer.status !== 429) return undefined;
  const waitMs = Math.min(Math.max(waitOf(answer, error, now) ?? fallbackMs, shortestMs), longestMs);
  return { type: 'limit', until: new Date(now.getTime() + waitMs), waitMs, message: answered };
}

/** An error event in a stream has no status. This is the one that the same error has as an answer. */
export function statusOfEvent(event: Readonly<Record<string, unknown>>): number | undefined {
  const { type, code } = errorIn(JSON.stringify(isObject(event.response) ? event.response : event));
  const isLimit = [type, code].some((name) => name !== undefined && limitNames.includes(name));
  return isLimit ? 429 : undefined;
}

const limitNames = ['rate_limit_error', 'rate_limit_exceeded', 'usage_limit_reached', 'insufficient_quota'];

/** The error in the body of an answer, in either provider's format. */
interface ProviderError {
  readonly type?: string | undefined;
  readonly code?: string | undefined;
  readonly message?: string | undefined;
  readonly resetsAt?: number | undefined;
  readonly resetsInSeconds?: number | undefined;
}

function errorIn(body: string): ProviderError {
  let content: unknown;
  try {
    content = JSON.parse(body);
  } catch {
    return {};
  }
  const error = isObject(content) && isObject(content.error) ? content.error : {};
  const text = (value: unknown) => (typeof value === 'string' ? value : undefined);
  const number = (value: unknown) => (typeof value === 'number' ? value : undefined);
  return {
    type: text(error.type),
    code: text(error.code),
    message: text(error.message),
    resetsAt: number(error.resets_at),
    resetsInSeconds: number(error.resets_in_seconds),
  };
}

function detailOf({ type, code, message }: ProviderError, body: string): string {
  const detail = [type ?? code, message ?? body.trim()].filter(Boolean).join(': ');
  return detail ? ` (${bounded(detail, 500)})` : '';
}

const isOutOfCredit = ({ type, code, message }: ProviderError): boolean =>
  [type, code].includes('insufficient_quota') ||
  type === 'billing_error' ||
  /credit balance is too low/i.test(message ?? '');

const isUnknownModel = (status: number, { type, code, message }: ProviderError): boolean =>
  code === 'model_not_found' ||
  (status === 404 && type === 'not_found_error' && /\bmodel\b/i.test(message ?? ''));

/** The code of an error that a person has to fix; undefined for any other. */
function refusalCode(status: number, error: ProviderError): FaultCode | undefined {
  if (isOutOfCredit(error) || status === 402) return 'PROVIDER_OUT_OF_CREDIT';
  if (status === 401) return 'PROVIDER_KEY_REFUSED';
  if (isUnknownModel(status, error)) return 'MODEL_UNKNOWN';
  return status === 403 ? 'PROVIDER_FORBIDDEN' : undefined;
}

function remedy({ provider, runnerName }: FailedAnswer, code: FaultCode): string {
  const runner = runnerName ? `the runner ${runnerName}` : 'this runner';
  const variable = variables[provider];
  switch (code) {
    case 'PROVIDER_OUT_OF_CREDIT':
      return `Add credit to the account of ${variable} of ${runner}, or set it to the key of another account`;
    case 'PROVIDER_FORBIDDEN':
      return `Give the key in ${variable} of ${runner} the permission, or set it to a key that has it`;
    case 'MODEL_UNKNOWN':
      return `Use another model, or set ${variable} of ${runner} to a key that has this one`;
    default:
      return `Set ${variable} of ${runner} to a valid key and start it again`;
  }
}

/** How long to wait, from the first header or field that says so. What is missing or no number is NaN. */
function waitOf({ provider, headers }: FailedAnswer, error: ProviderError, now: Date): number | undefined {
  const header = (name: string): string => [headers[name]].flat()[0] ?? '';
  const until = (time: number): number => time - now.getTime();
  const seconds = (amount = Number.NaN): number => amount * secondMs;
  const retryAfter = header('retry-after');
  const waits = [
    seconds(numberIn(retryAfter)),
    until(Date.parse(retryAfter)),
    ...(provider === 'anthropic'
      ? [
          until(seconds(numberIn(header('anthropic-ratelimit-unified-reset')))),
          until(resetOf(anthropicResets(headers))),
        ]
      : [
          numberIn(header('retry-after-ms')),
          resetOf(openaiResets(headers)),
          until(seconds(error.resetsAt)),
          seconds(error.resetsInSeconds),
          durationIn(/try again in ((?:[\d.]+(?:ms|[hms]))+)/i.exec(error.message ?? '')?.[1] ?? ''),
        ]),
  ];
  return waits.find(Number.isFinite);
}

const numberIn = (text: string): number => (/^\d+(\.\d+)?$/.test(text.trim()) ? Number(text) : Number.NaN);

/** One of the limits in the headers of an answer; `at` is when it resets. */
interface Reset {
  readonly isExhausted: boolean;
  readonly at: number;
}

/** All exhausted limits have to reset; when none is marked as exhausted, the first reset may help. */
function resetOf(resets: readonly Reset[]): number {
  const exhausted = resets.filter((reset) => reset.isExhausted).map((reset) => reset.at);
  return exhausted.length > 0 ? Math.max(...exhausted) : Math.min(...resets.map((reset) => reset.at));
}

function anthropicResets(headers: FailedAnswer['headers']): Reset[] {
  return Object.entries(headers).flatMap(([name, value]) => {
    const [, limit] = /^anthropic-ratelimit-(.+)-reset$/.exec(name) ?? [];
    const at = Date.parse(String(value));
    if (!limit || limit.startsWith('unified') || Number.isNaN(at)) return [];
    return [{ isExhausted: Number(headers[`anthropic-ratelimit-${limit}-remaining`]) === 0, at }];
  });
}

function openaiResets(headers: FailedAnswer['headers']): Reset[] {
  return ['requests', 'tokens'].flatMap((limit) => {
    const at = durationIn(String(headers[`x-ratelimit-reset-${limit}`]));
    if (Number.isNaN(at)) return [];
    return [{ isExhausted: Number(headers[`x-ratelimit-remaining-${limit}`]) === 0, at }];
  });
}

const unitMs: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** `120ms`, `1s`, `6m0s`, `1h2m3.5s` */
function durationIn(text: string): number {
  if (!/^(?:\d+(?:\.\d+)?(?:ms|[dhms]))+$/.test(text)) return Number.NaN;
  const parts = [...text.matchAll(/(\d+(?:\.\d+)?)(ms|[dhms])/g)];
  return parts.reduce((sum, [, amount, unit]) => sum + Number(amount) * (unitMs[unit ?? ''] ?? 0), 0);
}

/**
 * Removes the provider's key from an error, where the provider may quote it whole or in part. Neither the agent nor the
 * log may contain any of it.
 */
export function withoutKey(text: string, key: string): string {
  return text
    .replaceAll(key, '***')
    .replace(/[\w*-]+/g, (word) => (word.includes('***') ? '***' : word))
    .replace(/\bsk-[\w-]{4,}/g, '***');
}

import type { FaultCode } from '@muster/sdk/contract';
import type { ProviderName } from '../../harness/harness.ts';
import { isObject } from '../../lib/json.ts';
import { bounded } from '../wire-text.ts';

/** Why a provider does not answer: for a while, or until somebody fixes it. */
export type Trouble =
  | { readonly type: 'limit'; readonly until: Date; readonly waitMs: number; readonly message: string }
  | { readonly type: 'refused'; readonly code: FaultCode; readonly message: string };

export interface FailedAnswer {
  readonly provider: ProviderName;
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** With the provider's key masked. */
  readonly body: string;
  /** The runner to which the operator gives the key. */
  readonly runnerName: string | undefined;
}

const variables: Readonly<Record<ProviderName, string>> = {
  anthropic: 'ANTHROPIC_API_KEY',
  openai: 'OPENAI_API_KEY',
};

const secondMs = 1_000;
const shortestMs = secondMs;
const longestMs = 7 * 24 * 3_600 * secondMs;
const fallbackMs = 60 * secondMs;

/** What an answer means for the run, if it means that the run can't go on. */
export function troubleOf(answer: FailedAnswer, now: Date): Trouble | undefined {
  const error = errorIn(answer.body);
  const said = `${answer.provider} answered ${answer.status}${wordsOf(error, answer.body)}`;
  const code = refusalOf(answer.status, error);
  if (code) return { type: 'refused', code, message: `${said}. ${remedy(answer, code)}` };
  if (answer.status !== 429) return undefined;
  const waitMs = Math.min(Math.max(waitOf(answer, error, now) ?? fallbackMs, shortestMs), longestMs);
  return { type: 'limit', until: new Date(now.getTime() + waitMs), waitMs, message: said };
}

/** An error inside a stream that began well carries no status; the same error as an answer of its own would have this one. */
export function statusOfEvent(event: Readonly<Record<string, unknown>>): number | undefined {
  const { type, code } = errorIn(JSON.stringify(isObject(event.response) ? event.response : event));
  const isLimit = [type, code].some((name) => name !== undefined && limitNames.includes(name));
  return isLimit ? 429 : undefined;
}

const limitNames = ['rate_limit_error', 'rate_limit_exceeded', 'usage_limit_reached', 'insufficient_quota'];

/** What the provider calls its error, in either provider's form. */
interface ProviderError {
  readonly type?: string;
  readonly code?: string;
  readonly message?: string;
  readonly resetsAt?: number;
  readonly resetsInSeconds?: number;
}

function errorIn(body: string): ProviderError {
  let content: unknown;
  try {
    content = JSON.parse(body);
  } catch {
    return {};
  }
  const error = isObject(content) ? content.error : undefined;
  if (!isObject(error)) return {};
  return {
    ...(typeof error.type === 'string' && { type: error.type }),
    ...(typeof error.code === 'string' && { code: error.code }),
    ...(typeof error.message === 'string' && { message: error.message }),
    ...(typeof error.resets_at === 'number' && { resetsAt: error.resets_at }),
    ...(typeof error.resets_in_seconds === 'number' && { resetsInSeconds: error.resets_in_seconds }),
  };
}

function wordsOf({ type, code, message }: ProviderError, body: string): string {
  const words = [type ?? code, message ?? body.trim()].filter(Boolean).join(': ');
  return words ? ` (${bounded(words, 500)})` : '';
}

const isOutOfMoney = ({ type, code, message }: ProviderError): boolean =>
  [type, code].includes('insufficient_quota') ||
  type === 'billing_error' ||
  /credit balance is too low/i.test(message ?? '');

const isUnknownModel = (status: number, { type, code, message }: ProviderError): boolean =>
  code === 'model_not_found' ||
  (status === 404 && type === 'not_found_error' && /\bmodel\b/i.test(message ?? ''));

/** What the run can't go on with until somebody fixes it; undefined: another error, which the harness handles. */
function refusalOf(status: number, error: ProviderError): FaultCode | undefined {
  if (isOutOfMoney(error) || status === 402) return 'PROVIDER_OUT_OF_CREDIT';
  if (status === 401) return 'PROVIDER_KEY_REFUSED';
  if (isUnknownModel(status, error)) return 'MODEL_UNKNOWN';
  return status === 403 ? 'PROVIDER_FORBIDDEN' : undefined;
}

function remedy({ provider, runnerName }: FailedAnswer, code: FaultCode): string {
  const runner = runnerName ? `the runner ${runnerName}` : 'this runner';
  const variable = variables[provider];
  switch (code) {
    case 'PROVIDER_OUT_OF_CREDIT':
      return `Add credit to the account behind ${variable} of ${runner}, or set it to the key of another`;
    case 'PROVIDER_FORBIDDEN':
      return `Give the key in ${variable} of ${runner} the permission, or set it to one that has it`;
    case 'MODEL_UNKNOWN':
      return `Use another model, or set ${variable} of ${runner} to a key that has this one`;
    default:
      return `Set ${variable} of ${runner} to a valid key and start it again`;
  }
}

type Wait = number | undefined;

/** In milliseconds, by the first of the provider's words that says when. */
function waitOf({ provider, headers }: FailedAnswer, error: ProviderError, now: Date): Wait {
  const header = (name: string): string | undefined => [headers[name]].flat()[0];
  const until = (time: Wait): Wait => (time === undefined ? undefined : time - now.getTime());
  const ofProvider =
    provider === 'anthropic'
      ? [
          () => until(unixTime(header('anthropic-ratelimit-unified-reset'))),
          () => until(resetOf(anthropicResets(headers))),
        ]
      : [
          () => numberIn(header('retry-after-ms')),
          () => resetOf(openaiResets(headers)),
          () => until(error.resetsAt === undefined ? undefined : error.resetsAt * secondMs),
          () => (error.resetsInSeconds === undefined ? undefined : error.resetsInSeconds * secondMs),
          () => durationIn(/try again in ((?:[\d.]+(?:ms|[hms]))+)/i.exec(error.message ?? '')?.[1]),
        ];
  for (const wait of [() => retryAfter(header('retry-after'), now), ...ofProvider]) {
    const ms = wait();
    if (ms !== undefined && Number.isFinite(ms)) return ms;
  }
  return undefined;
}

function retryAfter(text: string | undefined, now: Date): Wait {
  const seconds = numberIn(text);
  if (seconds !== undefined) return seconds * secondMs;
  const time = timeIn(text);
  return time === undefined ? undefined : time - now.getTime();
}

const numberIn = (text: string | undefined): Wait =>
  text !== undefined && /^\d+(\.\d+)?$/.test(text.trim()) ? Number(text) : undefined;

function unixTime(text: string | undefined): Wait {
  const seconds = numberIn(text);
  return seconds === undefined ? undefined : seconds * secondMs;
}

function timeIn(text: string | undefined): Wait {
  const time = text === undefined ? Number.NaN : Date.parse(text);
  return Number.isNaN(time) ? undefined : time;
}

/** One of several limits that an answer tells of, and when it is whole again. */
interface Reset {
  readonly isExhausted: boolean;
  readonly at: number;
}

/** All that are exhausted must be whole again; when none is named so, the first that changes may help. */
function resetOf(resets: readonly Reset[]): Wait {
  const exhausted = resets.filter((reset) => reset.isExhausted).map((reset) => reset.at);
  if (exhausted.length > 0) return Math.max(...exhausted);
  return resets.length > 0 ? Math.min(...resets.map((reset) => reset.at)) : undefined;
}

function anthropicResets(headers: FailedAnswer['headers']): Reset[] {
  return Object.entries(headers).flatMap(([name, value]) => {
    const [, limit] = /^anthropic-ratelimit-(.+)-reset$/.exec(name) ?? [];
    const at = timeIn(String(value));
    if (!limit || limit.startsWith('unified') || at === undefined) return [];
    return [{ isExhausted: Number(headers[`anthropic-ratelimit-${limit}-remaining`]) === 0, at }];
  });
}

function openaiResets(headers: FailedAnswer['headers']): Reset[] {
  return ['requests', 'tokens'].flatMap((limit) => {
    const at = durationIn(headers[`x-ratelimit-reset-${limit}`]?.toString());
    if (at === undefined) return [];
    return [{ isExhausted: Number(headers[`x-ratelimit-remaining-${limit}`]) === 0, at }];
  });
}

const unitMs: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** `120ms`, `1s`, `6m0s`, `1h2m3.5s` */
function durationIn(text: string | undefined): Wait {
  if (text === undefined || !/^(?:\d+(?:\.\d+)?(?:ms|[dhms]))+$/.test(text)) return undefined;
  const parts = [...text.matchAll(/(\d+(?:\.\d+)?)(ms|[dhms])/g)];
  return parts.reduce((sum, [, amount, unit]) => sum + Number(amount) * (unitMs[unit ?? ''] ?? 0), 0);
}

import type { FaultCode, ModelProvider } from '@muster/sdk/contract';
import { isObject } from '../../lib/json.ts';
import { providerFacts } from '../accounts/account.ts';
import { bounded } from '../report-text.ts';

/** Why a run can't continue with its provider: for some time, or until a person fixes it. */
export type ProviderFailure =
  | {
      readonly type: 'limit';
      readonly until: Date;
      readonly waitMs: number;
      readonly message: string;
      /** The same without the provider's text, which may quote the request. */
      readonly summary: string;
      /** The provider did not say how long. */
      readonly isGuess?: boolean;
    }
  | {
      readonly type: 'refused';
      readonly code: FaultCode;
      readonly message: string;
      readonly summary: string;
      /** If the provider said until when. */
      readonly until?: Date | undefined;
    };

export interface FailedAnswer {
  readonly provider: ModelProvider;
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** With the provider's key masked. */
  readonly body: string;
  /** What the operator changes when the credentials are refused. */
  readonly setting?: string | undefined;
  readonly runnerName?: string | undefined;
}

const secondMs = 1_000;
const shortestMs = secondMs;
const longestMs = 7 * 24 * 3_600 * secondMs;
const fallbackMs = 60 * secondMs;

const largestErrorBytes = 1024 * 1024;

/** An error whole, up to that size. */
export async function errorBody(answer: AsyncIterable<Buffer>): Promise<string> {
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const part of answer) {
    bytes += part.length;
    if (bytes > largestErrorBytes) break;
    parts.push(part);
  }
  return Buffer.concat(parts).toString();
}

/** Undefined when the run can continue: the harness handles the error. */
export function failureOf(answer: FailedAnswer, now: Date): ProviderFailure | undefined {
  const error = errorIn(answer.body, answer.headers);
  const summary = `${providerFacts[answer.provider].title} answered ${answer.status}`;
  const answered = `${summary}${detailOf(error, answer.body)}`;
  const code = refusalCode(answer.status, error);
  if (!code && answer.status !== 429) return undefined;
  const named = waitOf(answer, error, now);
  const waitMs = Math.min(Math.max(named ?? fallbackMs, shortestMs), longestMs);
  const until = new Date(now.getTime() + waitMs);
  if (!code)
    return { type: 'limit', until, waitMs, message: answered, summary, isGuess: named === undefined };
  const message = `${answered}. ${remedy(answer, code)}`;
  return { type: 'refused', code, message, summary, until: named === undefined ? undefined : until };
}

/** An account that has no credentials to send. */
export const accountFailure = (
  account: Pick<FailedAnswer, 'provider' | 'setting' | 'runnerName'>,
  code: FaultCode,
  message: string,
): ProviderFailure => ({
  type: 'refused',
  code,
  message: `${message}. ${remedy(account, code)}`,
  summary: bounded(message, 300),
});

/** An error event in a stream has no status. This is the one that the same error has as an answer. */
export function statusOfEvent(event: Readonly<Record<string, unknown>>): number | undefined {
  const { type, code } = errorIn(JSON.stringify(isObject(event.response) ? event.response : event));
  const isLimit = [type, code].some((name) => name !== undefined && limitNames.includes(name));
  return isLimit ? 429 : undefined;
}

const limitNames = [
  ...['rate_limit_error', 'rate_limit_exceeded', 'usage_limit_reached', 'insufficient_quota'],
  ...['throttlingException', 'RESOURCE_EXHAUSTED'],
];

/** The error in the body of an answer, in the format of any provider. */
interface ProviderError {
  readonly type?: string | undefined;
  readonly code?: string | undefined;
  readonly message?: string | undefined;
  readonly resetsAt?: number | undefined;
  readonly resetsInSeconds?: number | undefined;
}

function errorIn(body: string, headers: FailedAnswer['headers'] = {}): ProviderError {
  const text = (value: unknown) => (typeof value === 'string' ? value : undefined);
  const number = (value: unknown) => (typeof value === 'number' ? value : undefined);
  // AWS names the error in a header, before a colon.
  const awsType = text(headers['x-amzn-errortype'])?.split(':')[0];
  let content: unknown;
  try {
    content = JSON.parse(body);
  } catch {
    return { type: awsType };
  }
  // Google may send a list with the error.
  const outer = Array.isArray(content) ? content[0] : content;
  const fields = isObject(outer) ? outer : {};
  const error = isObject(fields.error) ? fields.error : {};
  return {
    type: text(error.type) ?? text(error.status) ?? awsType,
    code: text(error.code),
    message: text(error.message) ?? text(fields.message) ?? text(fields.Message) ?? text(fields.detail),
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
  code === 'DeploymentNotFound' ||
  (status === 404 && notFoundTypes.includes(type ?? '') && /\bmodel\b/i.test(message ?? '')) ||
  (status === 400 &&
    /model identifier is invalid|model is not supported when using Codex/i.test(message ?? ''));

const notFoundTypes = ['not_found_error', 'NOT_FOUND', 'ResourceNotFoundException'];

/** AWS refuses invalid and expired credentials with 403. */
const refusedCredentials =
  /^(?:ExpiredToken(?:Exception)?|UnrecognizedClientException|InvalidSignatureException|IncompleteSignature|MissingAuthenticationTokenException|InvalidClientTokenId)$/;

/** Whether the provider can't decrypt reasoning in the request, because another account made it. */
export const isForeignReasoning = (status: number, body: string): boolean =>
  status === 400 && errorIn(body).code === 'invalid_encrypted_content';

/** Whether other credentials of the same account could help. */
export function areCredentialsRefused(answer: Pick<FailedAnswer, 'status' | 'headers' | 'body'>): boolean {
  if (answer.status === 401) return true;
  return answer.status === 403 && refusedCredentials.test(errorIn(answer.body, answer.headers).type ?? '');
}

/** The code of an error that a person has to fix; undefined for any other. */
function refusalCode(status: number, error: ProviderError): FaultCode | undefined {
  if (isOutOfCredit(error) || status === 402) return 'PROVIDER_OUT_OF_CREDIT';
  if (status === 401 || (status === 403 && refusedCredentials.test(error.type ?? '')))
    return 'PROVIDER_KEY_REFUSED';
  if (isUnknownModel(status, error)) return 'MODEL_UNKNOWN';
  return status === 403 ? 'PROVIDER_FORBIDDEN' : undefined;
}

function remedy(
  { provider, setting, runnerName }: Pick<FailedAnswer, 'provider' | 'setting' | 'runnerName'>,
  code: FaultCode,
): string {
  const runner = runnerName ? `the runner ${runnerName}` : 'this runner';
  const variable = setting ?? providerFacts[provider].setting;
  if (!isKey(variable)) return otherRemedy(variable, runner, code);
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

/** It may be followed by the account that it belongs to. */
const isKey = (setting: string): boolean => /^[A-Z_]+_(KEY|TOKEN|BEDROCK)\b/.test(setting);

/** For credentials that are no single value. */
function otherRemedy(setting: string, runner: string, code: FaultCode): string {
  switch (code) {
    case 'PROVIDER_OUT_OF_CREDIT':
      return `Add credit to the account of ${setting} of ${runner}`;
    case 'PROVIDER_FORBIDDEN':
      return `Give ${setting} of ${runner} the permission to use this model`;
    case 'MODEL_UNKNOWN':
      return `Use another model, or correct its name in the file that MUSTER_MODELS of ${runner} names`;
    default:
      return setting.startsWith('MUSTER_CODEX_AUTH')
        ? `Sign in again with codex login, so that the file in ${setting} of ${runner} is new`
        : `Renew ${setting} of ${runner}`;
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
    ...(providerFacts[provider].protocol !== 'openai'
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
          seconds(numberIn(/retry after (\d+) seconds?/i.exec(error.message ?? '')?.[1] ?? '')),
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
 * Removes the provider's credentials from an error, where the provider may quote them whole or in part. Neither the agent nor the
 * log may contain any of it.
 */
export function withoutKeys(text: string, keys: readonly string[]): string {
  return keys
    .filter((key) => key !== '')
    .reduce((masked, key) => masked.replaceAll(key, '***'), text)
    .replace(/[\w*-]+/g, (word) => (word.includes('***') ? '***' : word))
    .replace(/\bsk-[\w-]{4,}/g, '***');
}

import { type OutgoingHttpHeaders, validateHeaderName, validateHeaderValue } from 'node:http';
import { joinUrl } from '../gateway/upstream.ts';
import type { Environment } from '../workspace/environment.ts';
import type { Account } from './account.ts';

/** Accounts whose credential is a fixed text in a header. */
interface FixedAccount extends Pick<Account, 'provider' | 'setting' | 'about' | 'isSubscription'> {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Added to the features that the request lists in `anthropic-beta`. */
  readonly beta?: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly secret: string;
  readonly custom?: CustomHeaders;
}

function fixedAccount({
  url,
  headers,
  beta,
  query = {},
  secret,
  custom = {},
  ...account
}: FixedAccount): Account {
  return {
    ...account,
    secrets: () => [secret, ...secretsIn(custom)],
    authorize: async (call) => {
      const joined = joinUrl(url, call.path, call.query);
      for (const [name, value] of Object.entries(query)) joined.searchParams.set(name, value);
      return {
        url: joined,
        headers: { ...call.headers, ...(beta && withBeta(call.headers, beta)), ...headers, ...custom },
      };
    },
  };
}

function withBeta(headers: OutgoingHttpHeaders, beta: string): OutgoingHttpHeaders {
  const listed = headers['anthropic-beta'];
  return { 'anthropic-beta': listed ? `${listed},${beta}` : beta };
}

/** The feature that Anthropic requires with tokens of `claude setup-token`; Claude Code sends the same. */
const oauthBeta = 'oauth-2025-04-20';

/** In the order of Claude Code: ANTHROPIC_AUTH_TOKEN, ANTHROPIC_API_KEY, CLAUDE_CODE_OAUTH_TOKEN. */
export function anthropicAccount(environment: Environment): Account | undefined {
  const { ANTHROPIC_AUTH_TOKEN, ANTHROPIC_API_KEY, CLAUDE_CODE_OAUTH_TOKEN } = environment;
  const url = environment.ANTHROPIC_BASE_URL || 'https://api.anthropic.com';
  const custom = customHeaders(environment.ANTHROPIC_CUSTOM_HEADERS);
  const account = (
    setting: string,
    secret: string,
    headers: Record<string, string>,
    beta?: string,
  ): Account =>
    fixedAccount({
      provider: 'anthropic',
      setting,
      about: setting,
      ...{ url, headers, secret, custom },
      ...(beta !== undefined && { beta, isSubscription: true }),
    });
  const bearer = (token: string) => ({ authorization: `Bearer ${token}` });
  if (ANTHROPIC_AUTH_TOKEN)
    return account('ANTHROPIC_AUTH_TOKEN', ANTHROPIC_AUTH_TOKEN, bearer(ANTHROPIC_AUTH_TOKEN));
  if (ANTHROPIC_API_KEY)
    return account('ANTHROPIC_API_KEY', ANTHROPIC_API_KEY, { 'x-api-key': ANTHROPIC_API_KEY });
  if (CLAUDE_CODE_OAUTH_TOKEN) {
    const headers = bearer(CLAUDE_CODE_OAUTH_TOKEN);
    return account('CLAUDE_CODE_OAUTH_TOKEN', CLAUDE_CODE_OAUTH_TOKEN, headers, oauthBeta);
  }
  return undefined;
}

export function openaiAccount({ OPENAI_API_KEY, OPENAI_BASE_URL }: Environment): Account | undefined {
  if (!OPENAI_API_KEY) return undefined;
  return fixedAccount({
    provider: 'openai',
    setting: 'OPENAI_API_KEY',
    about: 'OPENAI_API_KEY',
    url: OPENAI_BASE_URL || 'https://api.openai.com/v1',
    headers: { authorization: `Bearer ${OPENAI_API_KEY}` },
    secret: OPENAI_API_KEY,
  });
}

/** Azure's API without versions is below `/openai/v1`; with a version it is below `/openai`. */
export function azureAccount(environment: Environment): Account | undefined {
  const { AZURE_OPENAI_ENDPOINT, AZURE_OPENAI_API_KEY, AZURE_OPENAI_API_VERSION: version } = environment;
  if (!AZURE_OPENAI_ENDPOINT && !AZURE_OPENAI_API_KEY) return undefined;
  if (!AZURE_OPENAI_ENDPOINT)
    throw new Error(
      'AZURE_OPENAI_ENDPOINT must be set with AZURE_OPENAI_API_KEY, such as https://NAME.openai.azure.com',
    );
  if (!AZURE_OPENAI_API_KEY) throw new Error('AZURE_OPENAI_API_KEY must be set with AZURE_OPENAI_ENDPOINT');
  const base = baseUrl('AZURE_OPENAI_ENDPOINT', AZURE_OPENAI_ENDPOINT);
  return fixedAccount({
    provider: 'azure',
    setting: 'AZURE_OPENAI_API_KEY',
    about: `Azure OpenAI (AZURE_OPENAI_API_KEY, ${base.host})`,
    url: String(joinUrl(String(base), version ? '/openai' : '/openai/v1', '')),
    ...(version && { query: { 'api-version': version } }),
    headers: { 'api-key': AZURE_OPENAI_API_KEY },
    secret: AZURE_OPENAI_API_KEY,
  });
}

export function baseUrl(name: string, text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || !/^https?:$/.test(url.protocol) || url.search || url.hash || url.username || url.password)
    throw new Error(`${name} must be an http or https URL without query, fragment or password`);
  return url;
}

export type CustomHeaders = Readonly<Record<string, string>>;

/** Headers of one connection or of the body, which the gateway sets itself. */
const reserved = /^(host|connection|content-.*|transfer-encoding|expect|upgrade|te|trailer|keep-alive)$/i;

/** The lines `Name: value` of ANTHROPIC_CUSTOM_HEADERS. Errors do not show values, which may be secret. */
export function customHeaders(text = ''): CustomHeaders {
  const headers: Record<string, string> = {};
  for (const [index, line] of text.split('\n').entries()) {
    if (line.trim() === '') continue;
    const at = line.indexOf(':');
    const name = line.slice(0, at).trim().toLowerCase();
    const value = line.slice(at + 1).trim();
    const where = `ANTHROPIC_CUSTOM_HEADERS, line ${index + 1},`;
    if (at === -1 || !isHeader(name, value)) throw new Error(`${where} must be "Name: value"`);
    if (reserved.test(name)) throw new Error(`${where} must not set ${name}: the gateway sets it`);
    headers[name] = value;
  }
  return headers;
}

function isHeader(name: string, value: string): boolean {
  try {
    validateHeaderName(name);
    validateHeaderValue(name, value);
    return true;
  } catch {
    return false;
  }
}

const shortestSecret = 8;

/** Short values are flags rather than secrets; masking them would garble errors. */
export const secretsIn = (headers: CustomHeaders): string[] =>
  Object.values(headers).filter((value) => value.length >= shortestSecret);

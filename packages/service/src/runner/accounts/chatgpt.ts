import { randomUUID } from 'node:crypto';
import { accessSync, constants, readFileSync, realpathSync } from 'node:fs';
import { open, readFile, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { messageOf } from '../../lib/errors.ts';
import { isObject } from '../../lib/json.ts';
import type { RunnerLog } from '../../lib/log.ts';
import { joinUrl } from '../gateway/upstream.ts';
import type { Environment } from '../workspace/environment.ts';
import { type Account, AccountError, keyRefused, SingleFlight } from './account.ts';
import { baseUrl } from './api-keys.ts';

/**
 * A ChatGPT login of Codex: the file `auth.json` that `codex login` wrote. Its access token lasts some days; the refresh
 * token with which it is renewed is valid once, so the answer is written back before it is used. Another process that
 * shares the file may renew it first: what the file says counts.
 */
export function chatgptAccount(environment: Environment, log?: RunnerLog): Account | undefined {
  const { MUSTER_CODEX_AUTH: given } = environment;
  if (!given) return undefined;
  const file = usableFile(given);
  const url = String(
    baseUrl('MUSTER_CHATGPT_URL', environment.MUSTER_CHATGPT_URL || 'https://chatgpt.com/backend-api/codex'),
  );
  const tokenUrl = String(
    baseUrl(
      'CODEX_REFRESH_TOKEN_URL_OVERRIDE',
      environment.CODEX_REFRESH_TOKEN_URL_OVERRIDE || 'https://auth.openai.com/oauth/token',
    ),
  );
  const login = new Login(file, tokenUrl, log);
  return {
    provider: 'chatgpt',
    setting: 'MUSTER_CODEX_AUTH',
    about: 'a ChatGPT login (MUSTER_CODEX_AUTH)',
    isSubscription: true,
    secrets: () => login.secrets,
    authorize: async (call) => {
      const { access_token, account_id } = await login.tokens();
      return {
        url: joinUrl(url, call.path, call.query),
        headers: {
          ...call.headers,
          authorization: `Bearer ${access_token}`,
          'chatgpt-account-id': account_id,
        },
      };
    },
    files: [file],
    renew: async ({ headers }) => {
      await login.renew(String(headers.authorization).replace(/^Bearer /, ''));
    },
  };
}

interface Tokens {
  readonly id_token: string;
  readonly access_token: string;
  readonly refresh_token: string;
  readonly account_id: string;
}

function usableFile(given: string): string {
  try {
    const file = realpathSync(given);
    tokensIn(readFileSync(file, 'utf8'));
    // A new file replaces the old one.
    accessSync(dirname(file), constants.W_OK);
    return file;
  } catch (error) {
    const expected =
      'must be the path of auth.json of a ChatGPT login (codex login), in a folder that the runner may write';
    throw new Error(`MUSTER_CODEX_AUTH ${expected}: ${messageOf(error)}`);
  }
}

/** Errors quote nothing of the file. */
function tokensIn(file: string): Tokens {
  const content = parsed(file);
  const tokens = isObject(content) && isObject(content.tokens) ? content.tokens : undefined;
  if (!tokens) throw new Error('it has no tokens of a ChatGPT login');
  const text = (name: string): string => {
    const value = tokens[name];
    if (typeof value !== 'string' || !/^[\x21-\x7e]+$/.test(value))
      throw new Error(`tokens.${name} must be a token`);
    return value;
  };
  return {
    id_token: text('id_token'),
    access_token: text('access_token'),
    refresh_token: text('refresh_token'),
    account_id: text('account_id'),
  };
}

/** The public id of Codex, to which the login belongs. */
const clientId = 'app_EMoamEEZ73f0CkXaXp7hrann';
const renewBeforeMs = 5 * 60_000;
const refreshTimeoutMs = 30_000;
const mostAnswerBytes = 256 * 1024;

class Login {
  readonly #file: string;
  readonly #tokenUrl: string;
  readonly #log: RunnerLog | undefined;
  readonly #renewal = new SingleFlight<Tokens>();
  #tokens: Tokens | undefined;
  /** An answer to a request with the tokens before may still arrive. */
  #before: Tokens | undefined;

  constructor(file: string, tokenUrl: string, log: RunnerLog | undefined) {
    this.#file = file;
    this.#tokenUrl = tokenUrl;
    this.#log = log;
  }

  get secrets(): string[] {
    return [this.#tokens, this.#before].flatMap((tokens) =>
      tokens ? [tokens.id_token, tokens.access_token, tokens.refresh_token] : [],
    );
  }

  async tokens(): Promise<Tokens> {
    this.#tokens ??= await this.#read();
    const { access_token } = this.#tokens;
    return isExpiring(access_token) ? this.renew(access_token) : this.#tokens;
  }

  /** Everyone whose request was refused gets the tokens of one renewal. */
  async renew(refused: string): Promise<Tokens> {
    if (this.#tokens && this.#tokens.access_token !== refused) return this.#tokens;
    return this.#renewal.run(async () => {
      const stored = await this.#read();
      this.#before = this.#tokens;
      this.#tokens = stored.access_token === refused ? await this.#refresh(stored) : stored;
      return this.#tokens;
    });
  }

  async #read(): Promise<Tokens> {
    try {
      return tokensIn(await readFile(this.#file, 'utf8'));
    } catch (error) {
      throw new AccountError(
        `The ChatGPT login in MUSTER_CODEX_AUTH can't be read: ${messageOf(error)}`,
        keyRefused,
      );
    }
  }

  async #refresh(used: Tokens): Promise<Tokens> {
    const answer = await this.#ask(used.refresh_token);
    if (answer.status >= 400) {
      // Another process may have used the refresh token first.
      const stored = await this.#read();
      if (stored.access_token !== used.access_token) return stored;
      const text = `ChatGPT did not renew the login in MUSTER_CODEX_AUTH (${answer.status}${errorCode(answer.body)})`;
      const isTemporary = answer.status >= 500 || answer.status === 429;
      throw new AccountError(text, isTemporary ? undefined : keyRefused);
    }
    const fresh = { ...used, ...textsIn(answer.body, ['id_token', 'access_token', 'refresh_token']) };
    await this.#write(fresh);
    return fresh;
  }

  async #ask(refresh_token: string): Promise<{ status: number; body: unknown }> {
    try {
      const response = await fetch(this.#tokenUrl, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ client_id: clientId, grant_type: 'refresh_token', refresh_token }),
        redirect: 'error',
        signal: AbortSignal.timeout(refreshTimeoutMs),
      });
      return { status: response.status, body: parsed(await boundedText(response)) };
    } catch (error) {
      throw new AccountError(
        `The runner can't reach ${new URL(this.#tokenUrl).host} to renew the ChatGPT login: ${messageOf(error)}`,
      );
    }
  }

  /** All or nothing: a file that is cut off would end the login. */
  async #write(tokens: Tokens): Promise<void> {
    const temporary = `${this.#file}.${randomUUID()}.new`;
    try {
      const content = parsed(await readFile(this.#file, 'utf8'));
      const others = isObject(content) ? content : {};
      const stored = isObject(others.tokens) ? others.tokens : {};
      const next = { ...others, tokens: { ...stored, ...tokens }, last_refresh: new Date().toISOString() };
      const handle = await open(temporary, 'w', 0o600);
      await handle
        .writeFile(`${JSON.stringify(next, null, 2)}\n`)
        .then(() => handle.sync())
        .finally(() => handle.close());
      await rename(temporary, this.#file);
    } catch (error) {
      await rm(temporary, { force: true }).catch(() => {});
      // The tokens still work until this process ends.
      this.#log?.error({ reason: messageOf(error) }, 'renewed ChatGPT login could not be saved');
    }
  }
}

/** Whether the token's own expiry is near. One that does not say is used until it is refused. */
function isExpiring(token: string): boolean {
  const claims = parsed(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString());
  const expiry = isObject(claims) ? claims.exp : undefined;
  return typeof expiry === 'number' && expiry * 1_000 < Date.now() + renewBeforeMs;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

async function boundedText(response: Response): Promise<string> {
  const parts: Uint8Array[] = [];
  let bytes = 0;
  for await (const part of response.body ?? []) {
    bytes += part.length;
    if (bytes > mostAnswerBytes) throw new Error('the answer is too large');
    parts.push(part);
  }
  return Buffer.concat(parts).toString();
}

const textsIn = (body: unknown, names: readonly string[]): Record<string, string> =>
  Object.fromEntries(
    names.flatMap((name) => {
      const value = isObject(body) ? body[name] : undefined;
      return typeof value === 'string' && value !== '' ? [[name, value]] : [];
    }),
  );

/** Only a code: the text could quote the token. */
function errorCode(body: unknown): string {
  const error = isObject(body) ? body.error : undefined;
  const code = isObject(error) ? error.code : error;
  return typeof code === 'string' && /^\w{1,60}$/.test(code) ? `, ${code}` : '';
}

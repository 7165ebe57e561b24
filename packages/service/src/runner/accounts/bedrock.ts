import { createHash, createHmac, type Hash, type Hmac } from 'node:crypto';
import { messageOf } from '../../lib/errors.ts';
import { joinUrl } from '../gateway/upstream.ts';
import { type Environment, isOn } from '../workspace/environment.ts';
import {
  type Account,
  AccountError,
  type AuthorizedCall,
  isTemporary,
  keyRefused,
  type UnauthorizedCall,
} from './account.ts';
import { baseUrl, customHeaders, secretsIn } from './api-keys.ts';

/**
 * Claude in Amazon Bedrock. Requests are signed (SigV4) with the credentials that AWS's own chain finds: variables,
 * profiles, single sign-on, the role of the machine. With AWS_BEARER_TOKEN_BEDROCK, an API key of Bedrock, nothing is
 * signed.
 */
export function bedrockAccount(environment: Environment): Account | undefined {
  if (!isOn(environment.CLAUDE_CODE_USE_BEDROCK)) return undefined;
  const region = environment.AWS_REGION || environment.AWS_DEFAULT_REGION;
  if (!region || !/^[a-z0-9-]+$/.test(region))
    throw new Error(
      'AWS_REGION must be the region of Amazon Bedrock, such as us-east-1, with CLAUDE_CODE_USE_BEDROCK',
    );
  const url = baseUrl(
    'ANTHROPIC_BEDROCK_BASE_URL',
    environment.ANTHROPIC_BEDROCK_BASE_URL || `https://bedrock-runtime.${region}.amazonaws.com`,
  );
  const custom = customHeaders(environment.ANTHROPIC_CUSTOM_HEADERS);
  const apiKey = environment.AWS_BEARER_TOKEN_BEDROCK;
  const signer = new Signer(region, environment);
  const secrets = [apiKey, environment.AWS_SECRET_ACCESS_KEY, environment.AWS_SESSION_TOKEN].filter(isText);
  const how = apiKey ? 'AWS_BEARER_TOKEN_BEDROCK' : 'AWS credentials';
  return {
    provider: 'bedrock',
    setting: apiKey ? 'AWS_BEARER_TOKEN_BEDROCK' : 'the AWS credentials',
    about: `Amazon Bedrock (${how}, ${region})`,
    secrets: () => [...secrets, ...signer.secrets, ...secretsIn(custom)],
    authorize: async (call) => {
      const joined = joinUrl(String(url), call.path, call.query);
      const signed = apiKey ? { authorization: `Bearer ${apiKey}` } : await signer.sign(call, joined);
      return { url: joined, headers: { ...call.headers, ...signed, ...custom } };
    },
    ...(!apiKey && { renew: (refused: AuthorizedCall) => signer.renew(refused) }),
    files: [environment.AWS_SHARED_CREDENTIALS_FILE, environment.AWS_CONFIG_FILE].filter(isText),
  };
}

const isText = (value: string | undefined): value is string => Boolean(value);

type Credentials = Awaited<ReturnType<ReturnType<Libraries['defaultProvider']>>>;
type Libraries = Awaited<ReturnType<typeof loadLibraries>>;

/** Loaded with the first request: most runners need none of it. */
async function loadLibraries() {
  const [{ SignatureV4 }, { defaultProvider }] = await Promise.all([
    import('@smithy/signature-v4'),
    import('@aws-sdk/credential-provider-node'),
  ]);
  return { SignatureV4, defaultProvider };
}

class Signer {
  readonly #region: string;
  readonly #environment: Environment;
  #libraries: Promise<Libraries> | undefined;
  /** Caches credentials and renews them before they expire. */
  #chain: ReturnType<Libraries['defaultProvider']> | undefined;
  #credentials: Credentials | undefined;

  constructor(region: string, environment: Environment) {
    this.#region = region;
    this.#environment = environment;
  }

  get secrets(): string[] {
    return [this.#credentials?.secretAccessKey, this.#credentials?.sessionToken].filter(isText);
  }

  async sign({ method, body }: UnauthorizedCall, url: URL): Promise<Record<string, string>> {
    const { SignatureV4 } = await this.#load();
    const signer = new SignatureV4({
      credentials: await this.#find(),
      region: this.#region,
      service: 'bedrock',
      sha256: Sha256,
    });
    const { headers } = await signer.sign({
      method,
      protocol: url.protocol,
      hostname: url.hostname,
      path: url.pathname,
      query: Object.fromEntries(url.searchParams),
      // Only what nothing on the way changes.
      headers: { host: url.host, 'content-type': 'application/json' },
      body,
    });
    return headers;
  }

  /** The chain may have cached credentials that were revoked before they expired. */
  async renew({ headers }: AuthorizedCall): Promise<void> {
    const used = this.#credentials?.accessKeyId;
    const isCurrent = used !== undefined && String(headers.authorization).includes(`Credential=${used}/`);
    if (isCurrent) await this.#find(true);
  }

  async #load(): Promise<Libraries> {
    this.#libraries ??= loadLibraries();
    return this.#libraries;
  }

  async #find(forceRefresh = false): Promise<Credentials> {
    const { defaultProvider } = await this.#load();
    this.#chain ??= keysIn(this.#environment) ?? defaultProvider(filesIn(this.#environment));
    try {
      this.#credentials = await this.#chain({ forceRefresh });
      return this.#credentials;
    } catch (error) {
      const message = `AWS has no credentials for Amazon Bedrock: ${messageOf(error)}`;
      throw new AccountError(message, isTemporary(error) ? undefined : keyRefused);
    }
  }
}

/** The keys of an account that has its own. */
function keysIn(environment: Environment): (() => Promise<Credentials>) | undefined {
  const {
    AWS_ACCESS_KEY_ID: accessKeyId,
    AWS_SECRET_ACCESS_KEY: secretAccessKey,
    AWS_SESSION_TOKEN: sessionToken,
    AWS_PROFILE: profile,
  } = environment;
  if (profile || !accessKeyId || !secretAccessKey) return undefined;
  return async () => ({ accessKeyId, secretAccessKey, ...(sessionToken && { sessionToken }) });
}

/** Where AWS's chain looks, in the place of the variables of this process. */
const filesIn = (environment: Environment) => ({
  ...(environment.AWS_PROFILE && { profile: environment.AWS_PROFILE }),
  ...(environment.AWS_SHARED_CREDENTIALS_FILE && { filepath: environment.AWS_SHARED_CREDENTIALS_FILE }),
  ...(environment.AWS_CONFIG_FILE && { configFilepath: environment.AWS_CONFIG_FILE }),
});

/** The interface that the signer needs. */
class Sha256 {
  readonly #hash: Hash | Hmac;

  constructor(secret?: string | ArrayBuffer | ArrayBufferView) {
    this.#hash = secret === undefined ? createHash('sha256') : createHmac('sha256', bytesOf(secret));
  }

  update(data: string | ArrayBuffer | ArrayBufferView): void {
    this.#hash.update(bytesOf(data));
  }

  async digest(): Promise<Uint8Array> {
    return this.#hash.digest();
  }

  reset(): void {
    throw new Error('not used');
  }
}

function bytesOf(data: string | ArrayBuffer | ArrayBufferView): Uint8Array {
  if (typeof data === 'string') return Buffer.from(data);
  return ArrayBuffer.isView(data)
    ? new Uint8Array(data.buffer, data.byteOffset, data.byteLength)
    : new Uint8Array(data);
}

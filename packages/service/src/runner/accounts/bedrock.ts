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
  const signer = new Signer(region);
  const secrets = [apiKey, environment.AWS_SECRET_ACCESS_KEY, environment.AWS_SESSION_TOKEN].filter(isText);
  const how = apiKey ? 'AWS_BEARER_TOKEN_BEDROCK' : 'AWS credentials';
  return {
    name: 'bedrock',
    setting: apiKey ? 'AWS_BEARER_TOKEN_BEDROCK' : 'the AWS credentials',
    about: `Amazon Bedrock (${how}, ${region})`,
    secrets: () => [...secrets, ...signer.secrets, ...secretsIn(custom)],
    authorize: async (call) => {
      const joined = joinUrl(String(url), call.path, call.query);
      const signed = apiKey ? { authorization: `Bearer ${apiKey}` } : await signer.sign(call, joined);
      return { url: joined, headers: { ...call.headers, ...signed, ...custom } };
    },
    ...(!apiKey && { renew: (refused: AuthorizedCall) => signer.renew(refused) }),
  };
}

const isText = (value: string | undefined): value is string => Boolean(value);

type Credentials = Awaited<ReturnType<ReturnType<Libraries['chain']>>>;
type Libraries = Awaited<ReturnType<typeof loadLibraries>>;

/** Loaded with the first request: most runners need none of it. */
async function loadLibraries() {
  const [{ SignatureV4 }, { defaultProvider }] = await Promise.all([
    import('@smithy/signature-v4'),
    import('@aws-sdk/credential-provider-node'),
  ]);
  return { SignatureV4, chain: () => defaultProvider() };
}

class Signer {
  readonly #region: string;
  #libraries: Promise<Libraries> | undefined;
  /** Caches credentials and renews them before they expire. */
  #chain: ReturnType<Libraries['chain']> | undefined;
  #credentials: Credentials | undefined;

  constructor(region: string) {
    this.#region = region;
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
    const { chain } = await this.#load();
    this.#chain ??= chain();
    try {
      this.#credentials = await this.#chain({ forceRefresh });
      return this.#credentials;
    } catch (error) {
      const message = `AWS has no credentials for Amazon Bedrock: ${messageOf(error)}`;
      throw new AccountError(message, isTemporary(error) ? undefined : keyRefused);
    }
  }
}

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

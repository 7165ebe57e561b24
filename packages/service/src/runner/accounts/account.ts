import type { OutgoingHttpHeaders } from 'node:http';
import type { FaultCode, ModelProvider } from '@muster/sdk/contract';

/**
 * A way to a provider's models: it adds its credentials to a request that the gateway has checked. Credentials stay in
 * the runner's process; the sandbox has only the token of its run.
 */
export interface Account {
  readonly provider: ModelProvider;
  /** The setting of the runner to change when the provider refuses the credentials. */
  readonly setting: string;
  /** Where it is and how it signs in, for the operator; without any value of a credential. */
  readonly about: string;
  /** A subscription pays for its requests, at a price that is not known. */
  readonly isSubscription?: boolean;
  /** Throws an `AccountError`. */
  authorize(call: UnauthorizedCall): Promise<AuthorizedCall>;
  /** Replaces credentials that the provider has refused. Throws an `AccountError`. Undefined: they never change. */
  renew?(refused: AuthorizedCall): Promise<void>;
  /** The values that no error may contain. */
  secrets(): readonly string[];
  /** Files from which new credentials are read without a restart. */
  readonly files?: readonly string[];
}

export interface UnauthorizedCall {
  readonly method: string;
  /** Below the base URL of the protocol, as the harness sent it. */
  readonly path: string;
  readonly query: string;
  readonly headers: OutgoingHttpHeaders;
  readonly body: Uint8Array;
}

export interface AuthorizedCall {
  readonly url: URL;
  readonly headers: OutgoingHttpHeaders;
}

/** There are no credentials: they can't be had now (`code` undefined), or a person has to fix them. */
export class AccountError extends Error {
  override readonly name = 'AccountError';
  readonly code: FaultCode | undefined;

  constructor(message: string, code?: FaultCode) {
    super(message);
    this.code = code;
  }
}

export const keyRefused: FaultCode = 'PROVIDER_KEY_REFUSED';

/** How a harness speaks to a provider; also the first part of the path at the gateway. */
export type ProtocolName = 'anthropic' | 'bedrock' | 'vertex' | 'openai';

interface ProviderFacts {
  /** What errors call it. */
  readonly title: string;
  readonly protocol: ProtocolName;
  /** What the operator usually changes when it refuses the credentials. */
  readonly setting: string;
  /** Its models have the names of the customer. */
  readonly hasOwnNames?: true;
}

export const providerFacts: Readonly<Record<ModelProvider, ProviderFacts>> = {
  anthropic: { title: 'anthropic', protocol: 'anthropic', setting: 'ANTHROPIC_API_KEY' },
  bedrock: {
    title: 'Amazon Bedrock',
    protocol: 'bedrock',
    setting: 'the AWS credentials',
    hasOwnNames: true,
  },
  vertex: { title: 'Google Vertex', protocol: 'vertex', setting: 'the Google credentials' },
  openai: { title: 'openai', protocol: 'openai', setting: 'OPENAI_API_KEY' },
  azure: { title: 'Azure OpenAI', protocol: 'openai', setting: 'AZURE_OPENAI_API_KEY', hasOwnNames: true },
  chatgpt: { title: 'ChatGPT', protocol: 'openai', setting: 'MUSTER_CODEX_AUTH' },
};

/** Whether asking for credentials failed because a host could not be reached or failed itself. */
export function isTemporary(error: unknown): boolean {
  const { code, status, name, cause } = error as Partial<
    Record<'code' | 'status' | 'name' | 'cause', unknown>
  >;
  const isNetwork = typeof code === 'string' && networkCodes.test(code);
  const isServer = typeof status === 'number' && status >= 500;
  return isNetwork || isServer || name === 'TimeoutError' || (cause instanceof Error && isTemporary(cause));
}

const networkCodes = /^(ECONN|ENOTFOUND|EAI_|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|EPIPE|UND_ERR)/;

/** Runs one at a time: everyone who asks while it runs gets the same result. */
export class SingleFlight<T> {
  #flight: Promise<T> | undefined;

  run(work: () => Promise<T>): Promise<T> {
    this.#flight ??= work().finally(() => {
      this.#flight = undefined;
    });
    return this.#flight;
  }
}

import type { BodyOf, ErrorDetail, ErrorEnvelope, ReplyOf, Route, RouteName } from '../contract/index.ts';
import { routes } from '../contract/routes.ts';

/** Any reply that is not 2xx. */
export class MusterError extends Error {
  override readonly name: string = 'MusterError';
  readonly httpStatus: number;
  readonly code: number;
  readonly details: readonly ErrorDetail[];

  constructor(httpStatus: number, envelope: Partial<ErrorEnvelope>) {
    super(envelope.message ?? `HTTP ${httpStatus}`);
    this.httpStatus = httpStatus;
    this.code = envelope.code ?? 2;
    this.details = (envelope.details ?? []) as ErrorDetail[];
  }

  /** The `google.rpc.ErrorInfo` reason, where the service gave one. */
  get reason(): string | undefined {
    return this.details.find((d) => d['@type'].endsWith('ErrorInfo'))?.reason as string | undefined;
  }
}

export interface ClientOptions {
  readonly url: string;
  readonly apiKey: string;
  readonly fetch?: typeof fetch;
}

export interface CallOptions {
  readonly signal?: AbortSignal;
  readonly params?: Readonly<Record<string, string>>;
  readonly query?: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
}

/** A typed call of any route of the contract. */
export class MusterClient {
  readonly #options: ClientOptions;

  constructor(options: ClientOptions) {
    this.#options = options;
  }

  async call<N extends RouteName>(name: N, body: BodyOf<N>, options: CallOptions = {}): Promise<ReplyOf<N>> {
    const route: Route = routes[name];
    const path = route.path.replace(/\{([^}]+)\}/g, (_, p: string) =>
      encodeURIComponent(options.params?.[p] ?? ''),
    );
    const query = options.query ? `?${new URLSearchParams(options.query)}` : '';
    const response = await (this.#options.fetch ?? fetch)(`${this.#options.url}${path}${query}`, {
      method: route.method,
      headers: {
        authorization: `Bearer ${this.#options.apiKey}`,
        ...(route.body && { 'content-type': 'application/json' }),
        ...options.headers,
      },
      ...(route.body && { body: JSON.stringify(body ?? {}) }),
      ...(options.signal && { signal: options.signal }),
    });
    if (response.ok) return (await response.json()) as ReplyOf<N>;
    const envelope: unknown = await response.json().catch(() => ({}));
    throw new MusterError(response.status, envelope as Partial<ErrorEnvelope>);
  }
}

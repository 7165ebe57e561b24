import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http';
import type { NamedAccount } from '../accounts/provider-accounts.ts';
import type { MeasuredRequest } from './measured-request.ts';
import type { ProviderFailure } from './provider-errors.ts';
import { forwardedHeaders } from './upstream.ts';

export type RateLimit = Extract<ProviderFailure, { readonly type: 'limit' }>;
/** Why a request is sent again. */
export type Again = RateLimit | 'renewed' | 'switched';

/** A request of a harness, on its way to the provider. */
export interface Call {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** Another one when this one is paused for the request. */
  account: NamedAccount;
  /** Each account gets it once. */
  readonly asked: Set<string>;
  readonly path: string;
  readonly query: string;
  readonly isModelCall: boolean;
  body: Uint8Array<ArrayBuffer>;
  /** What the request asks for, to meter an answer that does not name it. */
  readonly model: string;
  readonly serviceTier: string | undefined;
  /** The account's credentials were renewed for this call. */
  isRenewed: boolean;
  /** It has no reasoning that a provider has encrypted. */
  isWithoutReasoning: boolean;
}

/** The provider has refused this request. Ends its record. */
export function isRepeated(
  again: Again | undefined,
  request: MeasuredRequest | undefined,
  status: number,
): boolean {
  request?.end(String(status), again !== 'renewed');
  return again !== undefined;
}

export const answerHeaders = (answer: IncomingMessage): OutgoingHttpHeaders =>
  forwardedHeaders(answer, (name) => name !== 'set-cookie');

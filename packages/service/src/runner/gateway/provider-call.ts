import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http';
import type { Reservation } from '../../harness/harness.ts';
import type { NamedAccount } from '../accounts/provider-accounts.ts';
import type { MeasuredRequest } from './measured-request.ts';
import type { ProviderFailure } from './provider-errors.ts';
import type { RequestSize } from './request-size.ts';
import { forwardedHeaders } from './upstream.ts';

export type RateLimit = Extract<ProviderFailure, { readonly type: 'limit' }>;
/** Why a request is sent again. */
export type Again = RateLimit | 'renewed' | 'switched';

/** A request of a harness, on its way to the provider. */
export interface Call extends RequestSize {
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
  /** The one that it asks for, and those that may answer in its place. */
  readonly model: string;
  readonly models: readonly string[];
  /** What it may cost; undefined for calls that cost nothing. */
  reservation?: Reservation;
  /** The account's credentials were renewed for this call. */
  isRenewed: boolean;
  /** It has no reasoning that a provider has encrypted. */
  isWithoutReasoning: boolean;
}

/** A call that is not yet checked, or has nothing to be checked. */
export const noBody = {
  ...{ body: new Uint8Array(), model: '', models: [], isWithoutReasoning: true },
  ...{ inputTokens: 0, outputLimit: 0, serviceTier: undefined, speed: undefined },
} as const;

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

import type { BodyOf, QueryOf, ReplyOf, RouteName, routes } from '@muster/sdk/contract';
import type { Principal } from './access/principal.ts';
import type { Refusal } from './refusal.ts';

/** The body of a request; of an upload, its query and the bytes. */
export type RequestOf<N extends RouteName> = (typeof routes)[N] extends { readonly upload: readonly string[] }
  ? QueryOf<N> & { readonly content: Buffer }
  : BodyOf<N>;

/** An operation of the API that needs nothing of HTTP but its request. */
export type Operation<N extends RouteName> = (
  caller: Principal,
  request: RequestOf<N>,
  /** Of the request: where it is in the trace of its sender. */
  traceparent?: string,
) => Promise<ReplyOf<N> | Refusal>;

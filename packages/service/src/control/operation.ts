import type { BodyOf, ReplyOf, RouteName } from '@muster/sdk/contract';
import type { Principal } from './access/principal.ts';
import type { Refusal } from './refusal.ts';

/** An operation of the API that needs nothing of HTTP but a body. */
export type Operation<N extends RouteName> = (
  caller: Principal,
  request: BodyOf<N>,
  /** Of the request: where it is in the trace of its sender. */
  traceparent?: string,
) => Promise<ReplyOf<N> | Refusal>;

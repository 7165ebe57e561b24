import type { FastifyInstance } from 'fastify';
import type { Control } from '../control/control.ts';
import type { Principal } from '../control/principal.ts';
import type { Log } from '../lib/log.ts';
import type { Acknowledged } from './acknowledged.ts';
import type { Metrics } from './metrics.ts';
import type { OpenReplies } from './open-replies.ts';
import type { RateLimit } from './rate-limit.ts';

declare module 'fastify' {
  interface FastifyRequest {
    caller: Principal;
    startedMs: number;
  }
}

export interface ServerOptions {
  readonly control: Control;
  readonly log: Log;
  readonly metrics: Metrics;
  /** Requests per second and key; 0 is no limit. */
  readonly rateLimit: number;
  /** How often a wait or a stream that has nothing to say sends a few bytes. */
  readonly keepAliveMs: number;
  readonly publicUrl: () => string;
  /** Aborted when the service begins to shut down. */
  readonly closing: AbortSignal;
}

export interface RouteContext extends ServerOptions {
  readonly app: FastifyInstance;
  readonly limiter: RateLimit;
  readonly acknowledged: Acknowledged;
  readonly openReplies: OpenReplies;
}

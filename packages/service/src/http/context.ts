import type { Installation } from '@muster/sdk/contract';
import type { FastifyInstance } from 'fastify';
import type { CodeHosts } from '../codehost/code-hosts.ts';
import type { Principal } from '../control/access/principal.ts';
import type { Control } from '../control/control.ts';
import type { Receiver } from '../deliveries/receive.ts';
import type { Metrics } from '../lib/metrics.ts';
import type { Span, SpanContext, Tracer } from '../lib/traces/tracer.ts';
import type { OtherWorkers } from '../lib/worker-channel.ts';
import type { Notifications } from '../notify/notifications.ts';
import type { SignIns } from '../sign-in/sign-ins.ts';
import type { Triggers } from '../trigger/triggers.ts';
import type { AcknowledgedBytes } from './acknowledged-bytes.ts';
import type { ErrorContext } from './errors.ts';
import type { OpenBodies, OpenReplies, RateLimit } from './key-limits.ts';

declare module 'fastify' {
  interface FastifyRequest {
    caller: Principal;
    startedMs: number;
    /** The pattern of its path. */
    route: string;
    /** Where it is in a trace: its own span, or that of its sender. */
    trace: SpanContext | undefined;
    span: Span | undefined;
    /** Which agent it is about, for the log. */
    about: { readonly agent: string; readonly run?: number } | undefined;
  }
}

export interface ServerOptions extends ErrorContext {
  readonly control: Control;
  readonly codeHosts: CodeHosts;
  readonly notifications: Notifications;
  readonly signIns: SignIns;
  readonly triggers: Triggers;
  readonly receiver: Receiver;
  readonly metrics: Metrics;
  /** Undefined where no traces are sent. */
  readonly tracer?: Tracer | undefined;
  /** Null when this process serves its port alone. */
  readonly workers: OtherWorkers | null;
  /** Requests per second and key; 0 disables the limit. */
  readonly rateLimit: number;
  /** Of requests from these addresses and ranges, `X-Forwarded-For` says where they come from. */
  readonly trustedProxies: readonly string[];
  /** How often an idle wait or stream sends a few bytes. */
  readonly keepAliveMs: number;
  readonly publicUrl: () => string;
  /** The commands that pages show. */
  readonly installation: Installation;
  /** Aborted when the service begins to shut down: requests should go elsewhere. */
  readonly draining: AbortSignal;
  /** Aborted later, when waits, streams and polls end. */
  readonly closing: AbortSignal;
}

export interface RouteContext extends ServerOptions {
  readonly app: FastifyInstance;
  readonly limiter: RateLimit;
  readonly acknowledgedBytes: AcknowledgedBytes;
  readonly openReplies: OpenReplies;
  readonly openBodies: OpenBodies;
}

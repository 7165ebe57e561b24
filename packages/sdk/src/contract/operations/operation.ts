import type { Schema } from '../schema.ts';

/**
 * What an operation needs permission for: `self` the caller, `person` a caller that is not a machine, `demand` a person or
 * a runner of the pool, `read`, `command` and `spawn` agents, `catalog-read` and `catalog-write` resources, `runner` the
 * runner protocol. `own-page` needs no key: only a page of the service itself may call it. `anyone` needs
 * none either: it is for programs, and of pages only the service's own may call it.
 */
export type Access =
  | 'self'
  | 'person'
  | 'demand'
  | 'read'
  | 'command'
  | 'spawn'
  | 'catalog-read'
  | 'catalog-write'
  | 'runner'
  | 'own-page'
  | 'anyone';

/** What the contract says of an operation, beside its method and path (`paths.ts`). */
export interface Operation {
  readonly summary: string;
  readonly access: Access;
  readonly body?: Schema;
  readonly query?: Schema;
  readonly headers?: Readonly<Record<string, Schema>>;
  readonly reply: Schema;
  /** The reply is a stream of Server-Sent Events; the data of each has the reply schema. */
  readonly stream?: true;
  /** The events of the stream that have other data. */
  readonly otherEvent?: { readonly name: string; readonly data: Schema; readonly about: string };
  /** The media types that the reply also has, for a request whose `Accept` names one. */
  readonly alsoAs?: readonly string[];
  /** The body is not JSON: it has one of these media types. */
  readonly upload?: readonly string[];
  /** The limit of the body, if it is not the usual one. */
  readonly bodyBytes?: number;
  /** A body that works once there is an agent `fix-login`. */
  readonly example?: unknown;
  /** Part of the first version of the API; the OpenAPI document marks all others with `x-addition`. */
  readonly isOriginal?: true;
}

/** Whether a request needs a key or a session. */
export const needsKey = ({ access }: Pick<Operation, 'access'>): boolean =>
  access !== 'own-page' && access !== 'anyone';

export type Operations = Readonly<Record<string, Operation>>;

/** The agent of the examples. */
export const agentId = { agent: ['fix-login'] } as const;

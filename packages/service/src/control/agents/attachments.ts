import { hash } from 'node:crypto';
import type { Readable } from 'node:stream';
import {
  type Attachment,
  type AttachmentContent,
  type BodyOf,
  imageTypeOf,
  imageTypes,
  isTerminal,
  limits,
} from '@muster/sdk/contract';
import type pg from 'pg';
import {
  exhausted,
  invalid,
  isRefusal,
  notFound,
  type Refusal,
  tenantClosed,
  unavailable,
} from '../../domain/refusal.ts';
import type { AgentKey } from '../../store/agent-store.ts';
import {
  type AttachmentRow,
  deliverAttachment,
  insertAttachment,
  readAttachment,
  readUndeliveredBytes,
  useAttachments,
} from '../../store/statements/attachments.ts';
import type { FoundRow } from '../../store/statements/find-agents.ts';
import type { Principal } from '../access/principal.ts';
import { FairShare, TenantTurns } from '../batches/tenant-limits.ts';
import type { RequestOf } from '../operation.ts';
import { readUpload, tooLarge } from '../read-upload.ts';
import type { HeldRuns } from '../runners/held-runs.ts';
import type { Quotas } from '../upkeep/quotas.ts';

/**
 * Images of messages and of tools. The id of one derives from its content, so an upload that is repeated has the same
 * result. One counts as delivered when the runner of a run that needs it has read it, or if a tool of a run returned it.
 */
export class Attachments {
  readonly #database: pg.Pool;
  readonly #runs: HeldRuns;
  readonly #bytes = new FairShare(limits.attachmentBytesInFlight);
  readonly #readTurns = new TenantTurns(2, 'attachments');
  /** One at a time, so that what a tenant has is not exceeded by many uploads at the same time. */
  readonly #writeTurns = new TenantTurns(1, 'attachments');

  readonly #quotas: Quotas;

  constructor(database: pg.Pool, runs: HeldRuns, quotas: Quotas) {
    this.#database = database;
    this.#runs = runs;
    this.#quotas = quotas;
  }

  /** `declared` is the length of the body, if it is known. */
  async upload(
    agent: FoundRow,
    type: string,
    declared: number | undefined,
    body: Readable,
  ): Promise<Attachment | Refusal> {
    if (isTerminal(agent.phase))
      return notFound(`the agent ${agent.path} is not running: it has ended (${agent.phase})`);
    const most = declared ?? limits.attachmentBytes;
    if (most > limits.attachmentBytes) return tooLarge(limits.attachmentBytes);
    if (!this.#bytes.take(agent.tenant, most))
      return unavailable('too many images arrive at the same time; send it again');
    try {
      const content = await readUpload(body, limits.attachmentBytes);
      if (isRefusal(content)) return content;
      const mediaType = imageTypeOf(content);
      if (!mediaType) return noImage;
      if (type !== '' && type !== mediaType)
        return invalid('Content-Type', `must be that of the body, ${mediaType}; got "${type.slice(0, 100)}"`);
      return await this.#writeTurns.run(agent.tenant, () => this.#store(agent, mediaType, content, false));
    } finally {
      this.#bytes.release(agent.tenant, most);
    }
  }

  async #store(
    { tenant, id: agent }: AgentKey,
    mediaType: Attachment['mediaType'],
    content: Buffer,
    isDelivered: boolean,
  ): Promise<Attachment | Refusal> {
    const id = hash('sha256', content, 'hex').slice(0, 32);
    const stored = { attachmentId: id, mediaType, bytes: content.length };
    if ((await useAttachments(this.#database, tenant, agent, [id], isDelivered)).length > 0) return stored;
    const [undelivered] = isDelivered ? [] : await readUndeliveredBytes(this.#database, tenant, agent);
    if (undelivered && undelivered.bytes + content.length > limits.undeliveredAttachmentBytes)
      return exhausted(
        `an agent has at most ${limits.undeliveredAttachmentBytes} bytes of attachments that no run has received yet`,
      );
    const full = await this.#quotas.refuseAgent('attachments', { tenant, id: agent }, content.length);
    if (full) return full;
    const key = [tenant, agent, id] as const;
    const image = [mediaType, content.length, content] as const;
    const inserted = await insertAttachment(this.#database, ...key, ...image, isDelivered);
    return inserted.length > 0 ? stored : tenantClosed();
  }

  /** The ids of a message, each once; or what is wrong with one. */
  async named({ tenant, id }: AgentKey, ids: readonly string[]): Promise<readonly string[] | Refusal> {
    const wanted = [...new Set(ids)];
    const found = new Set(
      (await useAttachments(this.#database, tenant, id, wanted, false)).map((row) => row.id),
    );
    const missing = wanted.findIndex((one) => !found.has(one));
    return missing < 0 ? wanted : invalid(`attachmentIds[${missing}]`, notFoundText(wanted[missing] ?? ''));
  }

  /** The caller may read the agent. */
  read({ tenant, id }: AgentKey, attachmentId = ''): Promise<AttachmentContent | Refusal> {
    return this.#readTurns.run(tenant, async () => {
      const [row] = await readAttachment(this.#database, tenant, id, attachmentId);
      return row ? contentOf(row) : notFound(notFoundText(attachmentId));
    });
  }

  /** For the runner that holds the agent's live run. */
  load(caller: Principal, body: BodyOf<'runnerAttachment'>): Promise<AttachmentContent | Refusal> {
    const { attachmentId } = body;
    return this.#runs.whileHeld(this.#readTurns, caller, body, async ([tenant, id]) => {
      const [row] = await deliverAttachment(this.#database, tenant, id, attachmentId);
      return row ? contentOf(row) : notFound(notFoundText(attachmentId));
    });
  }

  /** An image that a tool returned, from the runner that holds the agent's live run. */
  async save(caller: Principal, request: RequestOf<'runnerSaveAttachment'>): Promise<Attachment | Refusal> {
    const { content } = request;
    const mediaType = imageTypeOf(content);
    if (!mediaType) return noImage;
    return this.#runs.whileHeld(this.#writeTurns, caller, request, ([tenant, id]) =>
      this.#store({ tenant, id }, mediaType, content, true),
    );
  }
}

const notFoundText = (id: string): string => `attachment "${id}" not found`;

const noImage = invalid('body', `must be one of ${imageTypes.join(', ')}; got another file`);

const contentOf = ({
  id,
  media_type,
  bytes,
  content,
}: AttachmentRow & { content: Buffer }): AttachmentContent => ({
  attachmentId: id,
  mediaType: media_type,
  bytes,
  content: content.toString('base64'),
});

import type { Attachment } from '../contract/attachment.ts';
import type { ReplyOf } from '../contract/routes.ts';
import type { Caller, CallSettings } from './caller.ts';
import { type AgentRef, agentIdOf } from './values.ts';

/** Images that messages have. */
export class AttachmentClient {
  readonly #caller: Caller;

  constructor(caller: Caller) {
    this.#caller = caller;
  }

  /** Uploads an image for messages to this agent. The same image again has the same id. */
  upload(agent: AgentRef, image: Uint8Array | Blob, settings: CallSettings = {}): Promise<Attachment> {
    const { agent: path, workspace, ownerProvider, account, tenant } = agentIdOf(agent);
    const named = {
      agent: path?.join('/'),
      workspace,
      ownerProvider,
      account,
      'tenant.provider': tenant?.provider,
      'tenant.org': tenant?.org,
    };
    const query = Object.fromEntries(
      Object.entries(named).flatMap(([key, value]) => (value ? [[key, value]] : [])),
    );
    return this.#caller.call('uploadAttachment', undefined, settings, { query, upload: image });
  }

  read(agent: AgentRef, attachmentId: string, settings: CallSettings = {}): Promise<ReplyOf<'attachment'>> {
    return this.#caller.call('attachment', { agentId: agentIdOf(agent), attachmentId }, settings);
  }
}

import type { AuditEntry } from '../contract/audit.ts';
import type { BodyOf } from '../contract/routes.ts';
import { AttentionClient } from './attention.ts';
import { type Caller, type CallSettings, type Page, readPages } from './caller.ts';
import { timeText } from './inputs.ts';

export interface AuditInput extends Omit<BodyOf<'audit'>, 'from' | 'to'> {
  readonly from?: string | Date | undefined;
  readonly to?: string | Date | undefined;
}

/** Who may use the service, and who did what. */
export class AccessClient extends AttentionClient {
  readonly #caller: Caller;

  constructor(caller: Caller) {
    super(caller);
    this.#caller = caller;
  }

  /** One page of the audit, newest first. A page without entries may be followed by others. */
  audit({ from, to, ...request }: AuditInput = {}, settings: CallSettings = {}): Promise<Page<AuditEntry>> {
    return this.#caller.call('audit', { ...request, from: timeText(from), to: timeText(to) }, settings);
  }

  /** All records, page by page. */
  auditAll(input: AuditInput = {}, settings: CallSettings = {}): AsyncGenerator<AuditEntry, void, void> {
    return readPages(input.pageToken, (pageToken) => this.audit({ ...input, pageToken }, settings));
  }
}

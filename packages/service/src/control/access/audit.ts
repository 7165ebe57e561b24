import { createHash } from 'node:crypto';
import { type AuditAct, type AuditEntry, type AuditRequest, auditKinds, limits } from '@muster/sdk/contract';
import type pg from 'pg';
import { denied, invalid, isRefusal, type Refusal } from '../../domain/refusal.ts';
import {
  type AuditPlace,
  type AuditRow,
  type NewAuditRecord,
  placeAfter,
  placeBefore,
  readAuditPage,
  readWrittenDocuments,
} from '../../store/statements/audit.ts';
import type { PageTokens } from '../agents/page-tokens.ts';
import { encodePayload } from '../catalog/document.ts';
import type { Operation } from '../operation.ts';
import { isAdmin } from './permit.ts';
import { nameOf, type Principal } from './principal.ts';
import type { Tenants } from './tenants.ts';

const dayMs = 24 * 3_600_000;

export interface AuditOptions {
  readonly database: pg.Pool;
  readonly tenants: Tenants;
  readonly pageTokens: PageTokens;
}

/** A record of what the caller did, in the caller's tenant if no other is named. */
export const recordOf = (
  caller: Principal,
  record: AuditAct &
    Pick<NewAuditRecord, 'name' | 'justification' | 'details'> & { readonly tenant?: number },
): NewAuditRecord => ({
  tenant: caller.tenant.id,
  ...record,
  actor: nameOf(caller),
  keyId: caller.keyId,
});

/** Who did what in a tenant: the writes of its catalog, and what is in the table `audit`. */
export class Audit {
  readonly #options: AuditOptions;

  constructor(options: AuditOptions) {
    this.#options = options;
  }

  readonly audit: Operation<'audit'> = async (caller, request) => {
    if (!isAdmin(caller)) return denied('only an admin may read the audit');
    const { database, tenants, pageTokens } = this.#options;
    const { tenant: input, from, to, pageSize, pageToken, documents = false, kind = '' } = request;
    const tenant = await tenants.named(input, caller);
    if (isRefusal(tenant)) return tenant;
    const fromMs = boundedMs(from, Date.now() - limits.auditDays * dayMs);
    if (to !== undefined && boundedMs(to) <= fromMs)
      return invalid('to', `must be after \`from\`, ${timeOf(fromMs)}; got ${timeOf(boundedMs(to))}`);
    const list = listName(tenant, request);
    const place = this.#place(list, to, pageToken);
    if (isRefusal(place)) return place;
    const most = documents ? limits.auditDocuments : limits.pageSize;
    const limit = Math.min(pageSize || most, most);
    const isOther = (auditKinds as readonly string[]).includes(kind);
    const only = { writes: !isOther, others: kind === '' || isOther };
    const { entries, last } = await readAuditPage(
      database,
      tenant,
      timeOf(fromMs),
      place,
      filterOf(request),
      only,
      limit,
    );
    const shown = documents
      ? await withDocuments(database, tenant, entries)
      : entries.map((row) => entryOf(row));
    const end = shown.length < entries.length ? (entries[shown.length - 1] ?? null) : last;
    return {
      entries: shown,
      nextPageToken: end ? pageTokens.seal(list, JSON.stringify(placeAfter(end))) : '',
    };
  };

  #place(list: string, to: string | undefined, pageToken: string | undefined): AuditPlace | Refusal {
    if (!pageToken) return placeBefore(to === undefined ? 'infinity' : timeOf(boundedMs(to)));
    const opened = this.#options.pageTokens.open(list, pageToken);
    return isRefusal(opened) ? opened : (JSON.parse(opened) as AuditPlace);
  }
}

/** A page token is for the same request only. */
const listName = (tenant: number, request: AuditRequest): string => {
  const { pageToken: _, pageSize: __, tenant: ___, ...rest } = request;
  return `audit/${tenant}/${createHash('sha256').update(JSON.stringify(rest)).digest('hex')}`;
};

const timeOf = (ms: number): string => new Date(ms).toISOString();

/** What PostgreSQL can store. */
const boundedMs = (time: string | undefined, ifAbsent = 0): number =>
  time === undefined ? ifAbsent : Math.min(Math.max(Date.parse(time), 0), Date.UTC(9999, 0));

const filterOf = ({ actor, kind, name, action, text }: AuditRequest) => ({
  actor: actor || null,
  kind: kind || null,
  name: name || null,
  action: action || null,
  text: text?.toLowerCase() || null,
});

/** As many entries as fit in a page with their documents; at least one. */
async function withDocuments(
  database: pg.Pool,
  tenant: number,
  rows: readonly AuditRow[],
): Promise<AuditEntry[]> {
  const entries: AuditEntry[] = [];
  let bytes = 0;
  for (const row of rows) {
    const { kind, name, generation } = row;
    const found = generation > 0 ? await readWrittenDocuments(database, tenant, kind, name, generation) : [];
    const payloadOf = (wanted: number): string => {
      const document = found.find((one) => one.generation === wanted)?.document;
      return document ? encodePayload(document) : '';
    };
    const documents = { payload: payloadOf(generation), previousPayload: payloadOf(generation - 1) };
    bytes += documents.payload.length + documents.previousPayload.length;
    if (entries.length > 0 && bytes > limits.catalogPageBytes) break;
    entries.push(entryOf(row, documents));
  }
  return entries;
}

const entryOf = (
  { key_id: keyId, update_mask: updateMask, generation, id: _, is_last: __, ...row }: AuditRow,
  documents = { payload: '', previousPayload: '' },
): AuditEntry => ({
  ...row,
  keyId,
  generation: generation > 0 ? String(generation) : '',
  updateMask,
  ...documents,
});

import type { FieldWarning, Tenant } from '@muster/sdk/contract';
import type pg from 'pg';
import type { Refusal } from '../../../domain/refusal.ts';
import type { ServiceSecrets } from '../../../lib/service-secret.ts';
import type { KeyParts } from '../../../lib/token.ts';
import type { Violation } from '../../../lib/validator.ts';
import type { LockedResource } from '../../../store/statements/resources.ts';
import type { SealedRow } from '../../../store/statements/secrets.ts';
import type { Principal } from '../../access/principal.ts';
import type { CheckedWrite } from '../check-write.ts';
import type { Document } from '../document.ts';

/** What a kind does beyond storing its document. Each part is optional. */
export interface KindRules {
  /** What is wrong with a document that fits its schema. */
  readonly check?: (document: Document) => Violation | null;
  /** What is accepted but can't have the meant effect. */
  readonly warnings?: (document: Document) => FieldWarning[];
  /** Fills in what the caller left out. */
  readonly complete?: (
    caller: Principal,
    tenant: Tenant,
    document: Document,
    stored: Document | null,
  ) => Document | Refusal;
  /** Whether the caller may replace or delete the stored document. Without it, a member may write what it created. */
  readonly refuse?: (caller: Principal, tenant: Tenant, stored: Document) => Refusal | null;
  /** Whether the caller may create it, if that depends on what is stored. */
  readonly refuseNew?: (
    connection: pg.PoolClient,
    tenant: number,
    caller: Principal,
    row: LockedResource,
  ) => Promise<Refusal | null>;
  /** Writes what belongs to the document, in its transaction. */
  readonly onWrite?: (transaction: WriteTransaction, document: Document) => Promise<Saved | Refusal>;
  readonly onDelete?: (connection: pg.PoolClient, tenant: number, row: LockedResource) => Promise<void>;
  /** The document as a reader gets it. */
  readonly onRead?: (document: Document, publicUrl: string) => Document;
  /** What readers see beside these documents, by name. */
  readonly state?: (
    database: pg.Pool,
    tenant: number,
    documents: ReadonlyMap<string, Document>,
  ) => Promise<ReadonlyMap<string, Document>>;
  /** Of records that have their own table, and no generations. */
  readonly records?: KindRecords;
  /** The write of an operator creates the tenant. */
  readonly createsTenant?: true;
}

export interface WriteTransaction {
  readonly connection: pg.PoolClient;
  readonly tenant: number;
  readonly write: CheckedWrite;
  /** As it was before. */
  readonly row: LockedResource;
  readonly secrets: ServiceSecrets;
  readonly publicUrl: () => string;
  /** Used instead of a generated one; only the first start sets it. */
  readonly givenKey: KeyParts | undefined;
}

export interface Saved {
  /** With the fields that the service sets. */
  readonly document: Document;
  /** A secret, for this reply only. */
  readonly revealed?: Document;
  /** What is stored beside the document. */
  readonly kept?: SealedRow;
}

export interface KindRecords {
  readonly read: (
    database: pg.Pool,
    tenant: number,
    tenantName: Tenant,
    name: string,
  ) => Promise<Document | undefined>;
  readonly list: (
    database: pg.Pool,
    tenant: number,
    tenantName: Tenant,
    after: string,
    count: number,
  ) => Promise<{ readonly name: string; readonly document: Document }[]>;
}

export const nothingKept: SealedRow = { nonce: null, sealed: null, secret_id: null };

import type { SealedRow } from '../../../store/statements/secrets.ts';
import type { Document } from '../document.ts';
import { keepEarlier } from '../earlier-values.ts';
import { sealValue } from '../sealed-values.ts';
import { type KindRules, nothingKept, type WriteTransaction } from './rules.ts';

export const secretRules: KindRules = {
  onWrite: async (transaction, document) => {
    const { connection, tenant, row } = transaction;
    const { fingerprint, kept } = sealedValue(transaction);
    await keepEarlier(connection, tenant, row, kept.sealed);
    return { document: { ...document, ...fingerprint }, kept };
  },
  onDelete: (connection, tenant, row) => keepEarlier(connection, tenant, row, null),
};

/** A write without a value keeps the stored one, so that a document can be read, changed and written back. */
function sealedValue({ secrets, write, row }: WriteTransaction): {
  readonly fingerprint: Document;
  readonly kept: SealedRow;
} {
  const { sealed, secret_id } = row;
  if (write.value === null) return { fingerprint: {}, kept: nothingKept };
  if (write.value === undefined) {
    const fingerprint = sealed ? { fingerprint: row.document?.fingerprint } : {};
    return { fingerprint, kept: { ...nothingKept, sealed, secret_id } };
  }
  const stored = sealed && secret_id ? { sealed, secretId: secret_id } : null;
  const fresh = sealValue(secrets, write, write.value, stored);
  return {
    fingerprint: { fingerprint: fresh.fingerprint },
    kept: { ...nothingKept, sealed: fresh.sealed, secret_id: fresh.secretId },
  };
}

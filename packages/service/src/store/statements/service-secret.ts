import { statement } from '../connection.ts';

type Recorded = { fingerprint: string };

/** The fingerprint of the service secret with which the last node started. */
export const readSecretFingerprint = statement<[], Recorded>(
  'read-secret-fingerprint',
  'SELECT fingerprint FROM service_secret',
);

/** Records this one instead of none or of one of these. No row: another one is recorded. */
export const recordSecretFingerprint = statement<[fingerprint: string, instead: readonly string[]], Recorded>(
  'record-secret-fingerprint',
  `INSERT INTO service_secret AS s (fingerprint) VALUES ($1)
   ON CONFLICT (only_row) DO UPDATE SET fingerprint = $1 WHERE s.fingerprint = ANY ($2::text[] || $1)
   RETURNING fingerprint`,
);

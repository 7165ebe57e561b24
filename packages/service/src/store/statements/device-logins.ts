import { limits, type Provider } from '@muster/sdk/contract';
import { statement } from '../connection.ts';

const isPending = "state = 'PENDING' AND expires_at > now()";

/** No row: too many wait for an approval, of this address or in all. */
export const insertLogin = statement<
  [hash: Buffer, userCode: string, address: string, client: string],
  { expires_at: string }
>(
  'insert-device-login',
  `INSERT INTO device_logins (hash, user_code, address, client, created_at, expires_at, polled_at, pause, state)
   SELECT $1, $2, $3, $4, now(), now() + make_interval(mins => ${limits.loginMinutes}), now(), ${limits.loginPollSeconds}, 'PENDING'
   WHERE (SELECT count(*) FROM device_logins WHERE address = $3 AND ${isPending}) < ${limits.pendingLoginsPerAddress}
     AND (SELECT count(*) FROM device_logins WHERE ${isPending}) < ${limits.pendingLogins}
   RETURNING expires_at`,
);

interface PolledRow {
  state: 'PENDING' | 'APPROVED' | 'DENIED';
  /** It polled before its pause was over. */
  is_early: boolean;
  pause: number;
}

/** Half a second of a pause is forgiven: a network may deliver one poll later and the next one earlier. */
export const pollLogin = statement<[hash: Buffer], PolledRow>(
  'poll-device-login',
  `UPDATE device_logins d
   SET polled_at = now(), pause = CASE WHEN f.is_early THEN least(d.pause + 5, 60) ELSE d.pause END
   FROM (
     SELECT hash, polled_at > now() - make_interval(secs => pause - 0.5) AS is_early
     FROM device_logins WHERE hash = $1 AND expires_at > now() FOR UPDATE
   ) f WHERE d.hash = f.hash
   RETURNING d.state, f.is_early, d.pause`,
);

interface PendingLoginRow {
  client: string;
  address: string;
  created_at: string;
  expires_at: string;
}

export const findLogin = statement<[userCode: string], PendingLoginRow>(
  'find-device-login',
  `SELECT client, address, created_at, expires_at FROM device_logins WHERE user_code = $1 AND ${isPending}`,
);

/** Of several that answer the same code, one gets a row. */
export const answerLogin = statement<
  [userCode: string, state: 'APPROVED' | 'DENIED', tenant: number, keyId: string, newKeyId: string],
  { hash: Buffer }
>(
  'answer-device-login',
  `UPDATE device_logins SET state = $2, tenant = $3, key_id = $4, new_key_id = $5
   WHERE user_code = $1 AND ${isPending} RETURNING hash`,
);

interface ApprovedRow {
  tenant: number;
  key_id: string;
  new_key_id: string;
  client: string;
}

/** A code gets one key. */
export const takeApproved = statement<[hash: Buffer], ApprovedRow>(
  'take-approved-login',
  `DELETE FROM device_logins WHERE hash = $1 AND state = 'APPROVED' AND expires_at > now()
   RETURNING tenant, key_id, new_key_id, client`,
);

/**
 * Counts that an account enters a code, before it is looked up: so no number of requests at the same time gets more than
 * the limit. Returns how many it has entered in this time.
 */
export const countCode = statement<
  [tenant: number, ownerProvider: Provider, account: string],
  { count: number }
>(
  'count-login-code',
  `INSERT INTO wrong_codes AS w (tenant, owner_provider, account, since, count) VALUES ($1, $2, $3, now(), 1)
   ON CONFLICT (tenant, owner_provider, account) DO UPDATE
   SET since = CASE WHEN w.since < now() - interval '10 minutes' THEN now() ELSE w.since END,
     count = CASE WHEN w.since < now() - interval '10 minutes' THEN 1 ELSE w.count + 1 END
   RETURNING count`,
);

/** The code was right. */
export const uncountCode = statement<[tenant: number, ownerProvider: Provider, account: string], never>(
  'uncount-login-code',
  'UPDATE wrong_codes SET count = count - 1 WHERE tenant = $1 AND owner_provider = $2 AND account = $3 AND count > 0',
);

export const deleteOldLogins = statement<[], never>(
  'delete-old-device-logins',
  `WITH codes AS (DELETE FROM wrong_codes WHERE since < now() - interval '10 minutes')
   DELETE FROM device_logins WHERE expires_at < now()`,
);

export class InvariantError extends Error {
  override readonly name = 'InvariantError';
}

/** The message of anything that was thrown. */
export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** Names of errors of an unavailable database: the same request may succeed in a moment. */
const unavailableNames = new Set(['CommitUnknownError', 'AgentLockedError']);
/**
 * PostgreSQL's codes for: no connection (08), a server that is read-only during a failover (25006), a refused login
 * (28), a missing database (3D000), no disk, memory or connections left (53), a restart (57P), an error of the operating
 * system (58). The rest are the operating system's own.
 */
const unavailableCodes =
  /^(08|25006|28|3D000|53|57P|58|ECONN|EPIPE|ENOENT|ENOTFOUND|EAI_AGAIN|EHOST|ENET|ETIMEDOUT|EADDRNOTAVAIL|EMFILE)/;
/** What the driver says about a connection that is lost, silent or closed. */
const unavailableMessages = /connection|terminat|timeout|not queryable|end on the pool/i;

/** PostgreSQL has ended the session, or did not begin it, for whatever reason. */
const isSessionLost = (severity: string): boolean => severity === 'FATAL' || severity === 'PANIC';

export function isUnavailable(error: unknown): boolean {
  const {
    code = '',
    name = '',
    message = '',
    severity = '',
  } = error as { code?: string; name?: string; message?: string; severity?: string };
  return (
    unavailableNames.has(name) ||
    isSessionLost(severity) ||
    unavailableCodes.test(code) ||
    unavailableMessages.test(message) ||
    isRolledBack(error)
  );
}

/**
 * PostgreSQL has undone the transaction, and the next try can succeed: after a deadlock or another conflict (40), or on
 * another connection, without its outdated plan or lost prepared statement (26000).
 */
export function isRolledBack(error: unknown): boolean {
  const { code = '', message = '' } = error as { code?: string; message?: string };
  return /^(40|26000)/.test(code) || message.startsWith('cached plan must not change');
}

/** PostgreSQL ended the statement because it took too long. */
export const isTimeout = (error: unknown): boolean => (error as { code?: string }).code === '57014';

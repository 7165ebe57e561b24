import { expect, test } from 'vitest';
import { DatabaseDisk } from '../lib/disk-space.ts';
import { openLog } from '../lib/log.ts';
import { CommitUnknownError } from '../store/agent-store.ts';
import { httpErrorOf } from './errors.ts';

const context = () => ({ log: openLog('silent'), databaseDisk: new DatabaseDisk(null) });
const failure = (code: string) => Object.assign(new Error('a statement failed'), { code });

function expectUnavailable(error: Error): void {
  const { status, message, headers } = httpErrorOf(error, context());
  expect(status).toBe('UNAVAILABLE');
  expect(message).toMatch(/^the database is unavailable.*incident/);
  expect(headers).toEqual({ 'retry-after': '1' });
}

test.each([
  ['08006', 'connection_failure'],
  ['08P01', 'protocol_violation, as PgBouncer calls a lost server'],
  ['25006', 'read_only_sql_transaction'],
  ['26000', 'invalid_sql_statement_name'],
  ['28P01', 'invalid_password'],
  ['3D000', 'invalid_catalog_name'],
  ['40001', 'serialization_failure, also a conflict with recovery on a standby'],
  ['40P01', 'deadlock_detected'],
  ['53200', 'out_of_memory'],
  ['53300', 'too_many_connections'],
  ['53400', 'configuration_limit_exceeded'],
  ['57P01', 'admin_shutdown'],
  ['57P02', 'crash_shutdown'],
  ['57P03', 'cannot_connect_now'],
  ['58030', 'io_error'],
  ['58P01', 'undefined_file'],
  ['ECONNREFUSED', 'connection refused'],
  ['ECONNRESET', 'connection reset'],
  ['EPIPE', 'connection closed'],
  ['ENOENT', 'no socket'],
  ['ENOTFOUND', 'unknown host name'],
  ['EAI_AGAIN', 'no name server'],
  ['EHOSTDOWN', 'host down'],
  ['ENETUNREACH', 'network unreachable'],
  ['EMFILE', 'too many open files'],
])('database error %s (%s) becomes UNAVAILABLE with a retry-after header', (code) =>
  expectUnavailable(failure(code)),
);

test.each([
  'Connection terminated unexpectedly',
  'Connection terminated due to connection timeout',
  'timeout expired',
  'timeout exceeded when trying to connect',
  'Query read timeout',
  'Client has encountered a connection error and is not queryable',
  'Client was closed and is not queryable',
  'Cannot use a pool after calling end on the pool',
  'cached plan must not change result type',
  'terminating connection due to idle-in-transaction timeout',
  'canceling statement due to lock timeout',
])('"%s" becomes UNAVAILABLE with a retry-after header', (message) => expectUnavailable(new Error(message)));

test('a statement that takes too long is not an outage', () => {
  const { status, message } = httpErrorOf(failure('57014'), context());
  expect(status).toBe('UNAVAILABLE');
  expect(message).toMatch(/^the database took too long for this request; ask for less.*incident/);
});

test.each(['0A000', '22P02', '23505', '25P02', '42703', 'P0001', 'XX000'])(
  'database error %s becomes INTERNAL',
  (code) => {
    expect(httpErrorOf(failure(code), context()).status).toBe('INTERNAL');
  },
);

test.each(['FATAL', 'PANIC'])(
  'what ends a session or keeps it from beginning (%s) is UNAVAILABLE',
  (severity) =>
    expectUnavailable(Object.assign(new Error('the relation cache is broken'), { code: 'XX000', severity })),
);

test('a full disk of the database is named, and counts for a while', () => {
  const full = failure('53100');
  const message = 'could not write init file: No space left on device';
  const refused = Object.assign(new Error(message), { code: 'XX000' });
  for (const error of [full, refused, new CommitUnknownError('the connection broke', { cause: full })]) {
    const used = context();
    const { status, message } = httpErrorOf(error, used);
    expect(status).toBe('UNAVAILABLE');
    expect(message).toMatch(/^the disk of the database is full.*incident/);
    expect(used.databaseDisk.problem()).toMatch(/^the disk of the database is full/);
  }
});

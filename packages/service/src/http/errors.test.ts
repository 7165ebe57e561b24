import { expect, test } from 'vitest';
import { openLog } from '../lib/log.ts';
import { httpErrorOf } from './errors.ts';

const log = openLog('silent');
const failure = (code: string) => Object.assign(new Error('a statement failed'), { code });

test.each([
  ['25006', 'read_only_sql_transaction'],
  ['28P01', 'invalid_password'],
  ['3D000', 'invalid_catalog_name'],
  ['53100', 'disk_full'],
  ['53200', 'out_of_memory'],
  ['53300', 'too_many_connections'],
  ['53400', 'configuration_limit_exceeded'],
  ['57P01', 'admin_shutdown'],
  ['57P03', 'cannot_connect_now'],
  ['58030', 'io_error'],
  ['ECONNREFUSED', 'connection refused'],
  ['ENOTFOUND', 'unknown host name'],
])('database error %s (%s) becomes UNAVAILABLE with a retry-after header', (code) => {
  const { status, message, headers } = httpErrorOf(failure(code), log);
  expect(status).toBe('UNAVAILABLE');
  expect(message).toMatch(/^the database is unavailable.*incident/);
  expect(headers).toEqual({ 'retry-after': '1' });
});

test('a statement that takes too long is not an outage', () => {
  const { status, message } = httpErrorOf(failure('57014'), log);
  expect(status).toBe('UNAVAILABLE');
  expect(message).toMatch(/^the database took too long for this request; ask for less.*incident/);
});

test.each(['23505', '22P02', '42703', 'P0001'])('database error %s becomes INTERNAL', (code) => {
  expect(httpErrorOf(failure(code), log).status).toBe('INTERNAL');
});

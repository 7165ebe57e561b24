import type { AuditRecord } from '@muster/sdk';
import { expect, test } from 'vitest';
import {
  activityUrl,
  activityViewOf,
  detailsText,
  isFiltering,
  placeOf,
  sinceOf,
  subjectOf,
} from './activity.ts';

const record = (fields: Partial<AuditRecord>): AuditRecord => ({
  ...{
    at: '2026-01-01T00:00:00.000Z',
    actor: 'codehost_oauth/ada',
    keyId: 'k',
    kind: 'persona',
    name: 'reviewer',
  },
  ...{ action: 'WRITE', justification: '', details: {}, generation: '1', updateMask: '' },
  ...{ document: null, previousDocument: null },
  ...fields,
});
const tenant = { provider: 'PROVIDER_CODEHOST_APP', org: 'acme' } as const;

test('the filter is in the URL, and unknown values are ignored', () => {
  const url = '/activity?q=two+words&actor=idp_oidc%2Fada&kind=key&name=n&period=7d';
  const view = activityViewOf(url.slice(url.indexOf('?')));
  expect(view).toEqual({ text: 'two words', actor: 'idp_oidc/ada', kind: 'key', name: 'n', period: '7d' });
  expect(activityUrl(view)).toBe(url);
  expect(isFiltering(view)).toBe(true);
  const plain = activityViewOf('?kind=nothing&period=ever');
  expect([activityUrl(plain), isFiltering(plain)]).toEqual(['/activity', false]);
});

test('a period ends now', () => {
  expect(sinceOf('7d', Date.UTC(2026, 0, 8))).toEqual(new Date(Date.UTC(2026, 0, 1)));
  expect(sinceOf('all', 0)).toBeUndefined();
});

test('resources, agents and runners have a page', () => {
  expect(placeOf(record({}), tenant)).toBe('/catalog/persona/reviewer');
  expect(placeOf(record({ kind: 'runner', name: 'r1' }), tenant)).toBe('/runners');
  const details = { account: 'idp_oidc/bo', workspace: 'web', agent: 'id' };
  const killed = record({ kind: 'agent', name: 'fix/tests', details });
  expect(placeOf(killed, tenant)).toBe('/agents/codehost_app/acme/idp_oidc/bo/web/fix/tests');
  expect(placeOf(record({ kind: 'session', name: 'x' }), tenant)).toBeUndefined();
  expect(placeOf(record({ kind: 'agent', details: { account: 'odd' } }), tenant)).toBeUndefined();
  expect([subjectOf(record({})), subjectOf(killed)]).toEqual(['persona reviewer', 'fix/tests']);
  expect(detailsText(killed)).toBe('account idp_oidc/bo, workspace web');
  expect(detailsText(record({ details: { userAgent: 'curl/8', code: '' } }))).toBe('user agent curl/8');
  const userAgent = 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0';
  expect(detailsText(record({ details: { userAgent } }))).toBe('Firefox on Linux');
});

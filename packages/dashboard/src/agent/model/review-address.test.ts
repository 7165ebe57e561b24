import { type AgentId, agentOfPage, agentPage } from '@muster/sdk/contract';
import { expect, test } from 'vitest';
import { reviewedPage, reviewOfPage } from './review-address.ts';

const idOf = (...agent: string[]): AgentId => ({
  tenant: { provider: 'PROVIDER_CODEHOST_APP', org: 'local' },
  ownerProvider: 'PROVIDER_CODEHOST_OAUTH',
  account: 'ada',
  workspace: 'shop',
  agent,
});

test('the review of an agent is below its page', () => {
  const page = agentPage(idOf('fix', 'login'));
  expect(reviewedPage(reviewOfPage(page))).toBe(page);
  expect(reviewedPage(page)).toBeUndefined();
  expect(reviewedPage('/catalog/review')).toBeUndefined();
});

test('an agent named review is not the review of its parent, and has one itself', () => {
  for (const id of [idOf('review'), idOf('fix', 'review'), idOf('review', 'review')]) {
    const page = agentPage(id);
    expect(agentOfPage(page)).toEqual(id);
    expect(reviewedPage(page)).toBeUndefined();
    expect(reviewedPage(reviewOfPage(page))).toBe(page);
  }
});

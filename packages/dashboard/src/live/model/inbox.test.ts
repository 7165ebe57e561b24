import type { AgentEntry, Caller } from '@muster/sdk';
import type { PhaseReason } from '@muster/sdk/contract';
import { describe, expect, test } from 'vitest';
import { agentEntry, secondsAgo } from '../../../../../test/support/samples.ts';
import { type InboxItem, inboxItems, inboxTitle, keepingCurrent, stepFrom } from './inbox.ts';

const caller = { role: 'member', ...agentEntry('a')[1].agentId } as unknown as Caller;
const admin: Caller = { ...caller, role: 'admin', account: 'somebody' };

const agent = (path: string, phaseReason: PhaseReason, more: Partial<AgentEntry> = {}) =>
  agentEntry(path, { phaseReason, sequence: '5', seen: '0', ...more });
const texts = (items: readonly InboxItem[]) =>
  items.map(({ page, section }) => `${section} ${page.slice(page.lastIndexOf('/') + 1)}`);
const item = (page: string, section: InboxItem['section'] = 'question'): InboxItem => ({ page, section });
const pages = (items: readonly InboxItem[]) => items.map(({ page }) => page).join('');

describe('the inbox', () => {
  test('has what needs the person by urgency, the longest waiting first, and last what the person has seen', () => {
    const fleet = [
      agent('done', 'FINISHED'),
      agent('build/web', 'FINISHED'),
      agent('works', 'WORKING'),
      agent('asks-later', 'QUESTION', { phaseSince: secondsAgo(10) }),
      agent('asks', 'QUESTION', { phaseSince: secondsAgo(20) }),
      agent('broken', 'ERROR'),
      agent('broken-seen', 'ERROR', { seen: '5' }),
      agent('asked-seen', 'QUESTION', { seen: '5' }),
      agent('done-seen', 'FINISHED', { seen: '5' }),
      agent('killed', 'KILLED'),
      agent('build/css', 'TASKS_UNFINISHED'),
    ];
    const mine = [
      ...['question asks', 'question asks-later', 'failed broken', 'unfinished css'],
      ...['finished done', 'seen asked-seen'],
    ];
    expect(texts(inboxItems(fleet, caller).mine)).toEqual(mine);
    expect(texts(inboxItems(fleet, caller).everyone)).toEqual(mine);
    expect(texts(inboxItems(fleet, admin).everyone)).toEqual(mine);
    expect(inboxItems(fleet, admin).mine).toEqual([]);
    expect(inboxItems(fleet, { ...caller, account: 'other' }).everyone).toEqual([]);
    expect(inboxItems(fleet, { ...caller, role: 'viewer' }).everyone).toEqual([]);
    expect(inboxTitle('seen')).toBe('Seen, still open');
  });

  test('keeps the place of the agent that is shown', () => {
    const before = [item('a'), item('b'), item('c'), item('d', 'failed')];
    expect(pages(keepingCurrent([item('a'), item('c'), item('d', 'failed')], before, 'b'))).toBe('abcd');
    expect(pages(keepingCurrent([item('x'), item('d', 'failed')], before, 'c'))).toBe('cxd');
    expect(pages(keepingCurrent([item('x', 'finished')], before, 'd'))).toBe('dx');
    expect(pages(keepingCurrent(before, before, 'b'))).toBe('abcd');
    expect(pages(keepingCurrent([item('a')], before, 'unknown'))).toBe('a');
    expect(pages(keepingCurrent([item('a')], before, null))).toBe('a');
  });

  test('goes on around the end, and nowhere from the last one', () => {
    const items = [item('a'), item('b'), item('c')];
    expect(stepFrom(items, 'a', 1)).toBe('b');
    expect(stepFrom(items, 'c', 1)).toBe('a');
    expect(stepFrom(items, 'a', -1)).toBe('c');
    expect(stepFrom(items, null, 1)).toBe('a');
    expect(stepFrom(items, 'other', -1)).toBe('c');
    expect(stepFrom([item('a')], 'a', 1)).toBe(null);
    expect(stepFrom([], null, -1)).toBe(null);
  });
});

import type { FollowUp } from '@muster/sdk/contract';
import { expect, it } from 'vitest';
import { hasSettings, movedTo, queuedIds, replacing } from './queue.ts';

it('moves a message to another place, and nothing where it is already or can’t be', () => {
  const ids = ['a', 'b', 'c'];
  expect(movedTo(ids, 'c', 0)).toEqual(['c', 'a', 'b']);
  expect(movedTo(ids, 'a', 1)).toEqual(['b', 'a', 'c']);
  expect(movedTo(ids, 'a', 2)).toEqual(['b', 'c', 'a']);
  for (const [id, place] of [
    ['b', 1],
    ['a', -1],
    ['c', 3],
    ['x', 0],
  ] as const)
    expect(movedTo(ids, id, place)).toBeNull();
});

it('only queued messages have an order', () => {
  expect(
    queuedIds([
      { followUpId: 'now', state: 'QUEUED' },
      { followUpId: 'later', state: 'DEFERRED' },
    ]),
  ).toEqual(['now']);
});

const plain: FollowUp = {
  ...{ followUpId: 'm', state: 'QUEUED', description: 'old', deliverAt: null, queuedAt: '' },
  ...{ agent: '', model: '', reasoningEffort: '', serviceTier: '', fastMode: null, outputSchema: '' },
  ...{ attachmentIds: [], steer: false, tasks: [], run: null, answered: false, answer: '' },
};

it('a message is replaced by itself with the change: its settings, images, time and tasks stay', () => {
  expect(replacing(plain, { description: 'new' })).toEqual({
    followUpId: 'm',
    replace: true,
    description: 'new',
  });
  const task = {
    ...{
      id: 't',
      subject: 's',
      description: '',
      status: 'TASK_STATUS_PENDING' as const,
      blocks: [],
      blockedBy: [],
    },
    ...{ activation: null, persona: '', dedupKey: '', ephemeral: true },
  };
  const whole: FollowUp = {
    ...plain,
    ...{ agent: 'planner', model: 'opus', fastMode: false, attachmentIds: ['i'], steer: true },
    ...{ deliverAt: '2030-01-01T00:00:00Z', tasks: [{ ...task, blocks: [], blockedBy: [] }] },
  };
  const { activation: _, ...sent } = task;
  expect(replacing(whole, { description: 'new' })).toMatchObject({
    ...{ persona: 'planner', model: 'opus', fastMode: false, attachmentIds: ['i'], steer: true },
    ...{ deliverAt: '2030-01-01T00:00:00Z', tasks: [sent] },
  });
  expect(replacing(whole, { deliverAt: undefined }).deliverAt).toBeUndefined();
});

it('a setting can’t be added to a running turn', () => {
  expect(hasSettings(plain)).toBe(false);
  expect(hasSettings({ ...plain, model: 'opus' })).toBe(true);
  expect(hasSettings({ ...plain, fastMode: false })).toBe(true);
});

import { type AgentStatus, errorOf } from '@muster/sdk';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import {
  deliveryText,
  emptyDraft,
  isSendable,
  isTooLate,
  localMinute,
  messageDrafts,
  messageOf,
  messageProblems,
  quickTimes,
  sentText,
  withText,
} from './message-draft.ts';

describe('a draft', () => {
  it('becomes a request without the empty fields', () => {
    const draft = { ...emptyDraft, text: ' Go on. \n' };
    expect(messageOf({ ...draft, isAfterTurn: true })).toEqual({ description: 'Go on.' });
  });

  it('is added to a running turn, unless it has a time or a setting or interrupts the turn', () => {
    const draft = { ...emptyDraft, text: 'Go on.', tasks: 'one' };
    const running = { phase: 'PHASE_RUNNING', run: { state: 'RUNNING' } } as AgentStatus;
    expect(messageOf(draft).steer).toBe(true);
    expect([deliveryText(running, draft), sentText(running, draft)]).toEqual([
      'Will be added to this turn.',
      'Sent.',
    ]);
    for (const other of [
      { isAfterTurn: true },
      { model: 'opus' },
      { persona: 'planner' },
      { fastMode: 'on' },
      { outputSchema: '{}' },
    ] as const) {
      const changed = { ...draft, ...other };
      expect(messageOf(changed).steer).toBeUndefined();
      expect(deliveryText(running, changed)).toBe('Queued until this turn ends.');
      expect(sentText(running, changed)).toBe('Queued.');
    }
    const stopping = { phase: 'PHASE_RUNNING', run: { state: 'STOPPING' } } as AgentStatus;
    expect(deliveryText(stopping, draft)).toBe('Queued until this turn ends.');
  });

  it('sends and names every option that is set', () => {
    const draft = {
      ...emptyDraft,
      persona: 'planner',
      model: ' opus ',
      reasoningEffort: 'high',
      serviceTier: 'flex',
      fastMode: 'off',
      outputSchema: ' {} ',
      tasks: 'one\n\n  two  \n',
      isPreempting: true,
    } as const;
    expect(messageOf(draft)).toEqual({
      description: '',
      persona: 'planner',
      model: 'opus',
      reasoningEffort: 'high',
      serviceTier: 'flex',
      fastMode: false,
      outputSchema: '{}',
      tasks: [{ subject: 'one' }, { subject: 'two' }],
      preempt: true,
    });
  });

  it('reads the delivery time as local time', () => {
    const { deliverAt } = messageOf({ ...emptyDraft, text: 'later', deliverAt: '2030-01-02T09:30' });
    expect(deliverAt).toBe(new Date(2030, 0, 2, 9, 30).toISOString());
  });

  it('is sendable with a text, a task or a setting, not with delivery options alone', () => {
    expect(isSendable({ ...emptyDraft, text: '  ' })).toBe(false);
    expect(isSendable({ ...emptyDraft, isPreempting: true, deliverAt: '2030-01-02T09:30' })).toBe(false);
    expect(isSendable({ ...emptyDraft, tasks: 'look around' })).toBe(true);
    expect(isSendable({ ...emptyDraft, fastMode: 'off' })).toBe(true);
  });
});

describe('delivery times', () => {
  const now = new Date(2030, 11, 31, 23, 55, 20);
  const chosen = (label: string): string => {
    const [, timeFrom] = quickTimes.find(([name]) => name === label) ?? [];
    return timeFrom ? localMinute(timeFrom(now)) : '';
  };

  it('are formatted for the input and rounded up to the minute', () => {
    expect(localMinute(new Date(2030, 0, 2, 3, 4))).toBe('2030-01-02T03:04');
    expect(localMinute(new Date(2030, 0, 2, 3, 4, 1))).toBe('2030-01-02T03:05');
  });

  it('have common choices, also across the end of a year', () => {
    expect(chosen('In 10 minutes')).toBe('2031-01-01T00:06');
    expect(chosen('In 1 hour')).toBe('2031-01-01T00:56');
    expect(chosen('Tomorrow 9:00')).toBe('2031-01-01T09:00');
  });
});

describe('the errors of a refused message', () => {
  const refusal = (...fields: string[]) =>
    errorOf(400, {
      code: 3,
      message: 'refused',
      details: [
        {
          '@type': 'type.googleapis.com/google.rpc.BadRequest',
          fieldViolations: fields.map((field) => ({ field, description: `wrong ${field}` })),
        },
      ],
    });

  it('are shown at their fields', () => {
    const { fields, rest } = messageProblems(refusal('model'));
    expect([...fields]).toEqual([['model', 'Wrong model.']]);
    expect(rest).toBeNull();
  });

  it('name the line of a task', () => {
    expect(messageProblems(refusal('tasks[1].subject')).fields.get('tasks')).toBe(
      'Line 2: wrong tasks[1].subject.',
    );
  });

  it('are shown as a whole when the form has no such field', () => {
    const unknownField = refusal('agentId.workspace');
    expect(messageProblems(unknownField)).toMatchObject({ rest: unknownField });
    const notFound = errorOf(404, { code: 5, message: 'it has ended' });
    expect(messageProblems(notFound).rest).toBe(notFound);
    expect(messageProblems(null).rest).toBeNull();
  });
});

describe('unsent messages', () => {
  beforeEach(() => messageDrafts.accepted('/a', messageDrafts.get('/a')));

  it('are kept for each agent', () => {
    messageDrafts.set('/a', { ...emptyDraft, text: 'to a' });
    expect(messageDrafts.get('/a').text).toBe('to a');
    expect(messageDrafts.get('/b')).toBe(emptyDraft);
  });

  it('keep their id when the same content is sent again', () => {
    messageDrafts.set('/a', { ...emptyDraft, text: 'once' });
    const first = messageDrafts.toRequest('/a');
    expect(first.followUpId).toMatch(/.{16}/);
    expect(messageDrafts.toRequest('/a')).toEqual(first);
  });

  it('get a new id when the content changes, and after they were accepted', () => {
    messageDrafts.set('/a', { ...emptyDraft, text: 'once' });
    const first = messageDrafts.toRequest('/a').followUpId;
    messageDrafts.set('/a', { ...emptyDraft, text: 'twice' });
    const second = messageDrafts.toRequest('/a').followUpId;
    messageDrafts.accepted('/a', messageDrafts.get('/a'));
    expect(messageDrafts.get('/a')).toBe(emptyDraft);
    messageDrafts.set('/a', { ...emptyDraft, text: 'twice' });
    expect(new Set([first, second, messageDrafts.toRequest('/a').followUpId]).size).toBe(3);
  });

  it('release the previews of images that were removed or sent', () => {
    const revoke = vi.spyOn(URL, 'revokeObjectURL');
    const image = (url: string) => ({ name: '', file: new Blob(), url });
    const [one, two] = [image('blob:1'), image('blob:2')];
    const sent = { ...emptyDraft, images: [two] };
    messageDrafts.set('a', { ...emptyDraft, images: [one, two] });
    messageDrafts.set('a', sent);
    expect(revoke.mock.calls).toEqual([['blob:1']]);
    messageDrafts.accepted('a', sent);
    expect(revoke.mock.calls).toEqual([['blob:1'], ['blob:2']]);
    revoke.mockRestore();
  });

  it('knows the question that a text was begun to answer', () => {
    const asks = { phaseReason: 'QUESTION', phaseSince: '1' } as const;
    const works = { phaseReason: 'WORKING', phaseSince: '2' } as const;
    const begun = { ...emptyDraft, ...withText(emptyDraft, 'Gr', asks) };
    const answer = { ...begun, ...withText(begun, 'Green', works) };
    expect([isTooLate(answer, asks), isTooLate(answer, works)]).toEqual([false, true]);
    expect(isTooLate(answer, { ...asks, phaseSince: '3' })).toBe(true);
    const cleared = { ...answer, ...withText(answer, '', works) };
    expect(isTooLate(cleared, works)).toBe(false);
    expect(isTooLate({ ...cleared, ...withText(cleared, 'Go on', works) }, asks)).toBe(false);
  });

  it('keep text that was written while the message was being sent', () => {
    const sent = { ...emptyDraft, text: 'sent' };
    messageDrafts.set('/a', sent);
    messageDrafts.toRequest('/a');
    messageDrafts.set('/a', { ...emptyDraft, text: 'sent, and more' });
    messageDrafts.accepted('/a', sent);
    expect(messageDrafts.get('/a').text).toBe('sent, and more');
  });
});

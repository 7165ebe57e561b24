import { beforeEach, describe, expect, it } from 'vitest';
import { drafts, emptyDraft, isSendable, messageOf, optionWords } from './draft.ts';

describe('a draft', () => {
  it('leaves out what was left alone', () => {
    expect(messageOf({ ...emptyDraft, text: ' Go on. \n' })).toEqual({ description: 'Go on.' });
  });

  it('says everything that was chosen', () => {
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
    expect(optionWords(draft)).toEqual([
      'persona planner',
      'opus',
      'effort high',
      'tier flex',
      'fast mode off',
      'output schema',
      '2 tasks',
      'interrupts',
    ]);
  });

  it('takes its time for one of the place where it was written', () => {
    const { deliverAt } = messageOf({ ...emptyDraft, text: 'later', deliverAt: '2030-01-02T09:30' });
    expect(deliverAt).toBe(new Date(2030, 0, 2, 9, 30).toISOString());
  });

  it('is no message when it only says how and when it comes', () => {
    expect(isSendable({ ...emptyDraft, text: '  ' })).toBe(false);
    expect(isSendable({ ...emptyDraft, isPreempting: true, deliverAt: '2030-01-02T09:30' })).toBe(false);
    expect(isSendable({ ...emptyDraft, tasks: 'look around' })).toBe(true);
    expect(isSendable({ ...emptyDraft, fastMode: 'off' })).toBe(true);
  });
});

describe('the drafts of a page', () => {
  beforeEach(() => drafts.taken('/a', drafts.of('/a')));

  it('keeps what was begun at each agent', () => {
    drafts.keep('/a', { ...emptyDraft, text: 'to a' });
    expect(drafts.of('/a').text).toBe('to a');
    expect(drafts.of('/b')).toBe(emptyDraft);
  });

  it('sends the same words again as the same message', () => {
    drafts.keep('/a', { ...emptyDraft, text: 'once' });
    const first = drafts.toSend('/a');
    expect(first.followUpId).toMatch(/.{16}/);
    expect(drafts.toSend('/a')).toEqual(first);
  });

  it('sends other words as another message, and the same words too once they were taken', () => {
    drafts.keep('/a', { ...emptyDraft, text: 'once' });
    const first = drafts.toSend('/a').followUpId;
    drafts.keep('/a', { ...emptyDraft, text: 'twice' });
    const second = drafts.toSend('/a').followUpId;
    drafts.taken('/a', drafts.of('/a'));
    expect(drafts.of('/a')).toBe(emptyDraft);
    drafts.keep('/a', { ...emptyDraft, text: 'twice' });
    expect(new Set([first, second, drafts.toSend('/a').followUpId]).size).toBe(3);
  });

  it('keeps what was written while the message was under way', () => {
    const sent = { ...emptyDraft, text: 'sent' };
    drafts.keep('/a', sent);
    drafts.toSend('/a');
    drafts.keep('/a', { ...emptyDraft, text: 'sent, and more' });
    drafts.taken('/a', sent);
    expect(drafts.of('/a').text).toBe('sent, and more');
  });
});

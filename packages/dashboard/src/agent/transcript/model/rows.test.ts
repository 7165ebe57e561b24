import type { TimelineEntry } from '@muster/sdk/contract';
import { describe, expect, it } from 'vitest';
import { Rows } from './rows.ts';

type Given = Partial<Omit<TimelineEntry, 'sequence'>> & Pick<TimelineEntry, 'type'>;

const timeline = (...given: Given[]): TimelineEntry[] =>
  given.map((fields, at) => ({
    sequence: String(at + 1),
    at: `2026-01-01T00:00:${String(at).padStart(2, '0')}.000Z`,
    runId: '1',
    followUpId: '',
    text: '',
    data: {},
    ...fields,
  }));

const call = (id: string): Given => ({ type: 'TOOL_CALL', text: 'ls', data: { tool: 'Bash', id } });
const result = (id: string): Given => ({ type: 'TOOL_RESULT', text: 'a file', data: { tool: 'Bash', id } });
const phase: Given = { type: 'PHASE_CHANGED', text: 'BLOCKED', data: { reason: 'BLOCKED' } };
const working: Given = { type: 'PHASE_CHANGED', text: 'WORKING', data: { reason: 'WORKING' } };

const kindsOf = (entries: readonly TimelineEntry[]) => new Rows().update(entries).map(({ kind }) => kind);

describe('the rows of a timeline', () => {
  it('joins a call and its results, also with other entries between them', () => {
    const rows = new Rows().update(
      timeline(call('a'), call('b'), { type: 'MESSAGE' }, result('b'), result('a')),
    );
    expect(rows.map(({ kind }) => kind)).toEqual(['tool', 'tool', 'message']);
    expect(rows[0]).toMatchObject({ call: { sequence: '1' }, results: [{ sequence: '5' }] });
    expect(rows[1]).toMatchObject({ call: { sequence: '2' }, results: [{ sequence: '4' }] });
  });

  it('matches calls without ids by their tool, the newest first', () => {
    const shell = { tool: 'shell' };
    const rows = new Rows().update(
      timeline(
        { type: 'TOOL_CALL', data: shell },
        { type: 'TOOL_RESULT', data: shell },
        { type: 'TOOL_CALL', data: { tool: 'push' } },
        { type: 'TOOL_RESULT', data: { tool: 'push' } },
        { type: 'TOOL_RESULT', data: { tool: 'push' } },
      ),
    );
    expect(rows).toMatchObject([
      { results: [{ sequence: '2' }] },
      { results: [{ sequence: '4' }, { sequence: '5' }] },
    ]);
  });

  it('shows a result without its call', () => {
    expect(new Rows().update(timeline(result('a')))).toMatchObject([
      { kind: 'tool', call: null, hasRunEnded: true },
    ]);
  });

  it('marks a call without a result when its run has ended', () => {
    const entries = timeline(call('a'), { type: 'RUN_ENDED' });
    const rows = new Rows();
    expect(rows.update(entries.slice(0, 1))).toMatchObject([{ hasRunEnded: false }]);
    expect(rows.update(entries)).toMatchObject([{ hasRunEnded: true }, { kind: 'run-end' }]);
  });

  it('joins system entries, and the outputs of one setup command', () => {
    const output = (command: string, text: string): Given => ({
      type: 'SETUP_OUTPUT',
      text,
      data: { command },
    });
    const entries = timeline(
      phase,
      { type: 'FOLLOW_UP_QUEUED' },
      { type: 'TASK_CHANGED' },
      output('npm ci', '$ npm ci'),
      output('npm ci', 'added 3'),
      output('make', '$ make'),
      phase,
    );
    expect(kindsOf(entries)).toEqual(['system', 'setup', 'setup', 'system']);
  });

  it('joins the start of a run and the bookkeeping around it, up to the next run', () => {
    const started: Given = { type: 'RUN_STARTED' };
    const entries = timeline(
      { type: 'FOLLOW_UP_QUEUED' },
      working,
      started,
      working,
      phase,
      started,
      working,
    );
    const rows = new Rows().update(entries);
    expect(rows).toMatchObject([
      { kind: 'run-start', key: 'e1', entry: { sequence: '3' }, entries: { length: 5 } },
      { kind: 'run-start', entry: { sequence: '6' }, entries: { length: 2 } },
    ]);
  });

  it('has no row for a phase that the row before shows, and still finds its entry', () => {
    const rows = new Rows();
    expect(rows.update(timeline({ type: 'MESSAGE' }, working, { type: 'MESSAGE' }))).toMatchObject([
      { kind: 'message' },
      { kind: 'message' },
    ]);
    expect(rows.indexOf(2)).toBe(0);
  });

  it('joins a call about tasks and what it changed', () => {
    const task: Given = { type: 'TOOL_CALL', text: 'add Sweep', data: { tool: 'task', id: 't' } };
    const changed: Given = { type: 'TASK_CHANGED', text: 'Sweep' };
    const done: Given = { type: 'TOOL_RESULT', data: { tool: 'task', id: 't' } };
    for (const entries of [timeline(task, changed, done), timeline(task, done, changed)])
      expect(new Rows().update(entries)).toMatchObject([
        { kind: 'tool', results: { length: 1 }, changes: { length: 1 } },
      ]);
    expect(kindsOf(timeline(call('a'), changed, result('a')))).toEqual(['tool', 'system']);
  });

  it('shows a delivered message with the text from when it was queued', () => {
    const entries = timeline(
      { type: 'FOLLOW_UP_DEFERRED', followUpId: 'f', text: 'Look again' },
      { type: 'FOLLOW_UP_QUEUED', followUpId: 'f' },
      { type: 'FOLLOW_UP_DELIVERED', followUpId: 'f' },
      { type: 'FOLLOW_UP_DELIVERED', followUpId: 'g' },
    );
    const rows = new Rows();
    expect(rows.update(entries)).toMatchObject([
      { kind: 'system' },
      { kind: 'user', text: 'Look again' },
      { kind: 'user', text: null },
    ]);
    rows.setMessageText('g', 'From before');
    expect(rows.update(entries)[2]).toMatchObject({ text: 'From before' });
  });

  it('knows when an ended run was started', () => {
    const [, end] = new Rows().update(timeline({ type: 'RUN_STARTED' }, { type: 'RUN_ENDED' }));
    expect(end).toMatchObject({ startedAt: '2026-01-01T00:00:00.000Z' });
    expect(new Rows().update(timeline({ type: 'RUN_ENDED' }))).toMatchObject([{ startedAt: null }]);
  });

  it('shows entries of an unknown type', () => {
    expect(kindsOf(timeline({ type: 'NEWER_THAN_THIS_PAGE' as 'MESSAGE' }))).toEqual(['unknown']);
  });

  it('builds the same rows entry by entry as all together, and does not change earlier rows', () => {
    const entries = timeline(phase, call('a'), phase, phase, result('a'), { type: 'MESSAGE' }, phase, phase);
    const rows = new Rows();
    const shown = entries.map((_, at) => rows.update(entries.slice(0, at + 1)));
    expect(shown.at(-1)).toEqual(new Rows().update(entries));
    expect(shown[1]).toMatchObject([{ kind: 'system' }, { kind: 'tool', results: [] }]);
    const [first, second] = shown.slice(-2);
    expect(second?.slice(0, 3)).toEqual(first?.slice(0, 3));
    expect(second?.[0]).toBe(first?.[0]);
  });

  it('keeps the keys of its rows when older entries are added', () => {
    const entries = timeline(phase, call('a'), phase, phase, phase, result('a'), phase);
    const rows = new Rows();
    const late = rows.update(entries.slice(4)).map(({ key }) => key);
    expect(late).toEqual(['e5', 'e6', 'e7']);
    const all = rows.update(entries);
    expect(all.map(({ kind }) => kind)).toEqual(['system', 'tool', 'system']);
    expect(all.map(({ key }) => key)).toEqual(['e1', 'e6', 'e5']);
  });

  it('finds the row of each entry', () => {
    const rows = new Rows();
    rows.update(timeline(phase, call('a'), { type: 'MESSAGE' }, result('a')));
    expect([1, 2, 3, 4, 5].map((sequence) => rows.indexOf(sequence))).toEqual([0, 1, 2, 1, undefined]);
  });

  it('gives each row a unique key', () => {
    const entries = timeline(
      ...Array.from({ length: 60 }, (_, at) => [phase, call('a'), result('a')][at % 3]!),
    );
    const rows = new Rows();
    for (const first of [40, 20, 0, 2, 31, 7]) {
      const keys = rows.update(entries.slice(first)).map(({ key }) => key);
      expect(new Set(keys).size).toBe(keys.length);
    }
  });
});

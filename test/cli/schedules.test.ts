import { expect, test } from 'vitest';
import { userOfSharedServer } from './cli.ts';

const ada = userOfSharedServer({ runner: false });

const yearly = `kind: schedule
name: new-year
cron: 0 7 1 1 *
zone: Europe/Berlin
spawn:
  agentId: { agent: ["greeting-{n}"], workspace: default }
  description: Wish a happy new year.
  model: rehearsal-a
`;

test('a schedule is applied, shown in words, fired, paused and resumed', async () => {
  expect(await ada.muster(['schedule', 'ls'])).toMatchObject({
    out: '',
    err: expect.stringContaining('muster edit'),
  });
  const file = ada.file('schedule.yaml', yearly);
  expect(await ada.prints(['apply', '-f', file])).toContain('schedule/new-year created');
  expect(await ada.prints(['apply', '-f', file])).toBe('schedule/new-year unchanged\n');
  const shown = await ada.prints(['schedule', 'show', 'new-year']);
  expect(shown).toContain('when     On day 1 of January at 07:00, Europe/Berlin\n');
  expect(shown).toContain('does     spawns greeting-{n}: Wish a happy new year.\n');
  expect(shown.match(/1 Jan \d{4}, 07:00/g)).toHaveLength(5);
  expect(await ada.prints(['schedule', 'run', 'new-year'])).toBe('spawned greeting-1\n');
  const second = await ada.muster(['schedule', 'run', 'new-year']);
  expect(second).toMatchObject({
    code: 1,
    err: expect.stringContaining('new-year did not fire: the agent of an'),
  });
  const history = await ada.prints(['schedule', 'history', 'new-year', '-n', '5']);
  expect(history).toMatch(
    /SCHEDULED +AT +OUTCOME +AGENT +REASON\n.* skipped .*\n.* fired +greeting-1 +run by hand\n/,
  );
  const pause = ['schedule', 'pause', 'new-year', '--justification', 'nobody is there'];
  expect(await ada.prints(pause)).toBe('paused new-year\n');
  expect(await ada.prints(['history', 'schedule', 'new-year'])).toContain('nobody is there');
  expect(await ada.prints(['schedule', 'ls'])).toMatch(/new-year +On day 1 of January.* paused +skipped /);
  expect(await ada.prints(['schedule', 'resume', 'new-year'])).toBe('resumed new-year\n');
  expect(await ada.data(['schedule', 'show', 'new-year'])).toMatchObject({
    document: { paused: false, pausedReason: '', lastRun: { outcome: 'SKIPPED' } },
  });
  expect(await ada.data(['schedule', 'history', 'new-year'])).toMatchObject([
    { manual: true },
    { manual: true },
  ]);
});

test('what is wrong is said with its field', async () => {
  const file = ada.file('never.yaml', 'kind: schedule\nname: never\ncron: 0 0 30 2 *\n');
  expect(await ada.muster(['apply', '-f', file])).toMatchObject({
    code: 2,
    err: expect.stringContaining('payload.cron: never fires'),
  });
  for (const args of [
    ['show', 'none'],
    ['run', 'none'],
    ['history', 'none'],
    ['pause', 'none'],
  ])
    expect(await ada.muster(['schedule', ...args])).toMatchObject({ code: 3 });
  expect(await ada.muster(['schedule', 'history', 'none', '-n', '0'])).toMatchObject({ code: 2 });
});

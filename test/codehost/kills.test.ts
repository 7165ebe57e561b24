import { expect, it } from 'vitest';
import type { Fault } from './faults.ts';
import { FakeGithub } from './github.ts';
import { longTestMs, until } from './patience.ts';
import { Scenario } from './scenario.ts';

const ofIssue = (number: number) => ({ method: 'POST', path: new RegExp(`/issues/${number}/comments`) });

/** How many whole scenarios have a kill at some moment of one of their steps. */
const kills = Number(process.env.MUSTER_CODEHOST_KILLS ?? 1);
/** A step takes about this long without a kill. */
const stepMs = 2_500;

/** What the host does with the comment on each issue when the service is killed. */
const faults: readonly Fault[] = [
  // The item goes back to QUEUED.
  { ...ofIssue(1), reply: { status: 429, headers: { 'retry-after': '1' } } },
  // The item is SENDING: it was not done; it was done; it was done, and the answer was cut.
  { ...ofIssue(2), reply: 'silence' },
  { ...ofIssue(3), reply: 'silence', isAfter: true },
  { ...ofIssue(4), reply: 'cut', isAfter: true },
  // The delivery of the label is RECEIVED: it is being processed.
  { method: 'GET', path: /\/collaborators\/reviewer\/permission/, reply: 'silence' },
];

/**
 * The service is killed while there is a delivery, and an item of the outbox, in every state that they can be in, and
 * started again. The result is the same as without: one agent per issue, and one comment.
 */
it(
  'a kill in every state of deliveries and of the outbox loses and repeats nothing',
  async () => {
    const host = await FakeGithub.start();
    const scenario = await Scenario.startWithoutRunner(host);
    try {
      for (const fault of faults) host.faults.add(fault);
      const issues = [1, 2, 3, 4, 5, 6];
      for (const number of issues) {
        expect(await host.addIssue('maintainer', `Issue ${number}`, 'It says helo.')).toBe(number);
        // The sixth has no fault: its delivery is DONE and its item SENT.
        await host.label({ type: 'issue', number }, 'muster', number === 5 ? 'reviewer' : 'maintainer');
      }
      await until(
        'all faults',
        async () => host.faults.happened,
        (happened) => happened === faults.length,
      );
      const sixth = () => host.comments({ type: 'issue', number: 6 });
      await until('the comment without a fault', sixth, (found) => found.length === 1);
      await scenario.restart();
      const comments = () =>
        Promise.all(issues.map(async (number) => (await host.comments({ type: 'issue', number })).length));
      await until('a comment on each issue', comments, (counts) => counts.every((count) => count > 0));
      await until(
        'settled deliveries',
        () => scenario.deliveries(),
        (all) => all.every(({ state }) => state === 'DONE' || state === 'IGNORED'),
      );
      await scenario.untilSent();
      expect(await comments()).toEqual(issues.map(() => 1));
      expect(await scenario.agents()).toHaveLength(issues.length);
    } finally {
      await scenario.close();
    }
  },
  longTestMs,
);

it.each(Array.from({ length: kills }, (_, i) => i))(
  'kill %i: at any moment of any step, the end is the same',
  async (i) => {
    const scenario = await Scenario.start(await FakeGithub.start());
    // Spread over all moments of all steps, beginning with the review.
    const step = (i + 2) % scenario.steps.length;
    const afterMs = (i * 0.618 * stepMs) % stepMs;
    try {
      for (const [at, [, run]] of scenario.steps.entries()) {
        const kill =
          at === step
            ? new Promise((resolve) => setTimeout(resolve, afterMs)).then(() => scenario.restart())
            : null;
        await Promise.all([run(), kill]);
      }
      await scenario.expectEnd();
    } finally {
      await scenario.close();
    }
  },
  longTestMs,
);

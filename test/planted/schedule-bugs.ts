import type { PlantedBug } from './bugs.ts';

const service = 'packages/service/src';

/** When schedules fire, and how often. */
export const scheduleBugs: readonly PlantedBug[] = [
  {
    name: 'schedules: a fire that is repeated sends another message',
    file: `${service}/control/schedules/start-work.ts`,
    find: 'new Date(scheduledMs).toISOString()}`;',
    replace: 'new Date(scheduledMs).toISOString()}` + Math.random();',
    suites: ['test/schedules/kills.test.ts'],
  },
  {
    name: 'schedules: a fire that is repeated spawns another agent',
    file: `${service}/store/statements/schedules.ts`,
    find: 'SET spawn_id = coalesce(s.spawn_id, $3)',
    replace: 'SET spawn_id = $3',
    suites: ['test/schedules/kills.test.ts'],
  },
  {
    name: 'schedules: the next time is that after now, not after the scheduled one',
    file: `${service}/control/schedules/fire-schedules.ts`,
    find: 'const lastMs = skippedMs.at(-1) ?? Date.parse(scheduledAt);',
    replace: 'const lastMs = skippedMs.at(-1) ?? Date.now();',
    suites: ['test/schedules/fires.test.ts', 'test/schedules/kills.test.ts'],
  },
  {
    name: 'schedules: times that were missed fire whatever the policy is',
    file: `${service}/control/schedules/timing.ts`,
    find: 'if (lateBy(timing, name, scheduledMs, nowMs) === 0) return null;',
    replace: 'if (scheduledMs <= nowMs) return null;',
    suites: [`${service}/control/schedules/timing.test.ts`, 'test/schedules/fires.test.ts'],
  },
  {
    name: 'schedules: a time that the clocks show twice fires twice',
    file: 'packages/sdk/src/contract/cron-times.ts',
    find: 'if (runsOn) yield* shown;',
    replace: 'if (runsOn || shown.length > 1) yield* shown;',
    suites: ['packages/sdk/src/contract/cron-times.test.ts'],
  },
  {
    name: 'schedules: they act for accounts whose keys are gone',
    file: `${service}/control/access/acting-caller.ts`,
    find: 'const role = actingRoles.find((one) => rows.some((row) => row.role === one));',
    replace:
      "const role = actingRoles.find((one) => one === 'admin' || rows.some((row) => row.role === one));",
    suites: ['test/schedules/fires.test.ts'],
  },
];

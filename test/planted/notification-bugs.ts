import type { PlantedBug } from './bugs.ts';

const service = 'packages/service/src';

/** Bugs in who gets which message, and when. */
export const notificationBugs: readonly PlantedBug[] = [
  {
    name: 'notifications: a question is sent that was answered',
    file: `${service}/store/statements/notifications.ts`,
    find: '(a.since <> d.at OR a.phase',
    replace: '(false) AND (a.phase',
    suites: ['test/notify/deliver.test.ts'],
  },
  {
    name: 'notifications: many events at the same time are as many messages',
    file: `${service}/notify/deliver.ts`,
    find: 'Math.max(1, free) : 1)',
    replace: '1e9 : 1e9)',
    suites: ['test/notify/deliver.test.ts'],
  },
  {
    name: 'notifications: a message overtakes an earlier one about the same agent that is tried again',
    file: `${service}/store/statements/notifications.ts`,
    find: 'coalesce(d.first_blocked < d.id, false)',
    replace: 'false',
    suites: ['test/notify/deliver.test.ts'],
  },
  {
    name: 'notifications: 410 does not pause',
    file: `${service}/notify/webhook.ts`,
    find: '(status) => status === 410',
    replace: '(status) => status === 411',
    suites: ['test/notify/webhook.test.ts'],
  },
  {
    name: 'notifications: anybody ends a notification without the signed link',
    file: `${service}/notify/unsubscribe.ts`,
    find: 'return isSigned ? target : null;',
    replace: 'return isSigned || target ? target : null;',
    suites: ['test/notify/email.test.ts'],
  },
];

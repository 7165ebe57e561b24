import type { PlantedBug } from './bugs.ts';

const service = 'packages/service/src';
const push = 'packages/dashboard/src/notify/model/push.ts';

/** Bugs in what people have seen, and in what their browsers show. */
export const attentionBugs: readonly PlantedBug[] = [
  {
    name: 'attention: a browser gets notifications after its session has ended',
    file: `${service}/notify/browser/browser.ts`,
    find: "if (!reader) throw new GoneError('the session of the browser has ended');",
    replace: "if (!reader) return '';",
    suites: ['test/notify/push.test.ts'],
  },
  {
    name: 'attention: a browser gets what its person looks at',
    file: `${service}/notify/browser/browser.ts`,
    find: "reader.is_seen ? 'it was seen",
    replace: "reader.is_seen && type === 'test' ? 'it was seen",
    suites: ['test/notify/push.test.ts'],
  },
  {
    name: 'attention: of two choices in the settings of a browser, the one that arrives last is kept',
    file: push,
    find: 'const next = last.then(work, work);',
    replace: 'void last;\n  const next = work();',
    suites: ['test/browser/notifications.test.ts'],
  },
  {
    name: 'attention: a page that is loaded brings an older choice back',
    file: push,
    find: '(current) => current ?? storedChoice(person)',
    replace: '() => storedChoice(person)',
    suites: ['test/browser/notifications.test.ts'],
  },
];

import type { PlantedBug } from './bugs.ts';

const service = 'packages/service/src';
const conformance = ['test/conformance/members.test.ts'];

/** Bugs in what admins decide about accounts, and in runners that take runs again. */
export const memberBugs: readonly PlantedBug[] = [
  {
    name: 'members: the keys of a disabled account work',
    file: `${service}/store/statements/keys.ts`,
    find: 'WHERE m.disabled IS NOT TRUE AND',
    replace: 'WHERE',
    suites: conformance,
  },
  {
    name: 'members: open streams of a disabled account go on',
    file: `${service}/store/statements/tick.ts`,
    find: "${isValid('k')} AND ${isEnabled('k')})",
    replace: "${isValid('k')} AND (true OR ${isEnabled('k')}))",
    suites: conformance,
  },
  {
    name: 'members: what a disabled account wrote still acts as it',
    file: `${service}/control/access/acting-caller.ts`,
    find: 'if (row.disabled) return',
    replace: 'if (row.disabled && !role) return',
    suites: conformance,
  },
  {
    name: 'members: the role that an admin set is ignored',
    file: `${service}/store/statements/key-roles.ts`,
    find: 'WHEN ${m}.role_override IS NULL OR',
    replace: 'WHEN true OR',
    suites: conformance,
  },
  {
    name: 'members: the role that an admin set raises the role of a token',
    file: `${service}/store/statements/key-roles.ts`,
    find: "WHEN ${k}.kind = 'sign-in' OR ${k}.granted_by = 'sign-in' THEN",
    replace: "WHEN ${k}.kind <> '' THEN",
    suites: conformance,
  },
  {
    name: 'members: the last admin can be demoted',
    file: `${service}/control/access/members.ts`,
    find: 'if (loses && powers.is_admin && !powers.has_other_admin)',
    replace: 'if (loses && !powers.is_admin && !powers.has_other_admin)',
    suites: conformance,
  },
  {
    name: 'members: a decision is about every account of that name',
    file: `${service}/store/statements/key-roles.ts`,
    find: '${m}.tenant = ${k}.tenant AND ${m}.owner_provider = ${k}.owner_provider AND',
    replace: '${m}.tenant = ${k}.tenant AND',
    suites: conformance,
  },
  {
    name: 'runners: one that was undrained drains again with its next poll',
    file: `${service}/store/statements/runners.ts`,
    find: 'leaving = r.leaving OR (n.leaving AND NOT',
    replace: 'leaving = r.leaving OR (n.leaving OR NOT',
    suites: ['test/conformance/pool-runners.test.ts'],
  },
];

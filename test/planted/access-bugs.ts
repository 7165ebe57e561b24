import type { PlantedBug } from './bugs.ts';

const service = 'packages/service/src';
const logins = ['test/conformance/device-login.test.ts'];
const audit = ['test/store/audit.test.ts', 'test/conformance/audit.test.ts'];

export const accessBugs: readonly PlantedBug[] = [
  {
    name: 'logins: an approved code gives a key each time that it is polled with',
    file: `${service}/store/statements/device-logins.ts`,
    find: "`DELETE FROM device_logins WHERE hash = $1 AND state = 'APPROVED' AND expires_at > now()",
    replace:
      "`UPDATE device_logins SET polled_at = now() WHERE hash = $1 AND state = 'APPROVED' AND expires_at > now()",
    suites: logins,
  },
  {
    name: 'logins: wrong codes are not counted',
    file: `${service}/control/access/device-logins.ts`,
    find: 'if ((entered?.count ?? 0) > limits.wrongLoginCodes)',
    replace: 'if ((entered?.count ?? 0) < 0)',
    suites: logins,
  },
  {
    name: 'logins: what a token approved gets the role that an admin sets',
    file: `${service}/store/statements/key-roles.ts`,
    find: "${k}.granted_by = 'sign-in' THEN",
    replace: "${k}.kind = 'login' THEN",
    suites: logins,
  },
  {
    name: 'logins: the key outlives the token that approved it',
    file: `${service}/store/statements/keys.ts`,
    find: "CASE k.kind WHEN 'token' THEN k.expires_at WHEN 'login' THEN k.ends_at END AS ends_at",
    replace: 'NULL::timestamptz AS ends_at',
    suites: logins,
  },
  {
    name: 'logins: any page may begin one',
    file: `${service}/http/route.ts`,
    find: 'if (origin !== undefined) refuseOtherOrigin(origin, host, publicUrl());\n  };\n\n/** A reply',
    replace: 'void [origin, host, publicUrl];\n  };\n\n/** A reply',
    suites: logins,
  },
  {
    name: 'audit: the next page begins after all records of the last time',
    file: `${service}/store/statements/audit.ts`,
    find: 'new Date(Date.parse(at) + 1)',
    replace: 'new Date(Date.parse(at))',
    suites: audit,
  },
  {
    name: 'audit: a kill by another account leaves no record',
    file: `${service}/domain/commands/kill-tree.ts`,
    find: 'if (by && state === target)',
    replace: 'if (by && state !== target)',
    suites: audit,
  },
];

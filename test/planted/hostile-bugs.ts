import type { PlantedBug } from './bugs.ts';

const service = 'packages/service/src';

/** Bugs that let hostile agents, members and hosts do what they must not. */
export const hostileBugs: readonly PlantedBug[] = [
  {
    name: 'a search for processes reads too little of their environments',
    file: `${service}/runner/sandbox/proc.ts`,
    find: 'const environmentBytes = 128 * 1024;',
    replace: 'const environmentBytes = 32;',
    suites: ['packages/service/src/runner/sandbox/processes.test.ts'],
  },
  {
    name: 'the git of the runner follows redirects',
    file: `${service}/runner/workspace/git.ts`,
    find: "'http.followRedirects=false'",
    replace: "'http.followRedirects=true'",
    suites: [
      'test/tenancy/tenant-allow.test.ts',
      'packages/service/src/runner/workspace/remote-access.test.ts',
    ],
  },
  {
    name: 'a line of a harness may have any number of values',
    file: `${service}/harness/harness-lines.ts`,
    find: 'if (this.#values > bounds.values) this.#reason',
    replace: 'if (this.#values > Number.MAX_SAFE_INTEGER) this.#reason',
    suites: ['test/hostile/harness-lines.test.ts'],
  },
  {
    name: 'every call without a result is kept until the end of its run',
    file: `${service}/harness/open-calls.ts`,
    find: 'if (this.size <= this.#most) break;',
    replace: 'if (this.size > 0 || this.#most > 0) break;',
    suites: ['test/hostile/harness-lines.test.ts'],
  },
  {
    name: 'a member has the change requests of others compared',
    file: `${service}/codehost/code-hosts.ts`,
    find: "const refused = row && refuseAgent(caller, 'command', agentOfRow(row, nameTenant(input, caller)));",
    replace:
      "const refused = row && refuseAgent(caller, 'read', agentOfRow(row, nameTenant(input, caller)));",
    suites: ['test/codehost/trust.test.ts'],
  },
  {
    name: 'a share link lists agents',
    file: `${service}/control/access/permit.ts`,
    find: "caller.role === 'share' ? oneAgentOnly : null;",
    replace: "caller.role === 'runner' ? oneAgentOnly : null;",
    suites: ['test/tenancy/tenancy.test.ts'],
  },
  {
    name: 'one account may use the whole quota of its tenant',
    file: `${service}/control/upkeep/quotas.ts`,
    find: "return ofAccount === null || (isShared && ofAccount + more > share) ? 'account' : null;",
    replace: "return ofAccount === null && isShared ? 'account' : null;",
    suites: ['test/conformance/quotas.test.ts'],
  },
  {
    name: 'a value that a secret had before is posted',
    file: `${service}/work/tenant-masks.ts`,
    find: 'earlier.text(mask.text(text));',
    replace: "mask.text(text) + earlier.text('');",
    suites: ['test/codehost/trust.test.ts'],
  },
  {
    name: 'work that killed its process is claimed for ever',
    file: `${service}/store/statements/due-rows.ts`,
    find: 'SET claims = t.claims + 1, next_at',
    replace: 'SET claims = 0, next_at',
    suites: ['test/store/killing-work.test.ts'],
  },
  {
    name: 'a report on which the service fails is sent for ever',
    file: `${service}/runner/run/report-stream.ts`,
    find: 'if (failure && equal.times >= limits.equalReportFailures)',
    replace: 'if (failure && equal.times === Number.POSITIVE_INFINITY)',
    suites: [
      'packages/service/src/runner/run/reports.test.ts',
      'test/conformance/invalid-stored-states.test.ts',
    ],
  },
];

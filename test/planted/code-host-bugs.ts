import type { PlantedBug } from './bugs.ts';

const service = 'packages/service/src';

/** Bugs in review threads, and in what is exchanged with code hosts. */
export const codeHostBugs: readonly PlantedBug[] = [
  {
    name: 'the threads of a message that is removed stay pending',
    file: `${service}/domain/review.ts`,
    find: '  settleThreads(draft, followUp.tasks);',
    replace: '',
    suites: ['test/simulation/simulator.test.ts'],
  },
  {
    name: 'a thread that got a reply during a batch is settled at its end',
    file: `${service}/domain/review.ts`,
    find: '    if (!told.has(id))',
    replace: '    if (!told.has(id) || id)',
    suites: ['packages/service/src/domain/review.test.ts', 'test/simulation/simulator.test.ts'],
  },
  {
    name: 'no binding: a git credential is given to any runner key that knows the names of a run',
    file: `${service}/codehost/code-hosts.ts`,
    find: 'return refused ?? gitCredentialFor(',
    replace: 'return gitCredentialFor(',
    suites: ['test/tenancy/runner-identity.test.ts'],
  },
  {
    name: 'an item that may have been posted is posted again without a look',
    file: `${service}/codehost/send.ts`,
    find: 'const known = await this.#posted(integration, item, repo, subject);\n    return known ?? (await integration.host.comment(',
    replace: 'return (await integration.host.comment(',
    suites: ['test/codehost/kills.test.ts'],
  },
  {
    name: 'everybody who comments is heard',
    file: `${service}/codehost/people.ts`,
    find: 'permissions.indexOf(permission) >= permissions.indexOf(minimum)',
    replace: 'permissions.indexOf(permission) >= 0 && minimum.length > 0',
    suites: ['test/codehost/trust.test.ts'],
  },
  {
    name: 'a delivery whose signature is wrong is taken',
    file: `${service}/deliveries/receive.ts`,
    find: "if (!signature.isValid()) return 'unsigned';",
    replace: '',
    suites: ['test/codehost/webhooks.test.ts'],
  },
  {
    name: 'the value of a secret is posted in a title',
    file: `${service}/codehost/send.ts`,
    find: 'title: masked(request.title)',
    replace: 'title: masked(request.title) && request.title',
    suites: ['test/codehost/trust.test.ts'],
  },
  {
    name: 'a change request that a person closed is opened again',
    file: `${service}/codehost/open-change-requests.ts`,
    find: "if (state !== 'MERGED') return false;",
    replace: "if (state === 'OPEN' || state === 'DRAFT') return false;",
    suites: ['test/codehost/change-requests.test.ts'],
  },
];

import type { PlantedBug } from './bugs.ts';

const service = 'packages/service/src';

/** Signing in with a provider. */
export const signInBugs: readonly PlantedBug[] = [
  {
    name: 'login CSRF: the state of the answer is not compared with that of the browser',
    file: `${service}/sign-in/sign-ins.ts`,
    find: ' && flow.state === state;',
    replace: ' && (flow.state === state || flow !== null);',
    suites: ['test/sign-in/attacks.test.ts'],
  },
  {
    name: 'mix-up: an answer is taken for another provider than the one that was asked',
    file: `${service}/sign-in/sign-ins.ts`,
    find: 'flow?.name === name && tenantName(flow.tenant) === tenantName(tenant) && ',
    replace: 'flow !== null && ',
    suites: ['test/sign-in/attacks.test.ts'],
  },
  {
    name: 'the signature of the ID token is not verified',
    file: `${service}/sign-in/oidc.ts`,
    find: 'client.enableNonRepudiationChecks(configuration);',
    replace: '',
    suites: ['test/sign-in/forged.test.ts'],
  },
  {
    name: 'replay: an ID token of another sign-in is taken',
    file: `${service}/sign-in/sign-ins.ts`,
    find: 'nonce: randomText(),',
    replace: "nonce: 'always-the-same',",
    suites: ['test/sign-in/forged.test.ts'],
  },
  {
    name: 'a sign-in completes twice',
    file: `${service}/sign-in/sign-ins.ts`,
    find: 'if (!claimed) return this.#refuse(usedBefore);',
    replace: 'if (!claimed && usedBefore === null) return this.#refuse(usedBefore);',
    suites: ['test/sign-in/nodes.test.ts'],
  },
  {
    name: 'a person is the name at GitHub, not the id',
    file: `${service}/sign-in/github.ts`,
    find: 'const subject = String(id);',
    replace: 'const subject = textOf(login);',
    suites: ['test/sign-in/github.test.ts'],
  },
  {
    name: 'an address counts although the provider has not verified it',
    file: `${service}/sign-in/oidc.ts`,
    find: 'claims.email_verified === true',
    replace: 'claims.email_verified !== undefined',
    suites: ['test/sign-in/oidc.test.ts'],
  },
  {
    name: 'open redirect: the path to return to may be an address',
    file: `${service}/http/routes/providers.ts`,
    find: "return isOwn && !pathname.startsWith('/sign-in')",
    replace: "if (!isOwn) return wanted;\n  return isOwn && !pathname.startsWith('/sign-in')",
    suites: ['test/sign-in/attacks.test.ts'],
  },
];

import type { PlantedBug } from './bugs.ts';

const service = 'packages/service/src';

/** Which account of a provider an agent uses. */
export const accountBugs: readonly PlantedBug[] = [
  {
    name: 'sticky lost: an agent uses the first account again as soon as its pause ends',
    file: `${service}/runner/accounts/provider-accounts.ts`,
    find: 'return left.find(({ id }) => id === usual) ?? left[0];',
    replace: 'return left[0];',
    suites: ['packages/service/src/runner/gateway/several-accounts.test.ts'],
  },
  {
    name: 'sticky lost: a new run does not inherit the account of the run before',
    file: `${service}/domain/commands/claim-run.ts`,
    find: "const account = rehearsed ? '' : (state.run?.account ?? '');",
    replace: "const account = '';",
    suites: ['test/conformance/provider-accounts.test.ts'],
  },
  {
    name: 'an account that fails is not paused: every run asks it first',
    file: `${service}/runner/gateway/run-accounts.ts`,
    find: 'this.#accounts?.pause(failed.id, pauseOf(failure));',
    replace: '',
    suites: ['packages/service/src/runner/gateway/several-accounts.test.ts'],
  },
];

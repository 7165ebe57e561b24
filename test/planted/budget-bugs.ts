import type { PlantedBug } from './bugs.ts';

const service = 'packages/service/src';

/** What agents may spend. */
export const budgetBugs: readonly PlantedBug[] = [
  {
    name: 'budgets: no reservation, so runs that ask at the same time all get what is left',
    file: `${service}/domain/commands/credit-run.ts`,
    find: "type: 'taken', key, usd: amount, within",
    replace: "type: 'taken', key, usd: amount * 0, within",
    suites: ['test/simulation/simulator.test.ts', 'test/crash/budgets.test.ts'],
  },
  {
    name: 'budgets: a request is sent whatever the answer to its reservation is',
    file: `${service}/runner/gateway/spending.ts`,
    find: "if (!reserved || 'refusal' in reserved) return reserved;",
    replace: "if (!reserved || 'refusal' in reserved) return undefined;",
    suites: ['test/crash/budgets.test.ts', 'test/agents/budgets.test.ts'],
  },
  {
    name: 'budgets: credit is returned twice',
    file: `${service}/domain/draft.ts`,
    find: 'usd: (usage?.cost ?? 0) - coveredUsd,',
    replace: 'usd: 2 * ((usage?.cost ?? 0) - coveredUsd),',
    suites: ['test/simulation/simulator.test.ts', 'test/conformance/budgets.test.ts'],
  },
  {
    name: 'budgets: credit is not returned at the end of a run',
    file: `${service}/domain/draft.ts`,
    find: 'Object.entries(credits ?? {}))',
    replace: 'Object.entries<number>(credits ? {} : {}))',
    suites: ['test/conformance/budgets.test.ts', 'test/simulation/simulator.test.ts'],
  },
  {
    name: 'budgets: wrong window, that of UTC in every zone',
    file: `${service}/domain/budget.ts`,
    find: 'const zone = document.zone ?? usualBudget.zone;',
    replace: 'const { zone } = usualBudget;',
    suites: ['test/conformance/budgets.test.ts'],
  },
  {
    name: 'budgets: wrong window, what was taken in the one before counts in this one',
    file: `${service}/domain/budget.ts`,
    find: 'const isCounted = ledger?.startsAt === window.startsAt;',
    replace: 'const isCounted = ledger !== null;',
    suites: [`${service}/domain/commands/credit-run.test.ts`, 'test/simulation/simulator.test.ts'],
  },
  {
    name: 'budgets: windows overlap when the clocks change',
    file: `${service}/domain/budget-window.ts`,
    find: 'return new Date(isEarly ? early : late)',
    replace: 'return new Date(isEarly ? late : late)',
    suites: [`${service}/domain/budget-window.test.ts`],
  },
  {
    name: 'budgets: an overdraft is not refused by the store',
    file: `${service}/store/save-credit.ts`,
    find: 'l.taken + n.usd <= n.most)',
    replace: 'n.usd <= n.most)',
    suites: ['test/store/budgets.test.ts', 'test/crash/budgets.test.ts'],
  },
  {
    name: 'budgets: a ledger is counted while another transaction changes it',
    file: `${service}/store/statements/budgets.ts`,
    find: ' AND l.xmin = b.xmin',
    replace: '',
    suites: ['test/store/budgets.test.ts'],
  },
  {
    name: 'budgets: what a run spends before it has credit of a budget counts nowhere',
    file: `${service}/domain/commands/report-run.ts`,
    find: 'if (isCounted && credits?.[key] === undefined)',
    replace: 'if (isCounted && credits?.[key] === -1)',
    suites: ['test/conformance/budgets.test.ts'],
  },
];

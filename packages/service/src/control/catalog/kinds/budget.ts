import { isZone, zoneProblem } from '../../../lib/zone.ts';
import { forgetLedger } from '../../../store/statements/budgets.ts';
import type { KindRules } from './rules.ts';

/** What decides which spending counts. */
const scope = ['window', 'zone', 'workspace', 'account'] as const;

export const budgetRules: KindRules = {
  check: ({ zone }) =>
    zone === undefined || isZone(String(zone))
      ? null
      : { field: 'zone', description: zoneProblem(String(zone)) },
  warnings: ({ amountUsd }) =>
    amountUsd === undefined
      ? [{ field: 'amountUsd', description: 'is not set: this budget limits nothing' }]
      : [],
  onWrite: async ({ connection, tenant, write, row }, document) => {
    const isSame = row.document && scope.every((field) => row.document?.[field] === document[field]);
    if (!isSame) await forgetLedger(connection, tenant, `budget/${write.name}`);
    return { document };
  },
  onDelete: async (connection, tenant, { name }) => {
    await forgetLedger(connection, tenant, `budget/${name}`);
  },
};

import { isZone } from '../../../domain/budget-window.ts';
import { forgetLedger } from '../../../store/statements/budgets.ts';
import type { KindRules } from './rules.ts';

/** What decides which spending counts. */
const scope = ['window', 'zone', 'workspace', 'account'] as const;

export const budgetRules: KindRules = {
  check: ({ amountUsd, zone }) => {
    if (amountUsd === undefined)
      return { field: 'amountUsd', description: 'is required: the most that may be spent, in USD' };
    return zone === undefined || isZone(String(zone))
      ? null
      : {
          field: 'zone',
          description: `must be the name of a time zone such as Europe/Berlin; got "${zone}"`,
        };
  },
  onWrite: async ({ connection, tenant, write, row }, document) => {
    const isSame = row.document && scope.every((field) => row.document?.[field] === document[field]);
    if (!isSame) await forgetLedger(connection, tenant, `budget/${write.name}`);
    return { document };
  },
  onDelete: async (connection, tenant, { name }) => {
    await forgetLedger(connection, tenant, `budget/${name}`);
  },
};

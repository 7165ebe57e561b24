import { listChangeRequests, readChangeRequest } from '../../../store/statements/change-requests.ts';
import { changeRequestOf } from '../../agents/views.ts';
import type { KindRules } from './rules.ts';

export const changeRequestRules: KindRules = {
  records: {
    read: async (database, tenant, tenantName, name) => {
      const [row] = await readChangeRequest(database, tenant, name);
      return row && changeRequestOf(row, tenantName);
    },
    list: async (database, tenant, tenantName, after, count) => {
      const rows = await listChangeRequests(database, tenant, after, count);
      return rows.map((row) => ({ name: row.name, document: changeRequestOf(row, tenantName) }));
    },
  },
};

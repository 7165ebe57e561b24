import { readPersonaUse } from '../../../store/statements/resources.ts';
import { refusePersonaName } from '../../access/permit.ts';
import type { KindRules } from './rules.ts';

export const personaRules: KindRules = {
  refuseNew: async (connection, tenant, caller, { name, generation }) => {
    const [use] = await readPersonaUse(connection, tenant, name);
    return use ? refusePersonaName(caller, name, { ...use, wasWritten: generation > 0 }) : null;
  },
};

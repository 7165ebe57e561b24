import { hostRuleOf } from '../../../lib/host-rules.ts';
import type { KindRules } from './rules.ts';

/** More of them are not looked at, because a document can have very many. */
const mostHosts = 1_000;

export const environmentRules: KindRules = {
  warnings: ({ allowHosts }) =>
    (Array.isArray(allowHosts) ? allowHosts : []).slice(0, mostHosts).flatMap((host: string, at) =>
      hostRuleOf(host)
        ? []
        : {
            field: `allowHosts[${at}]`,
            description: `"${host.slice(0, 100)}" matches no host; expected name, *.name or name:port, without https:// or a path`,
          },
    ),
};

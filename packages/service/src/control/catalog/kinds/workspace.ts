import { mcpServersProblem } from '../../../lib/mcp-servers.ts';
import { readRepos } from '../../../lib/repositories.ts';
import type { KindRules } from './rules.ts';

export const workspaceRules: KindRules = {
  check: ({ mcpServers }) => (mcpServers ? mcpServersProblem(mcpServers) : null),
  /** The first problem that would block the agents of this workspace. */
  warnings: ({ repos }) => {
    try {
      readRepos({ repos });
      return [];
    } catch (error) {
      const [field = '', ...description] = (error as Error).message.split(' ');
      return [{ field, description: description.join(' ').slice(0, 400) }];
    }
  },
};

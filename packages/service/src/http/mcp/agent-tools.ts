import { childTools } from './child-tools.ts';
import { taskTools } from './task-tools.ts';
import type { Tool } from './tool.ts';
import { turnTools } from './turn-tools.ts';

/** What an agent can do with the key of its run. */
export const agentTools: readonly Tool[] = [...taskTools, ...turnTools, ...childTools];

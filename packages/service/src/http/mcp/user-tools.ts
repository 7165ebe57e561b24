import { refuseAccess } from '../../control/permit.ts';
import type { Principal } from '../../control/principal.ts';
import { commandTools } from './command-tools.ts';
import { lookTools } from './look-tools.ts';
import type { Tool } from './tool.ts';

/** What a user can do with a key of its own. One that may only read is refused the others, and is not shown them. */
export const userTools: readonly Tool[] = [...commandTools, ...lookTools];

export const toolsShownTo = (caller: Principal): readonly Tool[] =>
  refuseAccess(caller, 'command') ? lookTools : userTools;

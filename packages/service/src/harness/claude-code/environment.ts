import { join } from 'node:path';
import type { Work } from '../harness.ts';
import { harnessModel } from './models.ts';

/** The token again, for the agent's tools: Claude keeps its own variables out of their configuration. */
export const tokenVariable = 'MUSTER_RUN_TOKEN';

/** What Claude Code reads from its environment, on top of what every process of the agent has. */
export function claudeEnvironment(
  { homeFolder, endpoint }: Work,
  helperModel: string,
): Record<string, string> {
  const temporary = join(homeFolder, 'tmp');
  return {
    HOME: homeFolder,
    CLAUDE_CONFIG_DIR: join(homeFolder, '.claude'),
    // Its sockets and scratch files would otherwise be in folders that all agents of a machine share.
    TMPDIR: temporary,
    CLAUDE_CODE_TMPDIR: temporary,
    XDG_RUNTIME_DIR: join(homeFolder, 'run'),
    ANTHROPIC_BASE_URL: `${endpoint.url}/anthropic`,
    ANTHROPIC_AUTH_TOKEN: endpoint.token,
    [tokenVariable]: endpoint.token,
    // For what it asks on the side. The gateway refuses any model but this one and those of the agent's settings.
    ANTHROPIC_DEFAULT_HAIKU_MODEL: harnessModel(helperModel),
    // It would otherwise ask for a newer model than an old one that the settings name.
    CLAUDE_CODE_DISABLE_LEGACY_MODEL_REMAP: '1',
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
    CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS: '1',
    // Ten by default, and then a wrong key fails only after minutes.
    CLAUDE_CODE_MAX_RETRIES: '4',
    // Its session is all the memory that an agent has: it is what moves to another runner with it.
    CLAUDE_CODE_DISABLE_AUTO_MEMORY: '1',
    // A command that goes on when the turn is over would end with the run, unseen; so it may take its time instead.
    CLAUDE_CODE_DISABLE_BACKGROUND_TASKS: '1',
    BASH_MAX_TIMEOUT_MS: String(60 * 60 * 1000),
    // Root may not go without permission prompts unless it says that it is contained.
    IS_SANDBOX: '1',
  };
}

import { chooseSandbox, type SandboxChoice } from '../runner/sandbox/probe.ts';
import type { RunnerConfig } from './config.ts';
import { ConfigError } from './variables.ts';

/** Fails if the configuration requires a sandbox and there is none. */
export const chooseConfiguredSandbox = (config: RunnerConfig): Promise<SandboxChoice> =>
  chooseSandbox(config.sandbox, config.sandboxReads).catch((error: Error) => {
    throw new ConfigError(error.message);
  });

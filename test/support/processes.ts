import {
  type AgentProcesses,
  agentProcesses,
  baseEnvironment,
} from '../../packages/service/src/runner/sandbox/processes.ts';

/** An agent's processes without a sandbox, for tests of a harness alone. No gateway answers them. */
export function unsandboxedProcesses(folders: {
  readonly workspaceFolder: string;
  readonly homeFolder: string;
}): AgentProcesses {
  return agentProcesses({
    sandbox: null,
    folders,
    dataFolder: folders.homeFolder,
    runFolder: folders.homeFolder,
    environment: baseEnvironment({
      isSandboxed: false,
      homeFolder: folders.homeFolder,
      agentKey: '00000000-0000-4000-8000-000000000001',
      runId: 1,
    }),
    gateway: { port: 9 },
  });
}

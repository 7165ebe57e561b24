/** What to do about an agent that failed, by the code of its error; the message says what went wrong. */
const advice: Readonly<Record<string, string>> = {
  RUNNER_LOST: 'Look at the runner’s log: its machine may be out of memory. Then spawn the agent again.',
  NO_HARNESS: 'Start a runner that has a harness for this model, or choose another model.',
  WORKSPACE_NOT_PREPARED:
    'Check the address of the repository in the workspace, and the runner’s credentials for it.',
  ENVIRONMENT_INVALID:
    'Mend the variables of the environment in the catalog, or give the runner what they name.',
  SETUP_FAILED:
    'The output of the set-up is in the transcript. Mend the environment’s commands, then spawn it again.',
  SESSION_NOT_OPENED: 'Run “muster doctor” on the runner’s machine: the harness may not be installed.',
  PROVIDER_REFUSED: 'Check the provider’s key on the runner, and the balance of its account.',
  PROVIDER_ERROR: 'Look at what the provider said. If it is its own trouble, spawn the agent again later.',
  HARNESS_ERROR: 'The end of the transcript says what the harness did last. Spawn the agent again to retry.',
  INVALID_OUTPUT_SCHEMA: 'Mend the output schema, then spawn the agent again.',
  INVALID_STRUCTURED_OUTPUT: 'Make the schema say more clearly what you want, or ask for less.',
  STRUCTURED_OUTPUT_TOO_LARGE: 'Ask for a smaller output, or for a file in its branch.',
  REPORT_FAILED: 'Search the log of the service for the incident number. Then spawn the agent again.',
  INTERNAL: 'Search the log of the service for the incident number. Then spawn the agent again.',
  REPORT_REFUSED: 'The log of the service has the reason. Spawn the agent again to retry.',
  REHEARSED_FAILURE: 'It was told to fail. Spawn another without “!fail”.',
  INVALID_DIRECTIVE: 'Mend the directive in the message, then spawn the agent again.',
};

export const adviceOn = (code: string): string =>
  advice[code] ?? 'The end of the transcript says what happened before.';

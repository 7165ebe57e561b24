/**
 * Why runs fail, by the code of their error, and what follows for the agent:
 *
 *   final     the agent ends as FAILED
 *   passing   usually goes away: the same messages are retried, with growing delays, for a day
 *   fixable   a person has to fix something: the agent is BLOCKED until then
 *
 * A code that is not listed is fixable. `fix` says what to do; `{runner}` and `{model}` are filled in.
 */
export type FaultClass = 'final' | 'passing' | 'fixable';

interface Fault {
  readonly class: FaultClass;
  /** When this code is reported. */
  readonly why: string;
  readonly fix: string;
}

const final = (why: string): Fault => ({ class: 'final', why, fix: '' });
const passing = (why: string, fix: string): Fault => ({ class: 'passing', why, fix });
const fixable = (why: string, fix: string): Fault => ({ class: 'fixable', why, fix });

export const faults = {
  AGENT_FAILED: final('the agent declared that it failed, with its `fail` tool'),
  REHEARSED_FAILURE: final('a directive made the rehearsal agent fail (`!fail`)'),

  GIT_UNREACHABLE: passing(
    'the host of a repository, or the network, was unreachable',
    'The git host stayed unreachable from runner {runner}. Check the host and the network, then retry.',
  ),
  PROVIDER_UNAVAILABLE: passing(
    'the provider was down or gave no answer',
    'The provider stayed unavailable. Retry when it works again.',
  ),
  DISK_FULL: passing(
    "the runner's disk was full",
    'The disk of runner {runner} stayed full. Free some space, then retry.',
  ),

  PROVIDER_KEY_REFUSED: fixable(
    "the provider refused the runner's key (401)",
    'The provider refused the key. Fix it on runner {runner}, then retry.',
  ),
  PROVIDER_OUT_OF_CREDIT: fixable(
    "the account behind the runner's key is empty (402)",
    'The account at the provider is out of credit. Add credit, or use another one on runner {runner}, then retry.',
  ),
  PROVIDER_FORBIDDEN: fixable(
    "the provider does not permit the request to the runner's key (403)",
    'The key of runner {runner} lacks a permission at the provider. Grant it or use another key, then retry.',
  ),
  MODEL_UNKNOWN: fixable(
    'the provider does not know the model',
    'The provider does not offer the model {model} to runner {runner}. Send a message with another model, or give the runner an account that has it, then retry.',
  ),
  MODEL_UNPRICED: fixable(
    'the price of the model is not known, and a budget allows only models with a price',
    'Add the price of {model} to the file that MUSTER_PRICES of runner {runner} names, or send a message with another model.',
  ),
  CONTEXT_OVERFLOW: fixable(
    "the conversation is larger than the model's context, also after compaction",
    'The conversation does not fit into the context of {model}. Send a message with a larger model, or preempt with a shorter task.',
  ),
  OUTPUT_LIMIT: fixable(
    'the answer reached the output limit of the model',
    'The answer reached the output limit of {model}. Send a message that asks for smaller steps, or retry.',
  ),
  REFUSAL: fixable(
    'the model refused to answer',
    'The model refused to answer. Send a message that rephrases the task, or one with another model.',
  ),
  PROVIDER_ERROR: fixable(
    'the provider answered with another error that the harness could not handle',
    'Read what the provider answered and fix it, then retry.',
  ),
  GATEWAY_REFUSED: fixable(
    "the runner's gateway refused a request of the harness; the provider did not get it",
    'Fix what the gateway of runner {runner} says, then retry.',
  ),
  INVALID_OUTPUT_SCHEMA: fixable(
    "the output schema can't be used",
    'Send a message with a valid `outputSchema`.',
  ),
  INVALID_STRUCTURED_OUTPUT: fixable(
    'the structured output does not fit the schema, also after a correction',
    'Send a message that says what the structured output has to contain, or one with another `outputSchema`.',
  ),
  STRUCTURED_OUTPUT_TOO_LARGE: fixable(
    'the structured output is larger than 256 KiB or nested deeper than 64 levels',
    'Send a message that asks for a smaller output, or for a file in its branch.',
  ),
  NO_HARNESS: fixable(
    'the runner has no harness for the model',
    'Runner {runner} has no harness for {model}. Set it up there, or send a message with another model.',
  ),
  WORKSPACE_NOT_PREPARED: fixable(
    'a repository could not be fetched or cloned: its host refused it or does not exist, or this runner does not permit it',
    'Fix the repositories of the workspace, or the git credentials of runner {runner}, then retry.',
  ),
  POLICY: fixable(
    'a policy of the tenant or of the workspace does not allow a setting of the agent',
    'A policy does not allow a setting of this agent. Send a message with a setting that it allows, or have an admin change the policy, then retry.',
  ),
  SETUP_FAILED: fixable(
    'a set-up command failed; its output is in the timeline',
    'A set-up command of the environment failed. Fix the environment or what the command needs, then retry.',
  ),
  ENVIRONMENT_INVALID: fixable(
    "a variable of the environment, or a value of an MCP server, can't be given: a bad name, or one that the runner does not have or does not give",
    'Fix the environment or the workspace, or the variables of runner {runner}, then retry.',
  ),
  SESSION_NOT_OPENED: fixable(
    'the harness could not be started, or its session not be resumed',
    'Run `muster doctor` on runner {runner} and fix what it reports, then retry.',
  ),
  HARNESS_ERROR: fixable(
    'the harness died, or reported a fault',
    'Read the end of the transcript and the log of runner {runner}, then retry.',
  ),
  INVALID_DIRECTIVE: fixable(
    "the rehearsal agent can't follow a directive",
    'Retry, or send a message with a correct directive: then the agent skips this one.',
  ),
  RUNNER_LOST: fixable(
    'its runner died three times in a row',
    'Find out why runner {runner} dies: its machine may be out of memory. Then retry.',
  ),
  REPORT_REFUSED: fixable(
    'the service refused a report of the run, such as one with an impossible number of tokens',
    'Find the reason in the log of the service, then retry.',
  ),
  REPORT_FAILED: fixable(
    'the service failed three times on the same report of the run; the message has the incident number',
    'Search the log of the service for the incident number, then retry.',
  ),
  INTERNAL: fixable(
    "the service can't work with the agent's stored state; the message has the incident number",
    'Search the log of the service for the incident number, then retry.',
  ),
} as const satisfies Record<string, Fault>;

export type FaultCode = keyof typeof faults;

const otherFault = fixable('', 'Fix what the error says, then retry.');

export const faultOf = (code: string): Fault =>
  Object.hasOwn(faults, code) ? faults[code as FaultCode] : otherFault;

const firstDelays = [30, 60, 120, 240, 480];

/** The delay before a batch with this number of passing faults in a row is retried. */
export const retryDelayMs = (faultsInARow: number): number => (firstDelays[faultsInARow - 1] ?? 600) * 1000;

/** A passing fault that lasts this long counts as fixable. */
export const retriedForMs = 24 * 3600 * 1000;

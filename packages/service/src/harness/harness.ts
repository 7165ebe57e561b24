import type { ChildProcessWithoutNullStreams } from 'node:child_process';
import type {
  Claim,
  FaultCode,
  ModelProvider,
  partialTypes,
  ReportItem,
  ReportRequest,
  Task,
  UsagePart,
  WorkspaceTool,
} from '@muster/sdk/contract';
import type { ProviderModel } from '../lib/models.ts';
import type { ValueMask } from '../lib/value-mask.ts';

/**
 * The interface between the runner and a harness (Claude Code, Codex, the rehearsal agent). A harness opens or resumes a
 * session for one run, receives one message at a time, and is idle after each.
 */
export interface Harness {
  /** The files of a session, as patterns below the agent's home; none when there is nothing to save. */
  sessionFiles(session: string): readonly string[];
  /** The provider that the run may use through the gateway. A harness without it uses no model. Throws if there is none. */
  providerOf?(claim: Claim): ProviderAccess;
  open(work: Work, listener: HarnessListener): Promise<HarnessSession>;
}

export interface ProviderAccess {
  readonly name: ModelProvider;
  /** As named in requests to the provider. */
  readonly models: readonly string[];
  /** Whether it may search the web for the run. */
  readonly webSearch?: boolean;
  /** For models whose name has no price: the model whose price applies. */
  readonly pricedAs?: Readonly<Record<string, string>>;
  /** What the provider calls models that the harness knows by another name. */
  readonly renames?: Readonly<Record<string, string>>;
}

/** What a model of the agent's settings is at the runner's provider, or why the runner can't use it. */
export type FindModel = (model: string) => ProviderModel | string;

/** The access to the provider of the run's model. Earlier models of the session that another provider has are left out. */
export function accessOf(claim: Claim, find: FindModel, ...others: readonly ProviderModel[]): ProviderAccess {
  const { provider } = modelOrThrow(find(claim.model));
  const found = [...modelsOf(claim).map(find), ...others]
    .filter((model) => typeof model !== 'string')
    .filter((model) => model.provider === provider);
  const priced = found.flatMap(({ name, pricedAs }) => (pricedAs ? [[name, pricedAs] as const] : []));
  return {
    name: provider,
    models: [...new Set(found.map(({ name }) => name))],
    webSearch: allowsTool(claim, 'web_search'),
    ...(priced.length > 0 && { pricedAs: Object.fromEntries(priced) }),
  };
}

export function modelOrThrow(found: ProviderModel | string): ProviderModel {
  if (typeof found === 'string') throw new Error(found);
  return found;
}

/** The models that the agent's settings have named during its session. An older service sends only the newest. */
export const modelsOf = ({ model, models }: Claim): string[] => [...new Set([model, ...(models ?? [])])];

/** Whether the workspace turns on a tool of the harness. Its document may be older than the check of this field. */
export const allowsTool = ({ workspace }: Claim, tool: WorkspaceTool): boolean => {
  const { tools } = workspace.document;
  return Array.isArray(tools) && tools.includes(tool);
};

/** Whether the agent reads the repository's own settings for agents. */
export const readsProject = ({ workspace }: Claim): boolean => workspace.document.projectSettings !== false;

/** What a harness gets for a run. */
export interface Work {
  readonly claim: Claim;
  /** The agent's files, which it may write. */
  readonly workspaceFolder: string;
  /** HOME of the agent's processes; never the runner's own. */
  readonly homeFolder: string;
  /** The agent's own tools, with a key that is valid during the run. */
  readonly tools: AgentTools;
  /** Aborts `open` when the session is no longer needed. */
  readonly signal: AbortSignal;
  /** For the system prompt: who the agent is, the rules, its persona and its checklist. */
  readonly instructions: string;
  /** Whether to resume the session of the claim; otherwise a new one is started. */
  readonly resumes: boolean;
  /**
   * The run's endpoint of the gateway, as its processes reach it: `url`/anthropic, `url`/bedrock,
   * `url`/vertex and `url`/openai/v1 are the providers, `url`/mcp the agent's tools. The token is valid during the run.
   */
  readonly endpoint: { readonly url: string; readonly token: string };
  readonly processes: Processes;
  /** The team's own tools. */
  readonly mcpServers: McpServers;
  /** Replaces the values of secrets in what the agent's processes wrote. To be applied before a text is cut. */
  readonly mask: ValueMask;
  /** For usage that the gateway does not measure, to be reserved before it is reported. */
  readonly credit: Credit;
}

/** What the run may still spend within the budgets above its agent. */
export interface Credit {
  /**
   * Reserves the most that something can cost; undefined where this model has no price. Waits while the service does not
   * answer. Resolves to undefined when the signal aborts.
   */
  reserve(
    mostUsd: number | undefined,
    model: string,
    signal: AbortSignal,
  ): Promise<Reservation | Refusal | undefined>;
  /** Counts what was not reserved. */
  spent(costUsd: number): void;
}

export interface Reservation {
  /** Replaces what was reserved by what it has cost. Only the first call counts. */
  settle(costUsd: number): void;
}

export interface Refusal {
  /** The budget that is spent, for people. */
  readonly refusal: string;
}

/** The MCP servers of the agent's workspace. No name is that of Muster's own server. */
export interface McpServers {
  readonly servers: readonly McpServer[];
  /** Variables of the harness's process that the local servers need. */
  readonly environment: Readonly<Record<string, string>>;
  /** The names of the variables that every process of the agent has. */
  readonly commonVariables: readonly string[];
}

export type McpServer =
  /** A remote server at this path of the run's endpoint, with the run's token. */
  | { readonly name: string; readonly path: string }
  /** A local server, which the harness starts with these variables of its environment and the common ones. */
  | {
      readonly name: string;
      readonly command: string;
      readonly args: readonly string[];
      readonly variables: readonly string[];
    };

/** Starts processes of the agent in its workspace: in its sandbox, with its environment and limits. */
export interface Processes {
  start(argv: readonly string[], options?: StartOptions): AgentProcess;
}

export interface StartOptions {
  /** Added to the environment of every process of the agent. */
  readonly environment?: Readonly<Record<string, string>>;
  /** Additional folders and files that it may read: the harness's own programs. */
  readonly reads?: readonly string[];
  /** `later`: it starts before the gateway is ready. `never`: it has no gateway. By default it waits for the gateway. */
  readonly gateway?: 'later' | 'never';
}

export interface AgentProcess {
  readonly child: ChildProcessWithoutNullStreams;
  /** Resolves, never rejects, when the process and everything that it started have ended. */
  readonly exited: Promise<ProcessExit>;
  /** Resolves, never rejects, when the process can reach the gateway, or has ended. */
  readonly gatewayReady: Promise<void>;
  /** Asks it to end, and kills it a little later. */
  end(): void;
  /** Resolves when the process and everything that it started have ended. */
  kill(): Promise<void>;
}

export interface ProcessExit {
  readonly exitCode: number | null;
  readonly signal: string | null;
}

export type OpenTask = Pick<Task, 'id' | 'subject' | 'description' | 'dedupKey' | 'ephemeral'>;

export interface AgentTools {
  addTask(subject: string): Promise<void>;
  /** By id, else by subject. */
  startTask(idOrSubject: string): Promise<void>;
  completeTask(idOrSubject: string): Promise<void>;
  /** Deletes a task, with the reason as its note. */
  declineTask(id: string, reason: string): Promise<void>;
  /** Active, unfinished tasks in the order in which they can be done. */
  openTasks(): Promise<readonly OpenTask[]>;
  spawnChild(name: string, description: string): Promise<void>;
}

/** What a harness reports while it works. */
export interface HarnessListener {
  /** `images` are what a tool returned, as base64. They are not checked: the agent's processes may have written them. */
  item(item: ReportItem, images?: readonly string[]): void;
  /** The next piece of a text of which an item will be reported. That item has the key in `data.key`. */
  partial(partial: PartialOutput): void;
  /** No item will be reported of this text. */
  discardPartial(key: string): void;
  /** Whether someone watches the agent, so that partials have a reader. */
  isWatched(): boolean;
  action(currentAction: string): void;
  usage(usage: Usage): void;
  /** How full the model's context is. A window of 0 is not known. */
  context(context: ContextUse): void;
  push(push: Push): void;
  diff(diff: Diff): void;
  /** The harness's id of the session, for the next run to resume. */
  session(ref: string): void;
}

export interface PartialOutput {
  readonly key: string;
  /** The type of the item. */
  readonly type: (typeof partialTypes)[number];
  /** Not masked: a value may be divided between two pieces. */
  readonly text: string;
}

export type Usage = Readonly<
  Record<Exclude<keyof NonNullable<ReportRequest['usage']>, 'parts'>, number> & {
    /** What each model and account used of it; absent where no provider was asked. */
    parts?: UsagePart[];
  }
>;
export type ContextUse = Readonly<NonNullable<ReportRequest['context']>>;
export type Diff = NonNullable<ReportRequest['diff']>;
export type Push = NonNullable<ReportRequest['pushes']>[number];

/** A message to the agent. */
export interface Message {
  readonly text: string;
  readonly images: readonly Image[];
}

export interface Image {
  readonly mediaType: string;
  readonly base64: string;
}

export interface HarnessSession {
  /** Delivers one message and resolves when the harness is idle. */
  deliver(message: Message): Promise<TurnResult>;
  /**
   * Adds a message to the turn that is running. Resolves, never rejects: true when the model has received it or will receive it in
   * this turn; false if no turn is running, or the turn ended before.
   */
  steer(message: Message): Promise<boolean>;
  /**
   * Graceful: `deliver` resolves soon with `interrupted` and the response so far. Applies to the whole session: a later
   * `deliver` is interrupted immediately.
   */
  interrupt(): void;
  /** Immediate: resolves when all processes of the session have ended. */
  kill(): Promise<void>;
  /** Ends an idle session. */
  close(): Promise<void>;
}

export type TurnResult =
  | {
      readonly type: 'done';
      readonly response: string;
      readonly structuredOutput?: unknown;
      readonly question?: string;
      readonly finished?: boolean;
    }
  | { readonly type: 'interrupted'; readonly response: string }
  | {
      readonly type: 'parked';
      readonly until: Date;
      readonly message: string;
      /** Not a limit of the provider: a budget is spent. */
      readonly isBudget?: boolean;
    }
  | {
      readonly type: 'failed';
      readonly code: FaultCode;
      readonly message: string;
      readonly response?: string;
    };

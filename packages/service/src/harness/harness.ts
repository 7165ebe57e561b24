import type { ChildProcessWithoutNullStreams } from 'node:child_process';
import type { Claim, FaultCode, ReportItem } from '@muster/sdk/contract';

/**
 * What a harness is to the runner: something that opens (or resumes) a session for one run, takes messages one at a
 * time, and comes to rest after each. Claude Code, Codex and the rehearsal agent stand behind this one endpoint.
 */
export interface Harness {
  /** The files that make up a session, as patterns below the agent's home; none when there is nothing to keep. */
  sessionFiles(session: string): readonly string[];
  /** What the run may call through the gateway; a harness without it calls no model. */
  providerOf?(claim: Claim): ProviderAccess;
  open(work: Work, listener: HarnessListener): Promise<HarnessSession>;
}

export type ProviderName = 'anthropic' | 'openai';

export interface ProviderAccess {
  readonly name: ProviderName;
  /** As the harness names them to the provider. */
  readonly models: readonly string[];
}

/** The models that the agent's settings have named in its session; an older service says only the newest. */
export const modelsOf = ({
  model,
  models,
}: Pick<Claim, 'model'> & Partial<Pick<Claim, 'models'>>): string[] => [
  ...new Set([model, ...(models ?? [])]),
];

/** Whether the agent reads what its repository says to every agent of its kind. */
export const readsProject = ({ workspace }: Pick<Claim, 'workspace'>): boolean =>
  workspace.document.projectSettings !== false;

/** Everything a harness may know about the run it serves. */
export interface Work {
  readonly claim: Claim;
  /** Where the agent's files are; it may write here. */
  readonly workspaceFolder: string;
  /** HOME of its processes: whatever they keep there is the agent's own, never the runner's. */
  readonly homeFolder: string;
  /** The agent's own tools: its checklist and its children, with a key that dies with the run. */
  readonly tools: AgentTools;
  /** Aborts when nobody waits for the session any more: an `open` that is under way gives up. */
  readonly signal: AbortSignal;
  /** Who the agent is, the rules of the house, its persona and its checklist: for the system prompt. */
  readonly instructions: string;
  /** The session that the claim names is here to be resumed; otherwise a new one is begun. */
  readonly resumes: boolean;
  readonly endpoint: RunEndpoint;
  readonly processes: Processes;
}

/**
 * The one way out of the sandbox: the runner's gateway, as the agent's processes reach it. `url`/anthropic and
 * `url`/openai/v1 are the providers, `url`/mcp the agent's tools. The token is the run's own and dies with it.
 */
export interface RunEndpoint {
  readonly url: string;
  readonly token: string;
}

/** Starts processes as the agent's own: in its sandbox, with its environment and its limits. */
export interface Processes {
  start(argv: readonly string[], options?: StartOptions): AgentProcess;
}

export interface StartOptions {
  /** Added to the environment that every process of the agent has. */
  readonly environment?: Readonly<Record<string, string>>;
  /** Where it starts; the workspace by default. */
  readonly folder?: string;
  /** Folders and files that it may read beyond what every process of the agent may: the harness's own programs. */
  readonly reads?: readonly string[];
  /** `later`: it starts at once, and goes to the endpoint only after `gatewayReady`. `never`: it has none. Any other waits for it. */
  readonly gateway?: 'later' | 'never';
}

export interface AgentProcess {
  readonly child: ChildProcessWithoutNullStreams;
  /** Resolves, never rejects, when it has ended and nothing that it started is left. */
  readonly exited: Promise<ProcessExit>;
  /** Resolves, never rejects, when the endpoint can be reached from within, or when nobody is left to go there. */
  readonly gatewayReady: Promise<void>;
  /** Asks it to end, and insists a little later. */
  end(): void;
  /** Resolves when nothing of it is left. */
  kill(): Promise<void>;
}

export interface ProcessExit {
  readonly exitCode: number | null;
  readonly signal: string | null;
}

export interface AgentTools {
  addTask(subject: string): Promise<void>;
  /** By id, else by subject. */
  startTask(idOrSubject: string): Promise<void>;
  completeTask(idOrSubject: string): Promise<void>;
  /** Active, unfinished tasks in the order in which they can be done. */
  openTasks(): Promise<readonly { readonly id: string; readonly subject: string }[]>;
  spawnChild(name: string, description: string): Promise<void>;
}

/** What a harness tells while it works. */
export interface HarnessListener {
  item(item: ReportItem): void;
  action(currentAction: string): void;
  usage(usage: Usage): void;
  push(push: Push): void;
  /** The harness's own name of the session, for the next run to resume. */
  session(ref: string): void;
}

export interface Usage {
  readonly inputTokens: number;
  readonly cachedInputTokens: number;
  readonly outputTokens: number;
  readonly costUsd: number;
}

/** What the agent's branch changed in one repository, against where it began. */
export interface Diff {
  readonly repo: string;
  /** As the working tree stands, instead of as it was pushed. */
  readonly workingTree: boolean;
  readonly files: number;
  readonly insertions: number;
  readonly deletions: number;
  readonly text: string;
}

export interface Push {
  /** The repository's URL, without credentials; absent in a workspace that has none. */
  readonly repo?: string;
  readonly ref: string;
  readonly commits: string[];
  readonly files: string[];
}

export interface HarnessSession {
  /** Delivers one message and resolves when the harness has come to rest. */
  deliver(text: string): Promise<TurnResult>;
  /**
   * Graceful: `deliver` resolves soon with `interrupted`, and with what was flushed. It holds for the whole session:
   * a `deliver` after it is interrupted at once.
   */
  interrupt(): void;
  /** Immediate: resolves when no process of the session is left. */
  kill(): Promise<void>;
  /** At rest: lets go of whatever the session holds. */
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
  | { readonly type: 'parked'; readonly until: Date; readonly message: string }
  | {
      readonly type: 'failed';
      readonly code: FaultCode;
      readonly message: string;
      readonly response?: string;
    };

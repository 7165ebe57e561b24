/** The part of the protocol of `codex app-server` that is used here, in the words of the protocol. */

export interface Requests {
  readonly initialize: {
    readonly params: {
      readonly clientInfo: { readonly name: string; readonly title: string; readonly version: string };
      readonly capabilities: { readonly experimentalApi: boolean; readonly requestAttestation: boolean };
    };
    readonly result: unknown;
  };
  readonly 'thread/start': { readonly params: ThreadParams; readonly result: ThreadReply };
  readonly 'thread/resume': {
    readonly params: ThreadParams & { readonly threadId: string; readonly excludeTurns: boolean };
    readonly result: ThreadReply;
  };
  readonly 'thread/inject_items': {
    readonly params: { readonly threadId: string; readonly items: readonly unknown[] };
    readonly result: unknown;
  };
  readonly 'thread/compact/start': {
    readonly params: { readonly threadId: string };
    readonly result: unknown;
  };
  readonly 'thread/backgroundTerminals/clean': {
    readonly params: { readonly threadId: string };
    readonly result: unknown;
  };
  readonly 'turn/start': {
    readonly params: TurnParams;
    readonly result: { readonly turn: { readonly id: string } };
  };
  readonly 'turn/interrupt': {
    readonly params: { readonly threadId: string; readonly turnId: string };
    readonly result: unknown;
  };
}

interface ThreadParams {
  readonly cwd: string;
  readonly model: string;
  readonly developerInstructions: string;
}

interface ThreadReply {
  readonly thread: { readonly id: string };
}

export interface TurnSettings {
  readonly model: string;
  /** Null leaves it to the model. */
  readonly effort: string | null;
  /** Null is the standard tier. */
  readonly serviceTier: string | null;
  readonly summary: 'auto';
  readonly outputSchema: unknown;
}

interface TurnParams extends TurnSettings {
  readonly threadId: string;
  readonly input: readonly {
    readonly type: 'text';
    readonly text: string;
    readonly text_elements: readonly [];
  }[];
}

export type Notification =
  | { readonly method: 'item/started' | 'item/completed'; readonly params: OfThread<{ item: ThreadItem }> }
  | { readonly method: 'turn/started' | 'turn/completed'; readonly params: OfThread<{ turn: Turn }> }
  | { readonly method: 'error'; readonly params: OfThread<{ error: TurnError; willRetry: boolean }> }
  | { readonly method: 'warning'; readonly params: { readonly message: string } }
  | {
      readonly method: 'mcpServer/startupStatus/updated';
      readonly params: { readonly name: string; readonly status: string };
    };

type OfThread<T> = Readonly<T> & { readonly threadId: string };

export interface Turn {
  readonly id: string;
  readonly status: 'completed' | 'interrupted' | 'failed' | 'inProgress';
  readonly error: TurnError | null;
}

export interface TurnError {
  readonly message: string;
  /** A word, or an object of one word that holds the status of the provider's answer. */
  readonly codexErrorInfo: string | Readonly<Record<string, unknown>> | null;
}

/** Items of other types (what the user said, a compaction) are not told. */
export type ThreadItem =
  | { readonly type: 'agentMessage'; readonly id: string; readonly text: string }
  | {
      readonly type: 'reasoning';
      readonly id: string;
      readonly summary: readonly string[];
      readonly content: readonly string[];
    }
  | CommandExecution
  | FileChange
  | McpToolCall
  | { readonly type: 'webSearch'; readonly id: string; readonly query: string }
  | { readonly type: 'imageView'; readonly id: string; readonly path: string }
  | { readonly type: 'contextCompaction'; readonly id: string };

export interface CommandExecution {
  readonly type: 'commandExecution';
  readonly id: string;
  readonly command: string;
  readonly aggregatedOutput: string | null;
  readonly exitCode: number | null;
}

export interface FileChange {
  readonly type: 'fileChange';
  readonly id: string;
  readonly changes: readonly {
    readonly path: string;
    readonly kind: { readonly type: 'add' | 'delete' | 'update' };
    readonly diff: string;
  }[];
  readonly status: string;
}

export interface McpToolCall {
  readonly type: 'mcpToolCall';
  readonly id: string;
  readonly server: string;
  readonly tool: string;
  readonly status: string;
  readonly arguments: unknown;
  readonly result: { readonly content: readonly unknown[] } | null;
  readonly error: { readonly message: string } | null;
}

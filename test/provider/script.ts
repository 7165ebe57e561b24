/**
 * What a model behind the stub does, step by step. A test registers a script and puts its marker into a message; the
 * stub finds the last marker in the conversation and counts what the model has said since, so a retried or resumed
 * request is answered like the first, and nothing depends on the order in which requests arrive.
 */
export type Step =
  /** Ends the turn with this text. */
  | { readonly say: string }
  /** Thinks aloud, then goes on with the next step in the same answer. */
  | { readonly think: string }
  /** A shell command in the agent's workspace, by the harness's own tool. */
  | { readonly shell: string }
  /** A file written by the harness's own editing tool. */
  | { readonly write: { readonly path: string; readonly text: string } }
  /** A text of a file, replaced by the harness's own editing tool. */
  | { readonly edit: { readonly path: string; readonly before: string; readonly after: string } }
  /** An image or a document, shown to the model by the harness's own tool. */
  | { readonly view: string }
  /** A tool of an MCP server: Muster's, with the agent's own tools, unless another is named. */
  | { readonly tool: string; readonly args: Readonly<Record<string, unknown>>; readonly server?: string }
  /** Ends the turn with this structured output, by whatever way the harness has for it. */
  | { readonly output: unknown }
  /** An error instead of an answer. It is given `times` (by default always) and then passed over. */
  | {
      readonly status: number;
      readonly headers?: Readonly<Record<string, string>>;
      readonly body?: unknown;
      readonly times?: number;
    }
  /** Begins an answer and sends nothing more, until the caller goes away; `times` as above. */
  | { readonly stall: true; readonly times?: number }
  /** Answers only when the promise resolves; then goes on with the next step in the same answer. */
  | { readonly until: Promise<unknown> };

/** What a model says it used, per answer. */
export interface Tokens {
  readonly input: number;
  readonly cached: number;
  readonly output: number;
}

/** One request as it came over the wire, for a test to look at. */
export interface SeenRequest {
  readonly provider: 'anthropic' | 'openai';
  readonly at: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: Readonly<Record<string, unknown>>;
}

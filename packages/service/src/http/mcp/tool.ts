import type { CallToolResult, ToolAnnotations } from '@modelcontextprotocol/sdk/types.js';
import {
  type AgentIdInput,
  type BodyOf,
  type Infer,
  type ReplyOf,
  type Route,
  type RouteName,
  routes,
  type Schema,
} from '@muster/sdk/contract';
import { refuseAccess } from '../../control/access/permit.ts';
import type { Principal } from '../../control/access/principal.ts';
import type { ReplySignal } from '../../control/watching/wakes.ts';
import type { RouteContext } from '../context.ts';
import { HttpError, httpErrorOf, throwRefusal, unlessRefused, withoutKeys } from '../errors.ts';
import { checked } from '../request-body.ts';
import type { Call } from '../route.ts';
import { handlerOf, type OperationName } from '../routes/operations.ts';

/** One call of a tool. */
export interface ToolCall {
  readonly context: RouteContext;
  readonly caller: Principal;
  /** Of the request to `/mcp`. */
  readonly traceparent?: string | undefined;
  /** Aborts when the client disconnects, the key stops working, or the service shuts down. */
  readonly signal: ReplySignal;
}

/** What a tool returns to the model: a text, and the same as data for clients that prefer data. */
export interface ToolReply {
  readonly text: string;
  readonly data?: Record<string, unknown>;
}

export interface Tool {
  readonly name: string;
  readonly description: string;
  readonly inputSchema: { readonly type: 'object' };
  /** Whether the tool only reads, or destroys something: clients ask their user accordingly. */
  readonly annotations?: ToolAnnotations;
  run(args: unknown, call: ToolCall): Promise<ToolReply>;
}

/** The schema of a text argument. */
export const string = (description: string, constraints: Schema = {}) =>
  ({ type: 'string', description, ...constraints }) as { readonly type: 'string' } & Schema;
/** The same, of an argument that must not be empty. */
export const text = (description: string, constraints: Schema = {}) =>
  string(description, { minLength: 1, ...constraints });

type Properties = Readonly<Record<string, Schema>>;
type Args<P, R> = Infer<{ readonly type: 'object'; readonly properties: P; readonly required: readonly R[] }>;
type Result = string | ToolReply;

export interface Definition<P, R> {
  readonly name: string;
  readonly description: string;
  readonly input: P;
  readonly required?: readonly R[];
  readonly run: (args: Args<P, R>, call: ToolCall) => Promise<Result>;
}

/** A tool that runs only with valid arguments. */
export function tool<const P extends Properties, const R extends keyof P & string = never>(
  definition: Definition<P, R>,
): Tool {
  const { name, description, input, required = [], run } = definition;
  const schema = { type: 'object', properties: input, required } as const;
  return {
    name,
    description,
    inputSchema: JSON.parse(JSON.stringify(schema, (key, value) => (hidden.has(key) ? undefined : value))),
    run: async (args, call) => {
      const result = await run(checked(args, schema) as Args<P, R>, call);
      return typeof result === 'string' ? { text: result } : result;
    },
  };
}

/** Keywords of the contract's schemas that mean nothing to a model. */
const hidden = new Set(['title', 'expected']);

/** The arguments by which a group of tools names an agent, the required one first, and which agent they mean. */
export interface Target<P, R> {
  readonly input: P;
  readonly required: readonly R[];
  agentId(caller: Principal, args: Args<P, R>): AgentIdInput;
}

/** A call for one agent: `name` is what the model called it. */
export interface AgentCall extends ToolCall {
  readonly name: string;
  readonly agentId: AgentIdInput;
}

export type AgentDefinition<P, R> = Omit<Definition<P, R>, 'input' | 'run'> & { readonly input?: P };

/** Defines tools for one agent. Their arguments come without those that name the agent. */
export const agentTool =
  <const TP extends Properties, const TR extends keyof TP & string>(target: Target<TP, TR>) =>
  <const P extends Properties = Record<never, Schema>, const R extends keyof P & string = never>({
    input,
    required = [],
    run,
    ...definition
  }: AgentDefinition<P, R> & {
    readonly run: (args: Args<P, R>, call: AgentCall) => Promise<Result>;
  }): Tool =>
    tool({
      ...definition,
      input: { ...target.input, ...input } as Properties,
      required: [...target.required, ...required],
      run: async (args, call) => {
        const agentId = target.agentId(call.caller, args as Args<TP, TR>);
        const own = Object.entries(args).filter(([field]) => !Object.hasOwn(target.input, field));
        const name = String((args as Record<string, unknown>)[target.required[0] ?? '']);
        return run(Object.fromEntries(own) as Args<P, R>, { ...call, name, agentId });
      },
    });

/**
 * Defines tools that call one route for one agent. The request has the fields of `body`, or else the arguments under
 * their own names; `reply` writes the route's reply for the model.
 */
export const routeTool =
  <const TP extends Properties, const TR extends keyof TP & string>(target: Target<TP, TR>) =>
  <
    N extends OperationName,
    const P extends Properties = Record<never, Schema>,
    const R extends keyof P & string = never,
  >({
    route,
    body,
    reply,
    ...definition
  }: AgentDefinition<P, R> & {
    readonly route: N;
    readonly body?: (args: Args<P, R>) => Omit<BodyOf<N>, 'agentId'>;
    readonly reply: (reply: ReplyOf<N>, call: AgentCall) => Result | Promise<Result>;
  }): Tool =>
    agentTool(target)<P, R>({
      ...definition,
      run: async (args, call) => {
        const request = { ...(body ? body(args) : args), agentId: call.agentId } as BodyOf<N>;
        return reply(await callRoute(call, route, request), call);
      },
    });

/** Calls a route of the contract as an HTTP request would. A refusal is thrown. */
export async function callRoute<N extends OperationName>(
  { context, caller, traceparent }: ToolCall,
  name: N,
  body: BodyOf<N>,
  path: Partial<Pick<Call<N>, 'params' | 'query'>> = {},
): Promise<ReplyOf<N>> {
  const call = {
    control: context.control,
    codeHosts: context.codeHosts,
    notifications: context.notifications,
    triggers: context.triggers,
    caller,
    traceparent,
    body: checkedBody(caller, name, body),
    params: {},
    query: {},
  };
  return unlessRefused(await handlerOf(name, context.control)({ ...call, ...path } as Call<N>));
}

/** A route's body with the checks that HTTP makes: its shape, and whether the caller has access. */
export function checkedBody<N extends RouteName>(caller: Principal, name: N, body: BodyOf<N>): BodyOf<N> {
  const { body: schema, access }: Route = routes[name];
  const value = schema && checked(body, schema);
  const refused = refuseAccess(caller, access);
  if (refused) throwRefusal(refused);
  return value as BodyOf<N>;
}

/** Runs a tool. An error is a result too: the model reads what is wrong and continues. */
export async function runTool(
  tools: readonly Tool[],
  { name, arguments: args = {} }: { readonly name: string; readonly arguments?: unknown },
  call: ToolCall,
): Promise<CallToolResult> {
  try {
    const called = tools.find((one) => one.name === name);
    if (!called) throw new HttpError('NOT_FOUND', `tool "${name}" not found`);
    const { text, data } = await called.run(args, call);
    return { content: [{ type: 'text', text }], ...(data && { structuredContent: data }) };
  } catch (error) {
    const text = errorText(error, call);
    return { content: [{ type: 'text', text }], isError: true };
  }
}

export const errorText = (error: unknown, { context }: ToolCall): string => {
  const { status, message } = httpErrorOf(error, context);
  return withoutKeys(`${status}: ${message}`);
};

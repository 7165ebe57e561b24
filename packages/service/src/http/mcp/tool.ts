import type { CallToolResult, ToolAnnotations } from '@modelcontextprotocol/sdk/types.js';
import { type BodyOf, type Route, type RouteName, routes } from '@muster/sdk/contract';
import { z } from 'zod';
import { refuseAccess } from '../../control/permit.ts';
import type { Principal } from '../../control/principal.ts';
import { invalid, isRefusal, notFound, type Refusal } from '../../control/refusal.ts';
import { validator } from '../../lib/validator.ts';
import type { RouteContext } from '../context.ts';
import { edgeErrorOf, invalidField, throwRefusal, withoutKeys } from '../errors.ts';
import { normalize } from '../normalize.ts';

/** One call of a tool: for whom, and how long somebody waits for it. */
export interface ToolCall {
  readonly context: RouteContext;
  readonly caller: Principal;
  /** Aborts when the client is gone, the key is dead, or the service shuts down. */
  readonly signal: AbortSignal;
}

/** What a tool says to the model; `data` is the whole of it again, for clients that prefer data to text. */
export interface Said {
  readonly text: string;
  readonly data?: Record<string, unknown>;
}

export interface Tool {
  readonly name: string;
  readonly description: string;
  readonly inputSchema: { readonly type: 'object' };
  /** Whether it only reads, or destroys: clients ask their user before some and not before others. */
  readonly annotations?: ToolAnnotations;
  run(args: unknown, call: ToolCall): Promise<Said | Refusal>;
}

/** A tool that runs only with arguments that fit. */
export function tool<S extends z.ZodObject>(definition: {
  readonly name: string;
  readonly description: string;
  readonly input: S;
  readonly annotations?: ToolAnnotations;
  readonly run: (args: z.output<S>, call: ToolCall) => Promise<Said | Refusal>;
}): Tool {
  const { name, description, input, annotations, run } = definition;
  return {
    name,
    description,
    inputSchema: { ...z.toJSONSchema(input, { io: 'input' }), type: 'object' },
    ...(annotations && { annotations }),
    run: async (args, call) => {
      const { data, error } = input.safeParse(args);
      if (data) return run(data, call);
      const [issue] = error?.issues ?? [];
      return invalid(issue?.path.join('.') || 'arguments', issue?.message ?? 'do not fit');
    },
  };
}

/** A failure is an answer too: the model reads what is wrong and goes on. */
export async function answerOf(
  tools: readonly Tool[],
  asked: { readonly name: string; readonly arguments?: Record<string, unknown> | undefined },
  call: ToolCall,
): Promise<CallToolResult> {
  const called = tools.find(({ name }) => name === asked.name);
  if (!called) return failed(notFound(`there is no tool "${asked.name}"`));
  try {
    const said = await called.run(asked.arguments ?? {}, call);
    if (isRefusal(said)) return failed(said);
    return {
      content: [{ type: 'text', text: said.text }],
      ...(said.data && { structuredContent: said.data }),
    };
  } catch (error) {
    return failed(edgeErrorOf(error, call.context.log));
  }
}

const failed = ({ status, message }: Pick<Refusal, 'status' | 'message'>): CallToolResult => ({
  content: [{ type: 'text', text: withoutKeys(`${status}: ${message}`) }],
  isError: true,
});

/** The body of a route, held to what holds for one that came over HTTP: its shape, and whether the caller may. */
export function bodyFor<N extends RouteName>(caller: Principal, name: N, body: BodyOf<N>): BodyOf<N> {
  const { body: schema = {}, access }: Route = routes[name];
  const { value } = normalize(body, schema);
  const violation = validator(schema)(value);
  if (violation) throw invalidField(violation.field, violation.description);
  const refused = refuseAccess(caller, access);
  if (refused) throwRefusal(refused);
  return value as BodyOf<N>;
}

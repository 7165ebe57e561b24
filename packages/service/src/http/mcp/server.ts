import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import { WebStandardStreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js';
import { CallToolRequestSchema, ListToolsRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { AjvJsonSchemaValidator } from '@modelcontextprotocol/sdk/validation/ajv';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { refuseAccess } from '../../control/access/permit.ts';
import { nameOf, type Principal } from '../../control/access/principal.ts';
import { traceparentOf } from '../../lib/traces/tracer.ts';
import { version } from '../../lib/version.ts';
import type { RouteContext } from '../context.ts';
import { HttpError, invalidField, withoutKeys } from '../errors.ts';
import { abortSignal, relayEvents, whenClosed } from '../long-reply.ts';
import { agentTools } from './agent-tools.ts';
import { runTool, type Tool, type ToolCall } from './tool.ts';
import { serveTranscripts } from './transcript.ts';
import { readTools, userTools } from './user-tools.ts';

/** Shared by all requests; the library would create one for each. */
const jsonSchemaValidator = new AjvJsonSchemaValidator();

const maxFields = 1000;

interface Toolbox {
  readonly instructions: string;
  readonly tools: readonly Tool[];
  /** The tools that the list shows. */
  readonly listed: readonly Tool[];
  readonly hasTranscripts: boolean;
}

function toolboxOf(caller: Principal): Toolbox {
  const { role, agent } = caller;
  if (role === 'runner' || role === 'metrics' || role === 'share')
    throw new HttpError(
      'PERMISSION_DENIED',
      `a key of role ${role} has no tools: /mcp needs the key of a user or of a live run`,
    );
  if (role === 'agent')
    return {
      instructions: `You are the agent ${agent?.path.join('/')}. Use these tools to update your checklist, ask the people you work for, end your work, and spawn and manage child agents.`,
      tools: agentTools,
      listed: agentTools,
      hasTranscripts: false,
    };
  return {
    instructions: `Muster runs fleets of coding agents. You act for ${nameOf(caller)}, as ${role}. An agent is named by its path, such as fix-login, or fix-login/tests for a child of it. An agent works in turns. After a turn it is idle until it gets a message, needs input, or has finished. wait_for_agents returns when one of these happens.`,
    tools: userTools,
    listed: refuseAccess(caller, 'command') ? readTools : userTools,
    hasTranscripts: true,
  };
}

/** Answers one request to /mcp. */
export async function answer(
  context: RouteContext,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { caller, body, headers } = request;
  const toolbox = toolboxOf(caller);
  refuseManyFields(body);
  const { signal, release } = abortSignal(context, caller, reply, null);
  const server = serverOf(toolbox, {
    ...{ context, caller, signal },
    traceparent: request.trace && traceparentOf(request.trace),
  });
  const transport = new WebStandardStreamableHTTPServerTransport({
    enableJsonResponse: !headers.accept?.includes('text/event-stream'),
  });
  whenClosed(reply, () => {
    release();
    void server.close();
  });
  await server.connect(transport);
  const response = await transport.handleRequest(webRequest(request), { parsedBody: body });
  if (!response.headers.get('content-type')?.startsWith('text/event-stream')) return reply.send(response);
  await relayEvents(context, reply, response);
  return reply;
}

/** The library walks through the fields of these objects several times. */
function refuseManyFields(message: unknown): void {
  const { params } = Object(message) as { params?: unknown };
  const { arguments: args, _meta } = Object(params) as { arguments?: unknown; _meta?: unknown };
  const objects = { '': message, params, 'params.arguments': args, 'params._meta': _meta };
  for (const [field, value] of Object.entries(objects)) {
    const count = Array.isArray(value) ? value.length : Object.keys(Object(value)).length;
    if (count > maxFields) throw invalidField(field, `must have at most ${maxFields} fields`);
  }
}

/** Uses the low-level server, so that errors are in the service's own words and never repeat a key. */
function serverOf({ instructions, tools, listed, hasTranscripts }: Toolbox, call: ToolCall): Server {
  const server = new Server(
    { name: 'muster', version },
    {
      instructions,
      capabilities: { tools: {}, ...(hasTranscripts && { resources: {} }) },
      jsonSchemaValidator,
    },
  );
  server.setRequestHandler(ListToolsRequestSchema, () => ({
    tools: listed.map(({ run: _, ...fields }) => fields),
  }));
  server.setRequestHandler(CallToolRequestSchema, ({ params }) => runTool(tools, params, call));
  if (hasTranscripts) serveTranscripts(server, call);
  return server;
}

/** The transport requires that a client accepts both JSON and events; clients that accept only JSON are served too. */
function webRequest({ headers }: FastifyRequest): Request {
  const version = headers['mcp-protocol-version'];
  return new Request('http://localhost/mcp', {
    method: 'POST',
    headers: {
      accept: 'application/json, text/event-stream',
      'content-type': 'application/json',
      ...(version !== undefined && { 'mcp-protocol-version': withoutKeys(String(version)) }),
    },
  });
}

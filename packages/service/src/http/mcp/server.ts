import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import { WebStandardStreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js';
import { CallToolRequestSchema, ListToolsRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { AjvJsonSchemaValidator } from '@modelcontextprotocol/sdk/validation/ajv';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { nameOf, type Principal } from '../../control/principal.ts';
import type { RouteContext } from '../context.ts';
import { EdgeError, invalidField, withoutKeys } from '../errors.ts';
import { cutter, relayEvents, whenClosed } from '../long-reply.ts';
import { agentTools } from './agent-tools.ts';
import { answerOf, type Tool, type ToolCall } from './tool.ts';
import { serveTranscripts } from './transcript-resources.ts';
import { toolsShownTo, userTools } from './user-tools.ts';

/** Only servers that ask their clients for forms use it; one for all spares each request the making of its own. */
const jsonSchemaValidator = new AjvJsonSchemaValidator();

/** The tools of a key, and what its model is told about them. */
interface Toolbox {
  readonly instructions: string;
  readonly tools: readonly Tool[];
  /** Those of them that the list shows. */
  readonly shown: readonly Tool[];
  /** Whether transcripts are there to be read as resources. */
  readonly hasTranscripts: boolean;
}

function toolboxOf(caller: Principal): Toolbox {
  switch (caller.role) {
    case 'agent': {
      const path = caller.agent?.path.join('/') ?? '';
      return {
        instructions: `You are the agent ${path}. These tools keep your checklist, ask the people you work for, end your work, and give work to agents below you.`,
        tools: agentTools,
        shown: agentTools,
        hasTranscripts: false,
      };
    }
    case 'viewer':
    case 'member':
    case 'admin':
    case 'operator':
      return {
        instructions: `Muster runs fleets of coding agents. You act for ${nameOf(caller)}, as ${caller.role}. An agent is named by its path, such as fix-login, or fix-login/tests for a child of it. It works in turns: after a turn it rests until it gets a message, asks, or has finished; wait_for_agents tells when one of these is so.`,
        tools: userTools,
        shown: toolsShownTo(caller),
        hasTranscripts: true,
      };
    default:
      throw new EdgeError(
        'PERMISSION_DENIED',
        `a key of role ${caller.role} has no tools here: /mcp takes the key of a user or of a live run`,
      );
  }
}

/** Answers one request to /mcp. */
export async function answer(
  context: RouteContext,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { caller } = request;
  const toolbox = toolboxOf(caller);
  refuseManyFields(request.body);
  const { signal, release } = cutter(context, caller, reply);
  const server = serverOf(toolbox, { context, caller, signal });
  const accept = request.headers.accept ?? '';
  const transport = new WebStandardStreamableHTTPServerTransport({
    enableJsonResponse: !accept.includes('text/event-stream'),
  });
  whenClosed(reply, () => {
    release();
    void server.close();
  });
  await server.connect(transport);
  const response = await transport.handleRequest(requestFor(request), { parsedBody: request.body });
  if (!response.headers.get('content-type')?.startsWith('text/event-stream')) return reply.send(response);
  await relayEvents(context, reply, response);
  return reply;
}

/** The protocol's library walks through the fields of these several times; none of ours has so many. */
function refuseManyFields(message: unknown): void {
  const { params } = Object(message) as { params?: unknown };
  const { arguments: given, _meta } = Object(params) as { arguments?: unknown; _meta?: unknown };
  const places = { '': message, params, 'params.arguments': given, 'params._meta': _meta };
  for (const [field, value] of Object.entries(places)) {
    if (Object.keys(Object(value)).length > mostFields) {
      throw invalidField(field, `must have at most ${mostFields} fields`);
    }
  }
}

const mostFields = 1000;

/** The tools are served by hand: what a client sends in the wrong place is then ours to answer, and is not echoed. */
function serverOf({ instructions, tools, shown, hasTranscripts }: Toolbox, call: ToolCall): Server {
  const server = new Server(
    { name: 'muster', version: '0.1.0' },
    {
      instructions,
      capabilities: { tools: {}, ...(hasTranscripts && { resources: {} }) },
      jsonSchemaValidator,
    },
  );
  server.setRequestHandler(ListToolsRequestSchema, () => ({
    tools: shown.map(({ run: _, ...listed }) => listed),
  }));
  server.setRequestHandler(CallToolRequestSchema, ({ params }) => answerOf(tools, params, call));
  if (hasTranscripts) serveTranscripts(server, call);
  return server;
}

/** What the transport looks at. A client that takes JSON alone is answered in JSON; the transport asks for both. */
function requestFor(request: FastifyRequest): Request {
  const version = request.headers['mcp-protocol-version'];
  return new Request('http://localhost/mcp', {
    method: 'POST',
    headers: {
      accept: 'application/json, text/event-stream',
      'content-type': 'application/json',
      ...(version !== undefined && { 'mcp-protocol-version': withoutKeys(String(version)) }),
    },
  });
}

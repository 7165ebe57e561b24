import type { Server } from '@modelcontextprotocol/sdk/server/index.js';
import {
  ErrorCode,
  ListResourcesRequestSchema,
  ListResourceTemplatesRequestSchema,
  McpError,
  ReadResourceRequestSchema,
  type Resource,
} from '@modelcontextprotocol/sdk/types.js';
import type { AgentEntry, AgentId, ListRequest } from '@muster/sdk/contract';
import { invalid, isRefusal, type Refusal } from '../../control/refusal.ts';
import { edgeErrorOf, throwRefusal, withoutKeys } from '../errors.ts';
import { agentIdOf, nameOfAgent } from './named-agent.ts';
import { bodyFor, type ToolCall } from './tool.ts';
import { readTranscript, transcriptEntries } from './transcript.ts';
import { phaseText } from './wording.ts';

/** How many agents the list of resources shows at most. */
const listedAgents = 100;
const resourceNotFound = -32002;
const mimeType = 'text/markdown';

/** The transcript of every agent as a resource, and those of the caller's live agents in a list. */
export function serveTranscripts(server: Server, call: ToolCall): void {
  server.setRequestHandler(ListResourcesRequestSchema, () =>
    saying(call, async () => ({ resources: (await liveAgents(call)).map(resourceOf) })),
  );

  server.setRequestHandler(ListResourceTemplatesRequestSchema, () => ({
    resourceTemplates: [
      {
        uriTemplate: 'muster://agents/{workspace}/{+path}/transcript{?account}',
        name: 'transcript',
        title: "An agent's transcript",
        description: `What the agent was told, said and did: its newest ${transcriptEntries} entries. The path is that of the agent, such as fix-login/tests; the account is whose agent it is, by default yours.`,
        mimeType,
      },
    ],
  }));

  server.setRequestHandler(ReadResourceRequestSchema, ({ params: { uri } }) =>
    saying(call, async () => {
      const text = await readTranscript(call, agentAt(call, uri), transcriptEntries);
      return isRefusal(text) ? throwRefusal(text) : { contents: [{ uri, mimeType, text }] };
    }),
  );
}

const uriOf = ({ workspace, agent }: AgentId): string =>
  `muster://agents/${[workspace, ...agent].join('/')}/transcript`;

function agentAt({ caller }: ToolCall, uri: string) {
  const [, workspace = '', path = '', query] =
    /^muster:\/\/agents\/([^/?#]+)\/([^?#]+)\/transcript(?:\?([^#]*))?$/.exec(uri) ?? [];
  if (!path) return throwRefusal(noSuchResource());
  const account = new URLSearchParams(query).get('account') ?? undefined;
  return agentIdOf(caller, path, { workspace, account });
}

const noSuchResource = (): Refusal =>
  invalid('uri', 'must be muster://agents/<workspace>/<path of the agent>/transcript');

const resourceOf = (entry: AgentEntry): Resource => ({
  uri: uriOf(entry.agentId),
  name: nameOfAgent(entry.agentId),
  title: `Transcript of ${nameOfAgent(entry.agentId)}`,
  description: phaseText(entry),
  mimeType,
});

/** Parents before their children, level by level, until there are enough. */
async function liveAgents({ context, caller }: ToolCall): Promise<AgentEntry[]> {
  const found: AgentEntry[] = [];
  const add = async (request: ListRequest): Promise<void> => {
    const pageSize = listedAgents - found.length;
    if (pageSize <= 0) return;
    const page = await context.control.lists.page(caller, bodyFor(caller, 'list', { ...request, pageSize }));
    if (!isRefusal(page)) found.push(...page.entries);
  };
  await add({});
  for (let i = 0; i < found.length; i += 1) {
    const entry = found[i];
    if (entry && entry.childCount > 0) await add({ parentId: entry.agentId });
  }
  return found;
}

/** A resource has no `isError`: what is wrong is an error of the protocol, in our words. */
async function saying<T>({ context }: ToolCall, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const { status, message } = edgeErrorOf(error, context.log);
    const code =
      status === 'NOT_FOUND'
        ? resourceNotFound
        : status === 'INTERNAL'
          ? ErrorCode.InternalError
          : ErrorCode.InvalidParams;
    throw new McpError(code, withoutKeys(`${status}: ${message}`));
  }
}

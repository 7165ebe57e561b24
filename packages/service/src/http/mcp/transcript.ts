import type { Server } from '@modelcontextprotocol/sdk/server/index.js';
import {
  ErrorCode,
  ListResourcesRequestSchema,
  ListResourceTemplatesRequestSchema,
  McpError,
  ReadResourceRequestSchema,
  type Resource,
} from '@modelcontextprotocol/sdk/types.js';
import type {
  AgentEntry,
  AgentIdInput,
  AgentStatus,
  EntryType,
  StatusName,
  TimelineEntry,
} from '@muster/sdk/contract';
import { entryMarkdown } from '@muster/sdk/transcript';
import { HttpError, invalidField } from '../errors.ts';
import { namedId, nameOfAgent, phaseText, truncate } from './text.ts';
import { callRoute, errorText, type ToolCall } from './tool.ts';

/** The transcripts of agents as Markdown: for the tool `read_transcript`, and as MCP resources. */

export const transcriptEntries = 200;

/** The most characters of a transcript, and of one entry, that a model has to read. */
const transcriptLength = 100_000;
const entryLength = 4_000;

/** The newest entries, or the newest before one. */
export async function readTranscript(
  call: ToolCall,
  agentId: AgentIdInput,
  limit: number,
  before = String(Number.MAX_SAFE_INTEGER),
): Promise<string> {
  const [status, { entries }] = await Promise.all([
    callRoute(call, 'status', { agentId }),
    callRoute(call, 'timeline', { agentId, beforeSequence: before, limit }),
  ]);
  return transcriptOf(status, entries);
}

/** If the transcript is too long, the oldest entries are left out. */
function transcriptOf(status: AgentStatus, entries: readonly TimelineEntry[]): string {
  const shown: string[] = [];
  let first = entries.at(-1);
  let leftLength = transcriptLength;
  for (const entry of entries.toReversed()) {
    const text = entryText(entry);
    if (text.length > leftLength) break;
    leftLength -= text.length;
    first = entry;
    if (text) shown.unshift(text);
  }
  return [
    `# ${nameOfAgent(status.agentId)}`,
    `${phaseText(status)} since ${status.phaseSince}`,
    first && Number(first.sequence) > 1 && `(Entries before ${first.sequence} are not shown.)`,
    ...shown,
  ]
    .filter(Boolean)
    .join('\n\n');
}

/** Other entries say the same. */
const hiddenTypes: readonly EntryType[] = ['FOLLOW_UP_DELIVERED', 'PHASE_CHANGED'];
function entryText(entry: TimelineEntry): string {
  if (hiddenTypes.includes(entry.type)) return '';
  return entryMarkdown(entry, { shorten: (text) => truncate(text, entryLength) });
}

/** The most agents that the list of resources shows. */
const maxListed = 100;
const mimeType = 'text/markdown';
const resourceNotFound = -32002;

export function serveTranscripts(server: Server, call: ToolCall): void {
  server.setRequestHandler(ListResourcesRequestSchema, () =>
    asMcpError(call, async () => {
      const { entries } = await callRoute(call, 'list', { allDepths: true, pageSize: maxListed });
      const depthOf = ({ agentId }: AgentEntry) => agentId.agent.length;
      return { resources: entries.toSorted((a, b) => depthOf(a) - depthOf(b)).map(resourceOf) };
    }),
  );

  server.setRequestHandler(ListResourceTemplatesRequestSchema, () => ({
    resourceTemplates: [
      {
        uriTemplate: 'muster://agents/{workspace}/{+path}/transcript{?account}',
        name: 'transcript',
        title: "An agent's transcript",
        description: `The newest ${transcriptEntries} entries of what the agent received, said and did. The path is that of the agent, such as fix-login/tests. The account owns the agent; default: yours.`,
        mimeType,
      },
    ],
  }));

  server.setRequestHandler(ReadResourceRequestSchema, ({ params: { uri } }) =>
    asMcpError(call, async () => {
      const text = await readTranscript(call, agentIdIn(call, uri), transcriptEntries);
      return { contents: [{ uri, mimeType, text }] };
    }),
  );
}

function agentIdIn({ caller }: ToolCall, uri: string): AgentIdInput {
  const [, workspace = '', path = '', query] =
    /^muster:\/\/agents\/([^/?#]+)\/([^?#]+)\/transcript(?:\?([^#]*))?$/.exec(uri) ?? [];
  if (!path) throw invalidField('uri', 'must be muster://agents/<workspace>/<path of the agent>/transcript');
  const account = new URLSearchParams(query).get('account') ?? undefined;
  return namedId(caller, path, { workspace, account });
}

const resourceOf = (entry: AgentEntry): Resource => ({
  uri: `muster://agents/${[entry.agentId.workspace, ...entry.agentId.agent].join('/')}/transcript`,
  name: nameOfAgent(entry.agentId),
  title: `Transcript of ${nameOfAgent(entry.agentId)}`,
  description: phaseText(entry),
  mimeType,
});

const errorCodes: Partial<Record<StatusName, number>> = {
  NOT_FOUND: resourceNotFound,
  INTERNAL: ErrorCode.InternalError,
};

/** The reply about a resource has no `isError`, so an error is one of the protocol. */
async function asMcpError<T>(call: ToolCall, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const text = errorText(error, call);
    const status = error instanceof HttpError ? error.status : 'INTERNAL';
    throw new McpError(errorCodes[status] ?? ErrorCode.InvalidParams, text);
  }
}

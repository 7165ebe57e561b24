import {
  type ChangeRequest,
  changeRequestStates,
  limits,
  openChangeRequestRequest,
  pageIn,
} from '@muster/sdk/contract';
import { changeRequestText, listedRequestText } from './text.ts';
import { callRoute, type routeTool, type Tool, type ToolReply, tool } from './tool.ts';

const { title, description, base, draft, repo } = openChangeRequestRequest.properties;

type Define = ReturnType<typeof routeTool<Record<never, never>, never>>;

/** The tool for the agent itself, or for a user's agent. */
export const openChangeRequestTool = (define: Define, who: string): Tool =>
  define({
    name: 'open_change_request',
    description: `Opens a change request (a pull request or merge request) at the code host, from the branch that ${who} pushed. If one is open, it is returned. Reviews and failed checks of it reach the agent as messages.`,
    route: 'openChangeRequest',
    input: { title, description, draft, base, repo },
    reply: ({ changeRequest }) =>
      changeRequest
        ? { text: changeRequestText(changeRequest), data: { changeRequest } }
        : 'The code host has not answered yet. The change request is opened as soon as it does.',
  });

export const listChangeRequests: Tool = tool({
  name: 'list_change_requests',
  description:
    'Lists the change requests of agents: state, checks, review, open threads, and the agent of each. Merged and closed ones are left out by default.',
  input: {
    states: {
      type: 'array',
      items: { type: 'string', enum: changeRequestStates },
      description: 'Default OPEN and DRAFT.',
    },
    pageToken: { ...pageIn.pageToken, description: 'nextPageToken of the previous page.' },
  },
  run: async ({ states = ['OPEN', 'DRAFT'], pageToken = '' }, call): Promise<ToolReply> => {
    const changeRequests: ChangeRequest[] = [];
    let nextPageToken = pageToken;
    // A page of records may have none in these states.
    do {
      const query = { pageSize: String(limits.pageSize), pageToken: nextPageToken };
      const params = { kind: 'change-request' };
      const page = await callRoute(call, 'listResources', undefined, { params, query });
      const found = page.entries.map(
        ({ payload }) => JSON.parse(Buffer.from(payload, 'base64').toString()) as ChangeRequest,
      );
      changeRequests.push(...found.filter(({ state }) => states.includes(state)));
      nextPageToken = page.nextPageToken;
    } while (changeRequests.length === 0 && nextPageToken !== '');
    const lines = [
      ...changeRequests.map((request) => listedRequestText(call.caller, request)),
      ...(nextPageToken ? [`There are more: pageToken ${nextPageToken}`] : []),
    ];
    return { text: lines.join('\n') || 'No change requests found.', data: { changeRequests, nextPageToken } };
  },
});

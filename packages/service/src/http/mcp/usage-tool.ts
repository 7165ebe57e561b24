import { dollars, limits, pageIn, type UsageRow, usageKeys, usageRequest } from '@muster/sdk/contract';
import { callRoute, type Tool, type ToolReply, tool } from './tool.ts';

const { from, to, zone, interval, groupBy, filter } = usageRequest.properties;

/** What agents used, for users. */
export const usageTool: Tool = tool({
  name: 'usage',
  description:
    'Adds up what agents used: cost, tokens, runs and agents, by time, workspace, account, model, agent and more.',
  input: {
    from,
    to,
    zone,
    interval: { ...interval, description: 'What a row is for. Default total.' },
    groupBy: {
      ...groupBy,
      description: `A row for each value of these: ${usageKeys.join(', ')}, label:KEY.`,
    },
    filter,
    limit: { type: 'integer', minimum: 1, maximum: limits.pageSize, description: 'Default 200.' },
    pageToken: { ...pageIn.pageToken, description: 'nextPageToken of the previous page.' },
  },
  run: async ({ limit = 200, ...request }, call): Promise<ToolReply> => {
    const { rows, nextPageToken } = await callRoute(call, 'usage', {
      ...request,
      interval: request.interval ?? 'total',
      pageSize: limit,
    });
    const lines = rows.map(rowText);
    const more = nextPageToken ? [`There are more: pageToken ${nextPageToken}`] : [];
    return {
      text: [...lines, ...more].join('\n') || 'Nothing was used in this time.',
      data: { rows, nextPageToken },
    };
  },
});

function rowText(row: UsageRow): string {
  const keys = Object.entries(row.keys).map(([key, value]) => `${key}=${value || 'none'}`);
  const cost = `${row.estimated ? 'about ' : ''}${dollars(row.costUsd)}`;
  const input = `${row.inputTokens} input tokens (${row.cachedInputTokens} cached)`;
  const unpriced = row.unpricedTokens === '0' ? '' : `, ${row.unpricedTokens} tokens without a price`;
  const who = `${row.runs} runs of ${row.agents} agents`;
  return `- ${[row.start, ...keys].join(' ')}: ${cost}, ${input}, ${row.outputTokens} output tokens${unpriced}, ${who}`;
}

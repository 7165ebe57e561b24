import { userTools } from '../../packages/service/dist/http/mcp/user-tools.js';
import { cell } from './tables.mjs';

const everywhere = ['agent', 'workspace', 'account'];

/** The arguments of a tool, without those by which every tool names an agent. */
function argumentsOf({ inputSchema }) {
  const { properties = {}, required = [] } = inputSchema;
  const names = Object.keys(properties);
  const own = names.filter(
    (name) => name === 'agent' || !(names.includes('agent') && everywhere.includes(name)),
  );
  return own.map((name) => (required.includes(name) ? `**\`${name}\`**` : `\`${name}\``)).join(', ');
}

const rowOf = (tool) => `| \`${tool.name}\` | ${argumentsOf(tool)} | ${cell(tool.description)} |`;

export const toolBlocks = {
  'the tools of users': `| tool | arguments (**required**) | what it does |\n|---|---|---|\n${userTools.map(rowOf).join('\n')}`,
};

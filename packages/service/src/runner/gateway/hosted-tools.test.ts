import { expect, it } from 'vitest';
import { hostedIn } from './hosted-tools.ts';

it('lets the tools of a harness pass', () => {
  expect(hostedIn('anthropic', { tools: [{ name: 'Bash' }, { type: 'custom', name: 'x' }] })).toBeUndefined();
  expect(
    hostedIn('openai', { tools: [{ type: 'function' }, { type: 'custom' }], background: false }),
  ).toBeUndefined();
  const inItems = {
    input: [{ type: 'additional_tools', tools: [{ type: 'namespace', tools: [{ type: 'custom' }] }] }],
  };
  expect(hostedIn('openai', inItems)).toBeUndefined();
});

it.each([
  ['anthropic', { tools: [{ type: 'web_search_20250305', name: 'web_search' }] }, 'web_search'],
  ['anthropic', { tools: [{ type: 'web_fetch_20250910' }] }, 'web_fetch'],
  ['anthropic', { tools: [{ type: 'code_execution_20250825' }] }, 'code_execution'],
  ['anthropic', { mcp_servers: [{ type: 'url', url: 'https://elsewhere' }] }, 'mcp_servers'],
  ['openai', { tools: [{ type: 'web_search' }] }, 'web_search'],
  ['openai', { tools: [{ type: 'mcp', server_url: 'https://elsewhere' }] }, 'mcp'],
  [
    'openai',
    { input: [{ type: 'additional_tools', tools: [{ type: 'code_interpreter' }] }] },
    'code_interpreter',
  ],
  ['openai', { tools: [{ type: 'namespace', tools: [{ type: 'web_search' }] }] }, 'web_search'],
  ['openai', { background: true }, 'background'],
  ['openai', { prompt: { id: 'stored' } }, 'prompt'],
  ['openai', [], 'no JSON object'],
] as const)('names what %s would do itself: %j', (provider, body, named) => {
  expect(hostedIn(provider, body)).toContain(named);
});

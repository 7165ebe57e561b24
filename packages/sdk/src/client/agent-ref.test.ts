import { expect, test } from 'vitest';
import { type AgentRef, agentIdOf } from './agent-ref.ts';

test.each<[AgentRef, object]>([
  ['fix-login', { agent: ['fix-login'] }],
  ['fix-login/tests', { agent: ['fix-login', 'tests'] }],
  ['shop:fix-login/tests', { workspace: 'shop', agent: ['fix-login', 'tests'] }],
  ['shop:', { workspace: 'shop', agent: [] }],
  ['', { agent: [] }],
  [['fix-login', 'tests'], { agent: ['fix-login', 'tests'] }],
  [
    { account: 'ada', agent: ['a'] },
    { account: 'ada', agent: ['a'] },
  ],
])('%j names %j', (agent, agentId) => {
  expect(agentIdOf(agent)).toEqual(agentId);
});

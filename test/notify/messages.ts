import type { Message } from '../../packages/service/src/notify/channel.ts';

export const aMessage = (fields: Partial<Message> = {}): Message => ({
  id: '72d3162e-cc78-41e3-81ab-4c9367dc0958',
  type: 'agent.needs_input',
  at: '2026-01-31T09:00:00.000Z',
  title: 'fix-login needs input',
  text: 'Which database?',
  url: 'https://muster.example.com/agents/fix-login',
  agent: {
    key: '01890000-0000-7000-8000-000000000001',
    agentId: {
      tenant: { provider: 'PROVIDER_CODEHOST_APP', org: 'local' },
      ownerProvider: 'PROVIDER_CODEHOST_OAUTH',
      account: 'ada',
      workspace: 'default',
      agent: ['fix-login'],
    },
    phase: 'PHASE_WAITING_FOR_INPUT',
    phaseReason: 'QUESTION',
    phaseSince: '2026-01-31T09:00:00.000Z',
    dashboardUrl: 'https://muster.example.com/agents/fix-login',
    needsInput: 'Which database?',
  },
  digest: null,
  ...fields,
});

/** As in a digest. */
export const messages = (count: number, text: string): Message[] =>
  Array.from({ length: count }, (_, i) =>
    aMessage({ title: `agent-${i} needs input`, text, url: `http://m/${i}` }),
  );

/** The examples of the routes for runners, which have no command and no method. */
const runnerId = '5f0c1f6e-6a0b-4c1e-9d2b-0c6a1d9e7b42';
const checkpointId = '0b8e4a8c-2f6d-4a55-9a31-7d3c5b1e9f60';
const held = { runnerId, agentKey: '$AGENT_KEY', runId: 1 };
const heldQuery = `?${Object.entries(held)
  .map(([name, value]) => `${name}=${value}`)
  .join('&')}`;

export const runnerExamples = {
  runnerPoll: {
    body: {
      runnerId,
      name: 'builder-1',
      poll: 1,
      capabilities: ['deferral'],
      backends: ['BACKEND_A'],
      free: { real: 4, rehearsed: 0 },
      runs: [],
      waitMs: 20_000,
    },
  },
  runnerReport: {
    body: {
      ...held,
      report: 1,
      started: true,
      currentAction: 'Reading src/login.ts',
      items: [{ type: 'MESSAGE', text: 'I begin with a test.', data: {} }],
    },
  },
  runnerCredit: {
    body: { runnerId, agentKey: '$AGENT_KEY', runId: 1, upToUsd: 0.25 },
  },
  runnerPartials: {
    body: {
      runnerId,
      partials: [
        {
          agentKey: '$AGENT_KEY',
          runId: 1,
          key: 'msg_01/0',
          type: 'MESSAGE',
          offset: 0,
          text: 'I begin with',
        },
      ],
    },
  },
  runnerSaveCheckpoint: { query: `${heldQuery}&checkpointId=${checkpointId}&part=0`, upload: 'part-0' },
  runnerCompleteCheckpoint: { body: { ...held, checkpointId, parts: 1, final: false } },
  runnerCheckpoints: { body: held },
  runnerLoadCheckpoint: { body: { ...held, checkpointId, part: 0 } },
  runnerAttachment: { body: { ...held, attachmentId: '$ATTACHMENT' } },
  runnerSaveAttachment: { query: heldQuery, upload: 'screenshot.png' },
  runnerGitCredential: { body: { ...held, repo: 'https://github.com/acme/app.git' } },
  runnerEndedAgents: { body: { runnerId, agentKeys: ['$AGENT_KEY'] } },
};

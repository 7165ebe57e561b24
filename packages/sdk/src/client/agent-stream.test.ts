import { expect, test } from 'vitest';
import type { AgentEntry } from '../contract/agent.ts';
import type { AgentId } from '../contract/identity.ts';
import { agentStream } from './agent-stream.ts';
import { ConnectionError } from './errors.ts';
import type { ServerSentEvent } from './event-parser.ts';

const agent = (path: string, phase = 'PENDING') => ({
  agentId: {
    ownerProvider: 'PROVIDER_UNSPECIFIED',
    account: 'ada',
    workspace: 'default',
    agent: path.split('/'),
  },
  phase: `PHASE_${phase}`,
});
type FakeAgent = ReturnType<typeof agent>;

const open = null;
const whole = { id: '', type: 'whole', data: '{}' };
const entry = (path: string, phase?: string) => ({
  id: '',
  type: 'entry',
  data: JSON.stringify(agent(path, phase)),
});

/** What a reader gets from these connections, one after the other, and these look-ups. */
async function shown(
  connections: readonly (readonly (ServerSentEvent | null)[])[],
  lookUps: readonly (readonly FakeAgent[] | Error)[] = [],
): Promise<string[]> {
  const said: string[] = [];
  const left = [...connections];
  const found = [...lookUps];
  const source = {
    // Each call continues after the events of the one before.
    async *events() {
      for (let events = left.shift(); events; events = left.shift()) yield* events;
    },
    async *allAgents() {
      said.push('look up');
      const next = found.shift() ?? [];
      if (next instanceof Error) throw next;
      yield* next as unknown as AgentEntry[];
    },
    onOpen: () => said.push('open'),
    onWhole: () => said.push('whole'),
    onGone: ({ agent }: AgentId) => said.push(`${agent.join('/')} gone`),
  };
  for await (const { agentId, phase } of agentStream(source, undefined))
    said.push(`${agentId.agent.join('/')} ${phase.slice(6)}`);
  return said;
}

test('entries that did not change across a reconnection are not sent again, and nothing is looked up', async () => {
  const first = [open, entry('a'), entry('b'), whole, entry('a', 'RUNNING')];
  const again = [open, entry('a', 'RUNNING'), entry('b'), entry('c'), whole];
  expect(await shown([first, again])).toEqual([
    ...['open', 'a PENDING', 'b PENDING', 'whole', 'a RUNNING'],
    ...['open', 'c PENDING', 'whole'],
  ]);
});

test('missing agents are looked up once, sent as they are now, and forgotten', async () => {
  const first = [open, entry('a'), entry('a/b'), entry('gone'), whole];
  const again = [open, entry('a'), whole];
  const everyone = [agent('other'), agent('a/b', 'COMPLETED'), agent('a')];
  expect(
    await shown([first, again, again, [open, entry('a'), entry('a/b', 'COMPLETED'), whole]], [everyone]),
  ).toEqual([
    ...['open', 'a PENDING', 'a/b PENDING', 'gone PENDING', 'whole'],
    ...['open', 'look up', 'a/b COMPLETED', 'gone gone', 'whole'],
    ...['open', 'whole'],
    ...['open', 'a/b COMPLETED', 'whole'],
  ]);
});

test('an agent that was sent when it left is not sent again by the look-up, in any order of its fields', async () => {
  const first = [open, entry('a'), whole, entry('a', 'CANCELED')];
  const again = [open, whole];
  const { agentId, phase } = agent('a', 'CANCELED');
  expect(await shown([first, again], [[{ phase, agentId }]])).toEqual([
    ...['open', 'a PENDING', 'whole', 'a CANCELED'],
    ...['open', 'look up', 'whole'],
  ]);
});

test('after a transient error of the look-up the stream reconnects; a refusal ends the stream', async () => {
  const first = [open, entry('a'), whole];
  const again = [open, whole, entry('never')];
  const passing = new ConnectionError('the connection broke');
  expect(await shown([first, again, [open, whole]], [passing, [agent('a', 'FAILED')]])).toEqual([
    ...['open', 'a PENDING', 'whole'],
    ...['open', 'look up'],
    ...['open', 'look up', 'a FAILED', 'whole'],
  ]);
  await expect(shown([first, again], [new Error('refused')])).rejects.toThrow('refused');
});

test('unknown events are ignored', async () => {
  const unknown = { id: '', type: 'weather', data: 'sunny' };
  expect(await shown([[open, unknown, entry('a'), whole]])).toEqual(['open', 'a PENDING', 'whole']);
});

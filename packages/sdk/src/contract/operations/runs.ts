import { emptyReply } from '../agent.ts';
import * as runs from '../run.ts';
import { timelinePartial, timelineReply, timelineRequest, timelineStreamRequest } from '../timeline.ts';
import { agentId, type Operations } from './operation.ts';
import { timelineStreamQuery } from './queries.ts';

const timelineEntry = timelineReply.properties.entries.items;

const lastEventId = {
  'Last-Event-ID': {
    type: 'string',
    description: 'The sequence of the last entry that you read; the stream continues after it.',
  },
} as const;

const partialEvent = {
  name: 'partial',
  data: timelinePartial,
  about:
    'An event named `partial`, without an id, has `runId`, `key`, `type`, `offset` and `text`: a piece of a text that the agent is producing. It is not stored; the entry with the whole text repeats the key in `data.key`.',
} as const;

export const runOperations = {
  stopTurn: {
    summary: 'Interrupts the current turn.',
    isOriginal: true,
    access: 'command',
    body: runs.stopTurnRequest,
    reply: emptyReply,
    example: { agentId, runId: '1', mode: 'STOP_TURN_MODE_INTERRUPT' },
  },
  timeline: {
    summary: "Lists an agent's timeline entries.",
    access: 'read',
    body: timelineRequest,
    reply: timelineReply,
    example: { agentId, afterSequence: '0', limit: 100 },
  },
  timelineStream: {
    summary: 'Streams timeline entries; resumes by Last-Event-ID.',
    access: 'read',
    body: timelineStreamRequest,
    reply: timelineEntry,
    stream: true,
    headers: lastEventId,
    otherEvent: partialEvent,
    example: { agentId, afterSequence: '0' },
  },
  timelineStreamByGet: {
    summary: 'The same for EventSource, with the agent in the query.',
    access: 'read',
    reply: timelineEntry,
    query: timelineStreamQuery,
    stream: true,
    headers: lastEventId,
    otherEvent: partialEvent,
  },
  runs: {
    summary: "Lists an agent's runs, newest first.",
    access: 'read',
    body: runs.runsRequest,
    reply: runs.runsReply,
    example: { agentId, limit: 10 },
  },
  ask: {
    summary: 'Asks a question, for a run: the agent needs the answer when the run has ended.',
    access: 'command',
    body: runs.askRequest,
    reply: emptyReply,
    example: { agentId, question: 'Should an expired password lead to the reset page?' },
  },
  finish: {
    summary: 'Declares the agent finished, for a run.',
    access: 'command',
    body: runs.finishRequest,
    reply: emptyReply,
    example: { agentId, text: 'The login page shows what is wrong.' },
  },
  fail: {
    summary: 'Declares the agent failed, for a run.',
    access: 'command',
    body: runs.failRequest,
    reply: emptyReply,
    example: { agentId, message: 'The password database is not in this repository.' },
  },
} as const satisfies Operations;

import { emptyReply } from '../agent.ts';
import { attachment, attachmentContent, imageTypes } from '../attachment.ts';
import * as credential from '../git-credential.ts';
import { limits } from '../limits.ts';
import * as runner from '../runner.ts';
import * as report from '../runner-report.ts';
import type { Operations } from './operation.ts';

export const runnerOperations = {
  runnerPoll: {
    summary: "A runner's heartbeat: returns claims and stops.",
    access: 'runner',
    body: runner.pollRequest,
    reply: runner.pollReply,
  },
  runnerReport: {
    summary: 'Reports what a run did.',
    access: 'runner',
    body: report.reportRequest,
    reply: report.reportReply,
  },
  runnerCredit: {
    summary: 'Reserves money of the budgets for a run.',
    access: 'runner',
    body: runner.creditRequest,
    reply: runner.creditReply,
  },
  runnerPartials: {
    summary: 'Sends pieces of the texts that runs are producing, for open timeline streams.',
    access: 'runner',
    body: report.partialsRequest,
    reply: emptyReply,
  },
  runnerSaveCheckpoint: {
    summary: 'Saves one part of a checkpoint.',
    access: 'runner',
    query: runner.saveCheckpointQuery,
    upload: ['application/octet-stream'],
    reply: emptyReply,
    bodyBytes: limits.checkpointPartBytes,
  },
  runnerCompleteCheckpoint: {
    summary: 'Completes a checkpoint after every part is saved.',
    access: 'runner',
    body: runner.completeCheckpointRequest,
    reply: emptyReply,
  },
  runnerCheckpoints: {
    summary: "Lists an agent's checkpoints, newest first.",
    access: 'runner',
    body: runner.heldRunRequest,
    reply: runner.checkpointsReply,
  },
  runnerLoadCheckpoint: {
    summary: 'Returns one part of a checkpoint.',
    access: 'runner',
    body: runner.loadCheckpointRequest,
    reply: runner.loadCheckpointReply,
  },
  runnerAttachment: {
    summary: 'Returns an image of a message of a run.',
    access: 'runner',
    body: runner.runnerAttachmentRequest,
    reply: attachmentContent,
  },
  runnerSaveAttachment: {
    summary: 'Saves an image that a tool returned in a run.',
    access: 'runner',
    query: runner.heldRunRequest,
    upload: imageTypes,
    reply: attachment,
    bodyBytes: limits.attachmentBytes,
  },
  runnerGitCredential: {
    summary: "Returns an integration's credential for a repository of a run.",
    access: 'runner',
    body: credential.gitCredentialRequest,
    reply: credential.gitCredentialReply,
  },
  runnerEndedAgents: {
    summary: 'Lists which agents have ended.',
    access: 'runner',
    body: runner.endedAgentsRequest,
    reply: runner.endedAgentsReply,
  },
} as const satisfies Operations;

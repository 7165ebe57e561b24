import { runRef } from './runner.ts';
import { type Infer, list, nullable, reply, requestWith, text, timestampOrNull } from './schema.ts';

/**
 * Asks for what git needs for a repository of the run's workspace. The runner uses it for its own git and never shows it
 * to the agent.
 */
export const gitCredentialRequest = requestWith(
  'GitCredentialRequest',
  ['runnerId', 'agentKey', 'runId', 'repo'],
  {
    runnerId: { type: 'string', format: 'uuid' },
    ...runRef,
    repo: { type: 'string', maxLength: 4096, description: 'Its URL in the workspace, without credentials.' },
    submoduleOf: {
      type: 'string',
      maxLength: 4096,
      description: 'If `repo` is a submodule: the repository of the workspace that contains it.',
    },
    refused: {
      type: 'boolean',
      description: 'The host did not accept the last one: a new one is made, if that is possible.',
    },
  },
);

export const gitCredential = reply('GitCredential', {
  integration: { type: 'string', description: 'The name of the integration that covers the repository.' },
  url: { type: 'string', description: 'The URL over HTTP that the credential is for; use no other.' },
  username: text,
  password: text,
  expiresAt: { ...timestampOrNull, description: 'Null if it does not expire.' },
  missing: {
    ...list(text),
    description: 'With `refused`: what the credential lacks, and how to change that.',
  },
});
export type GitCredential = Infer<typeof gitCredential>;

export const gitCredentialReply = reply('GitCredentialReply', {
  credential: { ...nullable(gitCredential), description: 'Null if no integration covers the repository.' },
});

import { type MusterClient, MusterError } from '@muster/sdk';
import type { Claim, GitCredential } from '@muster/sdk/contract';
import { messageOf } from '../../lib/errors.ts';
import { type Repository, splitUrl } from '../../lib/repositories.ts';
import { retryTransient } from '../retry.ts';

/**
 * Asks the service for the credential of a repository that an integration covers; null if none does. It is asked for
 * before every command of git that connects, and is kept only while that runs: so it is never old, and an integration
 * that is changed or deleted counts from then on. `isRefused`: the host did not accept the one before.
 */
export type AskCredential = (isRefused: boolean) => Promise<GitCredential | null>;

export const noCredential: AskCredential = async () => null;

const callTimeoutMs = 60_000;

/** Part of the error when the service, or the code host behind it, may answer later. */
export const notAsked = "the integration's credential could not be asked for";

/** For one repository of a run that this runner holds, or a submodule of one. */
export function askCredential(
  client: MusterClient,
  runnerId: string,
  { agentKey, runId }: Claim,
  { url, shownUrl }: Repository,
  signal: AbortSignal,
  submoduleOf?: Repository,
): AskCredential {
  if (!mayBeCovered(url)) return noCredential;
  const options = { signal, timeoutMs: callTimeoutMs };
  return async (isRefused) => {
    const body = {
      ...{ runnerId, agentKey, runId, repo: shownUrl },
      ...(submoduleOf && { submoduleOf: submoduleOf.shownUrl }),
      ...(isRefused && { refused: true }),
    };
    const call = () => client.call('runnerGitCredential', body, options).catch(unlessUnknown);
    try {
      return (await retryTransient(signal, call)).credential;
    } catch (error) {
      const status = statusOf(error);
      if (status >= 400 && status < 500 && status !== 429) throw error;
      throw new Error(`${notAsked}: ${messageOf(error)}`);
    }
  };
}

const statusOf = (error: unknown): number => (error instanceof MusterError ? error.httpStatus : 0);

/** A service of an earlier version does not know this request. */
function unlessUnknown(error: unknown): { readonly credential: null } {
  if (statusOf(error) === 404 || statusOf(error) === 501) return { credential: null };
  throw error;
}

/** A path on this machine has no host, and a URL with credentials needs none. */
function mayBeCovered(url: string): boolean {
  if (url.startsWith('/') || /^file:/i.test(url)) return false;
  return !/^http/i.test(url) || splitUrl(url).username === '';
}

import { HostError } from '../work/host-error.ts';
import type { Host, HostChangeRequest, RepoPath } from './host.ts';

/** A refusal as a value: it says what is missing. Everything else is a failure of the call itself. */
export async function orRefusal<T>(call: Promise<T>): Promise<T | HostError> {
  try {
    return await call;
  } catch (error) {
    if (error instanceof HostError && error.kind === 'refused') return error;
    throw error;
  }
}

/** A list, which is empty if the host answers with this status. */
export async function orEmpty<T>(call: Promise<readonly T[]>, status: number): Promise<readonly T[]> {
  const found = await orRefusal(call);
  if (!(found instanceof HostError)) return found;
  if (found.status === status) return [];
  throw found;
}

/** There is at most one change request from a branch to a base: if the host refuses another with this status, that one. */
export async function orExisting(
  opened: Promise<HostChangeRequest>,
  status: number,
  host: Pick<Host, 'changeRequestsFrom'>,
  repo: RepoPath,
  { branch, base }: { readonly branch: string; readonly base: string },
): Promise<HostChangeRequest> {
  try {
    return await opened;
  } catch (error) {
    if (!(error instanceof HostError) || error.status !== status) throw error;
    const existing = (await host.changeRequestsFrom(repo, branch)).find((item) => item.base === base);
    if (existing) return existing;
    throw error;
  }
}

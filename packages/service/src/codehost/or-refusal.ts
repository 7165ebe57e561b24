import { type Host, type HostChangeRequest, HostError, type Permission, type RepoPath } from './host.ts';

/** A refusal as a value: it says what is missing. Everything else is a failure of the call itself. */
export async function orRefusal<T>(call: Promise<T>): Promise<T | HostError> {
  try {
    return await call;
  } catch (error) {
    if (error instanceof HostError && error.kind === 'refused') return error;
    throw error;
  }
}

/** Nobody that the host does not know may do anything. A credential that it does not accept says nothing about people. */
export async function orNone(call: Promise<Permission>): Promise<Permission> {
  const found = await orRefusal(call);
  if (!(found instanceof HostError)) return found;
  if (found.status === 401) throw found;
  return 'none';
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

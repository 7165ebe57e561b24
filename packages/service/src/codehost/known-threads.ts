import type { HostThread, RepoPath } from './host.ts';

const freshMs = 5 * 60_000;
const mostRequests = 200;

/**
 * The threads of change requests as they were last read, without texts: an answer needs the place of its thread, not
 * its comments.
 */
export class KnownThreads {
  readonly #found = new Map<string, { readonly threads: readonly HostThread[]; readonly untilMs: number }>();

  note(key: string, threads: readonly HostThread[]): void {
    this.#found.delete(key);
    if (this.#found.size >= mostRequests) this.#found.delete(this.#found.keys().next().value as string);
    this.#found.set(key, { threads: threads.map(withoutTexts), untilMs: Date.now() + freshMs });
  }

  find(key: string, id: string): HostThread | undefined {
    const known = this.#found.get(key);
    return known && known.untilMs > Date.now() ? known.threads.find((thread) => thread.id === id) : undefined;
  }
}

export const threadsKey = (request: {
  readonly tenant: number;
  readonly integration: string;
  readonly repo: RepoPath;
  readonly number: number;
}): string => JSON.stringify([request.tenant, request.integration, request.repo, request.number]);

function withoutTexts(thread: HostThread): HostThread {
  const ends = [...new Set([thread.comments[0], thread.comments.at(-1)])];
  return { ...thread, comments: ends.flatMap((comment) => (comment ? [{ ...comment, body: '' }] : [])) };
}

import { insertItems, type NewItem } from '../store/statements/outbox.ts';
import type { NewChangeRequest, RepoPath, Subject } from './host.ts';

/** What an item of the outbox asks of a host, by its kind. */
export interface Items {
  readonly comment: { readonly repo: RepoPath; readonly subject: Subject; readonly body: string };
  readonly reply: {
    readonly repo: RepoPath;
    readonly number: number;
    readonly threadId: string;
    readonly body: string;
  };
  readonly resolve: { readonly repo: RepoPath; readonly number: number; readonly threadId: string };
  readonly reopen: Items['resolve'];
  readonly open: {
    readonly repo: RepoPath;
    readonly repoUrl: string;
    readonly request: NewChangeRequest;
    /** What follows the body, however long that is. */
    readonly ending?: string;
    /** A caller waits for it, and the reply says why it failed. */
    readonly isAsked?: boolean;
  };
}

type Connection = Parameters<typeof insertItems>[0];

/** Writes an item for an integration, unless it was written before. */
export const writeItem = <K extends keyof Items>(
  connection: Connection,
  { data, ...item }: Omit<NewItem, 'topic'> & { readonly kind: K; readonly data: Items[K] },
): Promise<unknown> =>
  insertItems(connection, [{ ...item, topic: 'codehost', data: { ...data } }], new Date().toISOString());

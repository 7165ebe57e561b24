import {
  type AgentId,
  type CatalogEntry,
  type DocumentOf,
  FailedPreconditionError,
  type MusterClient,
} from '@muster/sdk';
import { agentPage } from '@muster/sdk/contract';
import { useSyncExternalStore } from 'react';
import { Listeners } from '../parts/model/listeners.ts';

export interface ShareLink {
  readonly name: string;
  readonly generation: string;
  readonly expiresAt: string | null;
  readonly createdAt: string;
  /** `provider_name/account`. */
  readonly createdBy: string;
  /** In how many browsers it was opened; a service of an earlier version does not count. */
  readonly opens: number;
  readonly openedAt: string | null;
}

type Entry = CatalogEntry<DocumentOf<'share-link'>>;

export const shareLinksKey = (agentId: AgentId) => ['share-links', agentPage(agentId)] as const;

/** The links to this agent, newest first. */
export async function shareLinksOf(
  client: MusterClient,
  agentId: AgentId,
  signal: AbortSignal,
): Promise<ShareLink[]> {
  const found: ShareLink[] = [];
  for await (const entry of client.catalog.listAll('share-link', { tenant: agentId.tenant, signal })) {
    if (isLinkTo(entry, agentId)) found.push(linkOf(entry));
  }
  return found.sort((a, b) => b.createdAt.localeCompare(a.createdAt));
}

const isLinkTo = ({ document: { agentId: target } }: Entry, agentId: AgentId): boolean =>
  target !== undefined &&
  target.ownerProvider === agentId.ownerProvider &&
  target.account === agentId.account &&
  (target.workspace ?? '') === agentId.workspace &&
  target.agent?.join('/') === agentId.agent.join('/');

const linkOf = ({ name, generation, document }: Entry): ShareLink => ({
  name,
  generation,
  expiresAt: document.expiresAt ?? null,
  createdAt: String(document.createdAt ?? ''),
  createdBy: String(document.createdBy ?? ''),
  opens: Number(document.opens ?? 0),
  openedAt: typeof document.openedAt === 'string' ? document.openedAt : null,
});

const maxNameLength = 128;
const maxAttempts = 5;

/** Creates a link and returns its URL, which the service shows only once. */
export async function createShareLink(
  client: MusterClient,
  agentId: AgentId,
  expiresAt: string | null,
  justification: string,
): Promise<string> {
  const document = {
    agentId: { ...agentId, agent: [...agentId.agent] },
    ...(expiresAt !== null && { expiresAt }),
  };
  for (let attempt = 1; ; attempt += 1) {
    try {
      const written = await client.catalog.write('share-link', generateName(agentId), document, {
        tenant: agentId.tenant,
        ifGenerationMatch: '0',
        justification,
      });
      return String(written.document.url);
    } catch (error) {
      // The generated name is taken: try another.
      if (!(error instanceof FailedPreconditionError) || attempt >= maxAttempts) throw error;
    }
  }
}

function generateName({ agent }: AgentId): string {
  const random = crypto.getRandomValues(new Uint16Array(1))[0] ?? 0;
  const suffix = `-${random.toString(16).padStart(4, '0')}`;
  return `share-${agent.at(-1)}`.slice(0, maxNameLength - suffix.length) + suffix;
}

/**
 * The URL of a link has its secret in the fragment, which browsers don't send. The page exchanges the secret for a
 * session and changes its URL to `/share/<session>`: it can be reloaded in this browser, and a copied URL gives nobody
 * access.
 */
const secretIn = (fragment: string): string => /^#(mst_[^&]+)/.exec(fragment)?.[1] ?? '';
const sessionIn = (path: string): string => /^\/share\/([0-9a-f-]{36})(?:\/review)?$/.exec(path)?.[1] ?? '';

const urlListeners = new Listeners();
addEventListener('hashchange', () => urlListeners.notify());

export function showSession(id: string): void {
  history.replaceState(null, '', `/share/${id}`);
  urlListeners.notify();
}

/** The link's secret or the session in the URL of the page; empty strings if there is none. */
export const useShareUrl = (): { readonly secret: string; readonly session: string } => {
  const url = useSyncExternalStore(urlListeners.subscribe, () => location.pathname + location.hash);
  const [path = '', fragment = ''] = url.split(/(?=#)/);
  return { secret: secretIn(fragment), session: sessionIn(path) };
};

import {
  type AgentId,
  type CatalogEntry,
  type DocumentOf,
  FailedPreconditionError,
  type MusterClient,
} from '@muster/sdk';
import { agentPage } from '@muster/sdk/contract';

export interface ShareLink {
  readonly name: string;
  readonly generation: string;
  readonly expiresAt: string | null;
  readonly createdAt: string;
  /** `provider_name/account`. */
  readonly createdBy: string;
}

type Entry = CatalogEntry<DocumentOf<'share-link'>>;

export const shareLinksKey = (agentId: AgentId) => ['share-links', agentPage(agentId)] as const;

/** The links that show this agent, newest first. */
export async function shareLinksOf(
  client: MusterClient,
  agentId: AgentId,
  signal: AbortSignal,
): Promise<ShareLink[]> {
  const found: ShareLink[] = [];
  for await (const entry of client.catalog.listAll('share-link', { tenant: agentId.tenant, signal })) {
    if (shows(entry, agentId)) found.push(linkOf(entry));
  }
  return found.sort((a, b) => b.createdAt.localeCompare(a.createdAt));
}

const shows = ({ document: { agentId: shown } }: Entry, agentId: AgentId): boolean =>
  shown !== undefined &&
  shown.ownerProvider === agentId.ownerProvider &&
  shown.account === agentId.account &&
  (shown.workspace ?? '') === agentId.workspace &&
  shown.agent?.join('/') === agentId.agent.join('/');

const linkOf = ({ name, generation, document }: Entry): ShareLink => ({
  name,
  generation,
  expiresAt: document.expiresAt ?? null,
  createdAt: String(document.createdAt ?? ''),
  createdBy: String(document.createdBy ?? ''),
});

const longestName = 128;
const mintTries = 5;

/** Makes a link and gives back its address, which the service says this once. */
export async function makeShareLink(
  client: MusterClient,
  agentId: AgentId,
  expiresAt: string | null,
  justification: string,
): Promise<string> {
  const document = {
    agentId: { ...agentId, agent: [...agentId.agent] },
    ...(expiresAt !== null && { expiresAt }),
  };
  for (let tries = 1; ; tries += 1) {
    try {
      const written = await client.catalog.write('share-link', mintName(agentId), document, {
        tenant: agentId.tenant,
        ifGenerationMatch: '0',
        justification,
      });
      return String(written.document.url);
    } catch (error) {
      // The name was taken, by chance.
      if (!(error instanceof FailedPreconditionError) || tries >= mintTries) throw error;
    }
  }
}

function mintName({ agent }: AgentId): string {
  const random = crypto.getRandomValues(new Uint16Array(1))[0] ?? 0;
  const ending = `-${random.toString(16).padStart(4, '0')}`;
  return `share-${agent.at(-1)}`.slice(0, longestName - ending.length) + ending;
}

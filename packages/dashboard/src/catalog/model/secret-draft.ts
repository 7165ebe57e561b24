import type { AgentId, Caller } from '@muster/sdk';
import { type Kind, mayGiveRole, pathOf, type Role, roles } from '@muster/sdk/contract';
import { type Expiry, expiresAt, expiryInDays } from '../../parts/model/expiry.ts';

/** The form for a new token, share link, integration or secret. */
export interface SecretDraft {
  readonly role: Role;
  readonly account: string;
  readonly pool: string;
  readonly expiry: Expiry;
  /** An agent as `agentText` writes it, or a path. */
  readonly agent: string;
  readonly type: string;
  readonly value: string;
}

export const emptyDraft = (kind: Kind, caller: Caller): SecretDraft => ({
  role: mayGiveRole(caller.role, 'member') ? 'member' : 'viewer',
  account: caller.account,
  pool: 'default',
  expiry: expiryInDays(kind === 'token' ? 90 : 7),
  agent: '',
  type: 'github',
  value: '',
});

/** The roles that the caller may give to a new key. */
export const givableRoles = (caller: Caller): readonly Role[] =>
  roles.filter((role) => mayGiveRole(caller.role, role));

/** `api/tests · default · ada`: path, workspace and owner. */
export const agentText = (id: AgentId): string => [pathOf(id), id.workspace, id.account].join(' · ');

/** The document of the form. The service fills in missing fields. */
export function secretDocument(
  kind: Kind,
  draft: SecretDraft,
  caller: Caller,
  agents: ReadonlyMap<string, AgentId>,
): Record<string, unknown> {
  const expires = expiresAt(draft.expiry);
  const expiry = expires ? { expiresAt: expires } : {};
  switch (kind) {
    case 'token':
      return {
        role: draft.role,
        ...(draft.account.trim() !== caller.account && { account: draft.account.trim() }),
        ...(draft.role === 'runner' && { pool: draft.pool.trim() }),
        ...expiry,
      };
    case 'share-link':
      return { agentId: agents.get(draft.agent) ?? { agent: pathIn(draft.agent) }, ...expiry };
    case 'integration':
      return { type: draft.type.trim() };
    case 'secret':
      return { value: draft.value };
    default:
      return {};
  }
}

const pathIn = (typed: string): string[] => {
  const [path = ''] = typed.split(' · ');
  return path
    .split('/')
    .map((part) => part.trim())
    .filter(Boolean);
};

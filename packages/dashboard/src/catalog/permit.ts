import type { Caller } from '@muster/sdk';
import { type Kind, memberKinds } from '@muster/sdk/contract';

type Document = Readonly<Record<string, unknown>>;

/**
 * Why the caller may not write a resource, in a sentence; null when nothing forbids it. The service decides; this keeps
 * the page from offering what would be refused. `stored` is the document that stands there.
 */
export function writeRefusal(caller: Caller, kind: Kind, stored: Document | null = null): string | null {
  if (kind === 'change-request') return 'Change requests are records. Nobody edits them.';
  if (caller.role === 'viewer') return 'Your key is a viewer’s: it reads the catalog and changes nothing.';
  if (caller.role !== 'member') return null;
  if (!memberKinds.includes(kind))
    return 'Members write personas, share links and their own tokens. Ask an admin for changes here.';
  if (kind === 'token' && stored && !isOwn(caller, stored))
    return 'This token belongs to another account. Its owner or an admin can change it.';
  const agentId = stored?.agentId;
  if (kind === 'share-link' && agentId && !isOwn(caller, agentId as Document))
    return 'This link shows another account’s agent. Its owner or an admin can change it.';
  return null;
}

/** An account that is not named is the caller's own. */
const isOwn = (caller: Caller, { account, ownerProvider }: Document): boolean =>
  (!account || account === caller.account) &&
  (!ownerProvider || ownerProvider === 'PROVIDER_UNSPECIFIED' || ownerProvider === caller.ownerProvider);

/** An operator's write needs a reason, on record. */
export const needsReason = (caller: Caller): boolean => caller.role === 'operator';

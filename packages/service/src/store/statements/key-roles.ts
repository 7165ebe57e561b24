/** What an admin decided about an account, as its keys `k` and its row `m` of members have it. */

/** The roles of people, lowest first. */
export const peopleRoles = `ARRAY['viewer', 'member', 'admin', 'operator']`;

/** The role of a place in that order. */
export const roleOf = (position: string): string => `(${peopleRoles})[${position}]`;

export const memberOf = (k: string, m: string): string =>
  `LEFT JOIN members ${m} ON ${m}.tenant = ${k}.tenant AND ${m}.owner_provider = ${k}.owner_provider AND ${m}.account = ${k}.account`;

/**
 * The role that a key has now. The role that an admin set replaces that of a sign-in and of the command lines that
 * it approved, and limits that of a token and of those that the token approved. Keys of
 * machines keep theirs: what they may do is not what a person of that role may.
 */
export const effectiveRole = (k: string, m: string): string =>
  `CASE WHEN ${m}.role_override IS NULL OR ${k}.role <> ALL (${peopleRoles}) THEN ${k}.role
     WHEN ${k}.kind = 'sign-in' OR ${k}.granted_by = 'sign-in' THEN ${m}.role_override
     ELSE ${roleOf(`least(array_position(${peopleRoles}, ${k}.role), array_position(${peopleRoles}, ${m}.role_override))`)} END`;

export const isValid = (k: string): string => `(${k}.expires_at IS NULL OR ${k}.expires_at > now())`;

/** Of a share link, which is a key of the agent's owner: no admin has disabled the account that created it. */
export const isMakerEnabled = (k: string): string =>
  `(${k}.kind <> 'share-link' OR NOT EXISTS (
     SELECT FROM resources r JOIN members d ON d.tenant = r.tenant AND d.account = split_part(r.created_by, '/', 2)
       AND d.owner_provider = 'PROVIDER_' || upper(split_part(r.created_by, '/', 1))
     WHERE r.tenant = ${k}.tenant AND r.kind = 'share-link' AND r.name = ${k}.name AND d.disabled))`;

/** No admin has disabled the account of the key. */
export const isEnabled = (k: string): string =>
  `(NOT EXISTS (SELECT FROM members d WHERE d.tenant = ${k}.tenant AND d.owner_provider = ${k}.owner_provider
     AND d.account = ${k}.account AND d.disabled) AND ${isMakerEnabled(k)})`;

import {
  type FieldWarning,
  ruleFields,
  type SignInDocument,
  signInCallbackPath,
  tenantName,
} from '@muster/sdk/contract';
import { hostUrlProblem } from '../../../lib/host-url.ts';
import type { Violation } from '../../../lib/validator.ts';
import { deleteKeysOfSignIn } from '../../../store/statements/sign-ins.ts';
import type { KindRules } from './rules.ts';

type Field = (typeof ruleFields)[number];

/** What a provider says of people, beside account and subject. */
const fieldsOf = { oidc: ['domain', 'group'], github: ['org', 'team'] } as const;
/** Anybody can have an account there. */
const publicHosts = ['github.com', 'www.github.com', 'gitlab.com', 'accounts.google.com'];
const loopback = /^http:\/\/(localhost|127\.\d+\.\d+\.\d+|\[::1\])(:\d+)?(\/|$)/;

export const signInRules: KindRules = {
  check: (document) => {
    const { type = 'oidc', issuer, url, allow = [], roles = [] } = document as SignInDocument;
    return (
      (issuer && type === 'oidc' ? issuerProblem(issuer) : null) ??
      (url ? urlProblem(url) : null) ??
      ruleProblem('allow', allow, type) ??
      ruleProblem('roles', roles, type) ??
      roles.map(({ role }, i) => (role ? null : missing(`roles[${i}].role`))).find(Boolean) ??
      everybodyProblem(document as SignInDocument)
    );
  },
  warnings: (document) => {
    const {
      type = 'oidc',
      issuer,
      clientId,
      clientSecret,
      roles,
      defaultRole = 'none',
    } = document as SignInDocument;
    const isSet = {
      issuer: issuer || type !== 'oidc',
      clientId,
      clientSecret: clientSecret || type !== 'github',
    };
    const warnings: FieldWarning[] = Object.entries(isSet)
      .filter(([, value]) => !value)
      .map(([field]) => ({ field, description: 'is not set: nobody can sign in' }));
    if (!roles?.length && defaultRole === 'none')
      warnings.push({
        field: 'roles',
        description: 'has no rule, and defaultRole is none: nobody can sign in',
      });
    return warnings;
  },
  onWrite: async ({ connection, tenant, write, row, publicUrl }, document) => {
    const before = row.document as SignInDocument | null;
    const now = document as SignInDocument;
    // Another provider would otherwise inherit the sessions of this one.
    if (before && (['type', 'issuer', 'url'] as const).some((field) => before[field] !== now[field]))
      await deleteKeysOfSignIn(connection, tenant, write.name);
    const redirectUri = `${publicUrl()}${signInCallbackPath(tenantName(write.tenant), write.name)}`;
    return { document: { ...document, redirectUri } };
  },
  onDelete: async (connection, tenant, { name }) => {
    await deleteKeysOfSignIn(connection, tenant, name);
  },
  /** With the address that the service has now. */
  onRead: (document, publicUrl) =>
    typeof document.redirectUri === 'string' && URL.canParse(document.redirectUri)
      ? { ...document, redirectUri: `${publicUrl}${new URL(document.redirectUri).pathname}` }
      : document,
};

const missing = (field: string): Violation => ({ field, description: 'is required' });

function issuerProblem(issuer: string): Violation | null {
  const field = 'issuer';
  if (!URL.canParse(issuer)) return { field, description: `is not an address; got "${issuer}"` };
  if (issuer.startsWith('http:') && !loopback.test(issuer))
    return {
      field,
      description: `expected https://, except for an address of this machine; got "${issuer}"`,
    };
  if (/^https:\/\/login\.microsoftonline\.com\/(common|organizations|consumers)(\/|$)/.test(issuer))
    return {
      field,
      description: `expected the address with the id of your tenant, https://login.microsoftonline.com/<tenant id>/v2.0: this one is for everybody; got "${issuer}"`,
    };
  return /\/\.well-known\//.test(issuer)
    ? { field, description: `expected the address of the provider, without /.well-known/…; got "${issuer}"` }
    : null;
}

function urlProblem(url: string): Violation | null {
  const description = hostUrlProblem('github', url);
  if (description) return { field: 'url', description };
  return url.startsWith('http:') && !loopback.test(url)
    ? { field: 'url', description: `expected https://, except for an address of this machine; got "${url}"` }
    : null;
}

function ruleProblem(
  list: string,
  rules: readonly { readonly [F in Field]?: string | undefined }[],
  type: 'oidc' | 'github',
): Violation | null {
  for (const [i, rule] of rules.entries()) {
    const field = `${list}[${i}]`;
    const set = ruleFields.filter((name) => rule[name] !== undefined);
    if (set.length === 0)
      return { field, description: `names nobody: expected one of ${ruleFields.join(', ')}` };
    const empty = set.find((name) => rule[name] === '');
    if (empty) return { field: `${field}.${empty}`, description: 'must not be empty' };
    const other = (['domain', 'group', 'org', 'team'] as const).find(
      (name) => set.includes(name) && !(fieldsOf[type] as readonly string[]).includes(name),
    );
    if (other)
      return {
        field: `${field}.${other}`,
        description: `${type} does not say it; expected one of ${[...fieldsOf[type], 'account', 'subject'].join(', ')}`,
      };
    if (rule.team && !/^[^/\s]+\/[^/\s]+$/.test(rule.team))
      return { field: `${field}.team`, description: `expected organization/team; got "${rule.team}"` };
  }
  return null;
}

function everybodyProblem({
  type,
  issuer,
  url,
  allow,
  defaultRole = 'none',
}: SignInDocument): Violation | null {
  const address = type === 'github' ? url || 'https://github.com' : issuer;
  if (defaultRole === 'none' || allow?.length || !address || !URL.canParse(address)) return null;
  const { hostname } = new URL(address);
  return publicHosts.includes(hostname)
    ? {
        field: 'allow',
        description: `is required with defaultRole ${defaultRole}: anybody can have an account at ${hostname}`,
      }
    : null;
}

import type { MemberRole, SignInDocument } from '@muster/sdk/contract';
import { ruleFields } from '@muster/sdk/contract';
import type { Decision } from '../control/access/admit-member.ts';
import type { Person } from './person.ts';

type Rule = NonNullable<SignInDocument['allow']>[number];

/** Whether and with which role a person may sign in under an account. */
export function decide(document: SignInDocument, person: Person, account: string): Decision {
  const { allow = [], roles = [], defaultRole = 'none' } = document;
  const allowed = firstMatch('allow', allow, person, account);
  if (allow.length > 0 && !allowed)
    return { role: null, rule: null, reason: `${notAllowed(allow)}${noteOf(person)}` };
  const given = firstMatch('roles', roles, person, account);
  const role = given ? (roles[given.index]?.role as MemberRole | undefined) : noneAsNull(defaultRole);
  const rule = {
    allow: allowed?.text ?? 'everybody with a role',
    role: given && role ? `${given.text} → ${role}` : `defaultRole → ${defaultRole}`,
  };
  return role ? { role, rule } : { role: null, rule, reason: `${notAllowed(roles)}${noteOf(person)}` };
}

const noneAsNull = (role: MemberRole | 'none'): MemberRole | null => (role === 'none' ? null : role);

function firstMatch(list: string, rules: readonly Rule[], person: Person, account: string) {
  const index = rules.findIndex((rule) => matches(rule, person, account));
  const rule = rules[index];
  return rule ? { index, text: `${list}[${index}]: ${textOf(rule)}` } : null;
}

/** All fields of a rule must be true; a rule without any is true of nobody. */
function matches(rule: Rule, person: Person, account: string): boolean {
  const lower = (text = ''): string => text.toLowerCase();
  const tests: Record<(typeof ruleFields)[number], (wanted: string) => boolean> = {
    domain: (wanted) => person.domains.includes(lower(wanted)),
    group: (wanted) => person.groups.includes(wanted),
    org: (wanted) => person.orgs.includes(lower(wanted)),
    team: (wanted) => person.teams.includes(lower(wanted)),
    account: (wanted) => account === wanted || person.emails.includes(lower(wanted)),
    subject: (wanted) => person.subject === wanted,
  };
  const fields = ruleFields.filter((field) => rule[field]);
  return fields.length > 0 && fields.every((field) => tests[field](rule[field] ?? ''));
}

const textOf = (rule: Rule): string =>
  ruleFields
    .filter((field) => rule[field])
    .map((field) => `${field} ${rule[field]}`)
    .join(' and ');

const mostNamed = 5;

/** What a person who is refused reads. A subject is somebody, so it is not named. */
function notAllowed(rules: readonly Rule[]): string {
  const named = rules.filter((rule) => !rule.subject && !rule.account && textOf(rule) !== '').map(textOf);
  if (named.length === 0) return 'Your account is not among those that may sign in. Ask an admin.';
  const more = named.length > mostNamed ? ` and ${named.length - mostNamed} more` : '';
  return `Your account is in none of the groups that may sign in: ${named.slice(0, mostNamed).join('; ')}${more}.`;
}

const noteOf = ({ note }: Person): string => (note === '' ? '' : ` ${note}`);

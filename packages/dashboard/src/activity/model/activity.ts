import type { AuditRecord } from '@muster/sdk';
import {
  agentPage,
  auditKinds,
  kindOf,
  kinds,
  kindTable,
  providerByName,
  type Tenant,
} from '@muster/sdk/contract';
import { browserName } from '../../parts/model/text.ts';

/** What the page shows. It is stored in the URL. */
export interface ActivityView {
  readonly text: string;
  /** `provider_name/account`. */
  readonly actor: string;
  readonly kind: string;
  readonly name: string;
  readonly period: Period;
}

const periodDays = { '24h': 1, '7d': 7, '30d': 30, '90d': 90, all: null } as const;
export type Period = keyof typeof periodDays;

export const periodOptions: readonly (readonly [Period, string])[] = [
  ['24h', 'Last 24 hours'],
  ['7d', 'Last 7 days'],
  ['30d', 'Last 30 days'],
  ['90d', 'Last 90 days'],
  ['all', 'All that is kept'],
];

const everything: ActivityView = { text: '', actor: '', kind: '', name: '', period: 'all' };

const otherKinds: Readonly<Record<(typeof auditKinds)[number], string>> = {
  session: 'Sign-ins and sessions',
  member: 'Members',
  key: 'Keys of command lines',
  agent: 'Agents of others',
  runner: 'Runners',
};

/** The choices of the filter by kind: what is not of the catalog comes first. */
export const kindOptions: readonly (readonly [string, string])[] = [
  ['', 'Everything'],
  ...auditKinds.map((kind) => [kind, otherKinds[kind]] as const),
  ...kinds.map((kind) => [kind, kindTable[kind].title] as const),
];

/** Reads the query string of a URL and ignores unknown values. */
export function activityViewOf(search: string): ActivityView {
  const query = new URLSearchParams(search);
  const kind = query.get('kind') ?? '';
  return {
    text: (query.get('q') ?? '').slice(0, 256),
    actor: (query.get('actor') ?? '').slice(0, 300),
    kind: kindOptions.some(([known]) => known === kind) ? kind : '',
    name: (query.get('name') ?? '').slice(0, 1_024),
    period: periodOptions.find(([period]) => period === query.get('period'))?.[0] ?? everything.period,
  };
}

/** The URL of the page with a filter; defaults are left out. */
export function activityUrl({ text, ...view }: ActivityView): string {
  const query = new URLSearchParams();
  const { text: _, ...defaults } = everything;
  if (text !== '') query.set('q', text);
  for (const field of Object.keys(defaults) as (keyof typeof defaults)[])
    if (view[field] !== defaults[field]) query.set(field, view[field]);
  const queryString = query.toString();
  return queryString === '' ? '/activity' : `/activity?${queryString}`;
}

export const isFiltering = (view: ActivityView): boolean => activityUrl(view) !== '/activity';

/** The beginning of the period; undefined if everything is shown. */
export function sinceOf(period: Period, nowMs: number): Date | undefined {
  const days = periodDays[period];
  return days === null ? undefined : new Date(nowMs - days * 24 * 3_600_000);
}

/** Where the thing that it is about can be seen; undefined if nowhere. */
export function placeOf({ kind, name, details }: AuditRecord, tenant: Tenant): string | undefined {
  if (kindOf(kind) === kind) return `/catalog/${kind}/${encodeURIComponent(name)}`;
  if (kind === 'runner') return '/runners';
  const [, provider, account] = /^([^/]+)\/(.+)$/.exec(details.account ?? '') ?? [];
  const ownerProvider = providerByName(provider);
  if (kind !== 'agent' || !ownerProvider || !account) return undefined;
  return agentPage({
    ...{ tenant, ownerProvider, account },
    workspace: details.workspace ?? '',
    agent: name.split('/'),
  });
}

/** What it was done to, in words: `persona reviewer`. */
export const subjectOf = ({ kind, name }: AuditRecord): string => {
  const known = kindOf(kind);
  return known === kind ? `${kindTable[known].one} ${name}` : name;
};

/** What else is known: `account codehost_oauth/ada, workspace web`. */
export const detailsText = ({ details, actor, name }: AuditRecord): string =>
  Object.entries(details)
    .filter(([field, value]) => value !== '' && value !== actor && value !== name && field !== 'agent')
    .map(([field, value]) => (isBrowser(field, value) ? browserName(value) : `${words(field)} ${value}`))
    .join(', ');

const isBrowser = (field: string, value: string): boolean =>
  field === 'userAgent' && value.startsWith('Mozilla/');

/** `userAgent` → `user agent`. */
const words = (field: string): string => field.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);

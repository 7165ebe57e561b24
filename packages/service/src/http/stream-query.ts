import { type BodyOf, routes } from '@muster/sdk/contract';
import { validator } from '../lib/validator.ts';
import { invalidField } from './errors.ts';

type Query = Readonly<Record<string, string | readonly string[]>>;

const checkTimeline = validator(routes.timelineStream.body);
const checkList = validator(routes.listStream.body);

/** The body of `timelineStream` that this query says. */
export function timelineBodyOf(query: Query): BodyOf<'timelineStream'> {
  const body = {
    agentId: agentIdOf(
      (name) => query[`agentId.${name}`] ?? query[name] ?? query[name.split('.').at(-1) ?? ''],
    ),
    afterSequence: query.afterSequence,
  };
  return checked<BodyOf<'timelineStream'>>(body, checkTimeline);
}

/** The body of `listStream` that this query says. */
export function listBodyOf(query: Query): BodyOf<'listStream'> {
  const hasParent = Object.keys(query).some((name) => name.startsWith('parentId.'));
  const { account, workspace, text, endedSince, phases } = query;
  const body = {
    ...(hasParent && { parentId: agentIdOf((name) => query[`parentId.${name}`]) }),
    tenant: {
      provider: query['tenant.provider'] ?? query.provider,
      org: query['tenant.org'] ?? query.org,
    },
    account,
    workspace,
    text,
    endedSince,
    includeTerminal: flagOf(query.includeTerminal),
    allDepths: flagOf(query.allDepths),
    labels: labelsOf(query.labels),
    phases: phases === undefined ? undefined : [phases].flat().flatMap((part) => part.split(',')),
  };
  return checked<BodyOf<'listStream'>>(body, checkList);
}

const agentIdOf = (value: (name: string) => string | readonly string[] | undefined) => ({
  agent: pathOf(value('agent')),
  workspace: value('workspace'),
  ownerProvider: value('ownerProvider'),
  account: value('account'),
  tenant: { provider: value('tenant.provider'), org: value('tenant.org') },
});

/** `a/b`, or `a` and `b`. */
const pathOf = (value: string | readonly string[] | undefined): string[] | undefined => {
  if (value === undefined || value === '') return undefined;
  return typeof value === 'string' ? value.split('/') : [...value];
};

/** `key=value` each; a label has no `=` in its key. */
const labelsOf = (value: string | readonly string[] | undefined): Record<string, string> | undefined =>
  value === undefined
    ? undefined
    : Object.fromEntries(
        [value].flat().map((one) => {
          const at = one.indexOf('=');
          return at < 0 ? [one, ''] : [one.slice(0, at), one.slice(at + 1)];
        }),
      );

const flagOf = (value: string | readonly string[] | undefined): boolean | undefined =>
  value === undefined ? undefined : value === 'true';

function checked<B>(body: unknown, check: ReturnType<typeof validator>): B {
  const present: unknown = JSON.parse(JSON.stringify(body));
  const violation = check(present);
  if (violation) throw invalidField(violation.field, violation.description);
  return present as B;
}

import { kindTable, routes } from '../../packages/sdk/dist/contract/index.js';
import { chapters } from '../../packages/sdk/dist/contract/routes.js';
import { cell, note, requireSame } from './markdown.mjs';

/** Who may use a route of each access; the rules for whose agents and resources are in docs/interface.md. */
const whoMay = {
  self: 'any key',
  person: 'viewer, member, admin, operator',
  demand: 'viewer, member, admin, operator, runner',
  read: 'viewer, member, admin, operator, agent, share',
  command: 'member, admin, operator, agent',
  spawn: 'member, admin, operator, agent',
  'catalog-read': 'viewer, member, admin, operator',
  'catalog-write': 'member, admin, operator',
  runner: 'runner',
  'own-page': 'no key; only a page of the service itself',
  anyone: 'no key; not a page of another service',
};
/** Operations that fewer roles may use. */
const narrower = {
  ask: 'agent',
  finish: 'agent',
  fail: 'agent',
  list: 'viewer, member, admin, operator, agent',
  listStream: 'viewer, member, admin, operator, agent',
  listStreamByGet: 'viewer, member, admin, operator, agent',
  listDeliveries: 'admin, operator',
  redeliver: 'admin, operator',
  drainRunners: 'admin, operator',
  undrainRunners: 'admin, operator',
  listMembers: 'admin, operator',
  updateMember: 'admin, operator',
  setup: 'admin, operator',
  testIntegration: 'admin, operator',
  audit: 'admin, operator',
  listSignIns: 'admin, operator',
  testSignIn: 'admin, operator',
};
requireSame([...new Set(Object.values(routes).map(({ access }) => access))], Object.keys(whoMay));

const named = new Map();
const link = (title) => `[${title}](#${title.toLowerCase()})`;
const isOpen = ({ additionalProperties }) =>
  additionalProperties !== undefined && additionalProperties !== false;
const formats = { int64: 'int64', 'date-time': 'time', uuid: 'UUID' };

/** The type of a field. A schema with a title is a link to its section. */
function typeOf(schema) {
  const types = [schema.type ?? []].flat();
  const orNull = types.includes('null') ? ' or null' : '';
  if (schema.title) {
    if (!named.has(schema.title)) {
      named.set(schema.title, schema);
      for (const inner of Object.values(schema.properties ?? {})) typeOf(inner);
    }
    return `${link(schema.title)}${orNull}`;
  }
  if (schema.anyOf) return schema.anyOf.map(typeOf).join(' or ');
  if (schema.enum) return schema.enum.map((value) => `\`${value === '' ? '""' : value}\``).join(', ');
  if (types.length === 0) return 'any';
  if (types.includes('array')) return `array of ${typeOf(schema.items)}${orNull}`;
  if (schema.format in formats) return `${formats[schema.format]}${orNull}`;
  return `${types.filter((type) => type !== 'null').join(' or ')}${orNull}`;
}

/** The notes about a field. */
function notesOf(schema, isRequired) {
  const items = [schema.type ?? []].flat().includes('array') ? (schema.items ?? {}) : {};
  const { description = '', expected = items.expected, maxLength, minimum, maximum, maxItems } = schema;
  const counts = [
    maxLength !== undefined && `at most ${maxLength.toLocaleString('en-US')} characters`,
    maxItems !== undefined && `at most ${maxItems.toLocaleString('en-US')}`,
    (minimum !== undefined || maximum !== undefined) && range(minimum, maximum),
  ].filter(Boolean);
  const bounds = expected ? [expected] : counts;
  return [...(isRequired ? ['required'] : []), description.replace(/\.$/, ''), ...bounds]
    .filter(Boolean)
    .join('; ');
}

function range(minimum, maximum) {
  const [low, high] = [minimum, maximum].map((bound) => bound?.toLocaleString('en-US'));
  if (low === undefined) return `at most ${high}`;
  return high === undefined ? `at least ${low}` : `${low} to ${high}`;
}

/** Rows of an object's fields; fields of an object without a title follow as `outer.inner`. */
function rowsIn({ properties = {}, required = [] }, isRequest, prefix = '') {
  return Object.entries(properties).flatMap(([name, schema]) => {
    const at = `${prefix}${name}`;
    const inner = schema.items && !schema.items.title ? schema.items : schema;
    const suffix = inner === schema ? '.' : '[].';
    const notes = notesOf(schema, isRequest && required.includes(name));
    const row = `| \`${at}\` | ${cell(typeOf(schema))} | ${cell(notes)} |`;
    return inner.title ? [row] : [row, ...rowsIn(inner, isRequest, `${at}${suffix}`)];
  });
}

function tableOf(schema, isRequest, heading = 'field') {
  const rows = rowsIn(schema, isRequest);
  return rows.length === 0 ? '' : `| ${heading} | type | notes |\n|---|---|---|\n${rows.join('\n')}`;
}

/** A reply that several operations share is among the types. */
const repliesOf = (title) => Object.values(routes).filter(({ reply }) => reply.title === title).length;

function replyOf({ reply, stream, otherEvent }) {
  if (stream) return [`Events, each a ${typeOf(reply)}.`, otherEvent?.about].filter(Boolean).join(' ');
  if (Object.keys(reply.properties).length === 0) return 'Reply: `{}`';
  if (repliesOf(reply.title) > 1) return `Reply: ${typeOf(reply)}`;
  return `Reply:\n\n${tableOf(reply, false)}`;
}

function operationOf(name, route) {
  const parts = [...route.path.matchAll(/\{([^}]+)\}/g)].map(([, part]) => `\`${part}\``);
  const headers = { properties: route.headers ?? {} };
  const lines = [
    route.summary,
    `Roles: ${narrower[name] ?? whoMay[route.access]}.`,
    ...(parts.length > 0 ? [`In the path: ${parts.join(', ')}.`] : []),
  ];
  return [
    `### ${name}`,
    `\`${route.method} ${route.path}\``,
    lines.join(' '),
    tableOf(headers, true, 'header'),
    route.query ? tableOf(route.query, true, 'in the query') : '',
    route.body ? tableOf(route.body, true, 'in the body') : '',
    replyOf(route),
  ]
    .filter(Boolean)
    .join('\n\n');
}

function typeSection([title, schema]) {
  const about = schema.description ? `${schema.description}\n\n` : '';
  const body = schema.enum
    ? schema.enum.map((value) => `\`${value === '' ? '""' : value}\``).join(', ')
    : tableOf(schema, /(Input|Request|Ref)$/.test(title)) || (isOpen(schema) ? 'Any fields.' : '`{}`');
  return `### ${title}\n\n${about}${body}`;
}

const sections = Object.entries(chapters).map(([title, { about, operations }]) => {
  const named = Object.entries(routes).filter(([name]) => name in operations);
  return `## Operations: ${title}\n\n${about}\n\n${named.map((entry) => operationOf(...entry)).join('\n\n')}`;
});
/** The known fields of each kind of the catalog. */
const kindSections = Object.entries(kindTable)
  .map(([kind, { purpose, schema }]) => [kind, purpose, tableOf(schema, true)])
  .filter(([, , table]) => table !== '')
  .map(([kind, purpose, table]) => `### Document: ${kind}\n\n${purpose}\n\n${table}`);
const types = [...named].sort(([a], [b]) => (a < b ? -1 : 1)).map(typeSection);

const headings = [...Object.keys(routes), ...named.keys(), 'types'];
const doubled = headings.filter(
  (a, at) => headings.findIndex((b) => b.toLowerCase() === a.toLowerCase()) !== at,
);
if (doubled.length > 0) throw new Error(`two headings of docs/reference.md have the same anchor: ${doubled}`);

export const referencePage = `# Reference

${note('the route table and the schemas of packages/sdk/src/contract')}
Every operation with every field. [interface.md](interface.md) explains them, with an example of each for curl, the command
line and TypeScript; [errors.md](errors.md) lists the errors.

In a request, every field that is not marked as required is optional; a reply has all of its fields. An \`int64\` is a string in
replies, and a string or a whole number in requests. A time is an RFC 3339 string. \`Roles\` lists the roles whose keys may call the
operation.

${sections.join('\n\n')}

## Documents of the catalog

The fields of the \`payload\` of a resource. No field is required, and unknown fields are kept.

${kindSections.join('\n\n')}

## Types

${types.join('\n\n')}
`;

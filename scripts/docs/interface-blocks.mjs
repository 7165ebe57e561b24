import { faults, phaseReasons, phases, reasonRow, routes } from '../../packages/sdk/dist/contract/index.js';
import { pathExamples } from '../../packages/sdk/dist/contract/openapi.js';
import { userTools } from '../../packages/service/dist/http/mcp/user-tools.js';
import { examples } from './examples.mjs';
import { cell, requireSame } from './markdown.mjs';

const lineLength = 120;

/** JSON on one line, with a space after each colon and comma. */
function inline(value) {
  if (Array.isArray(value)) return `[${value.map(inline).join(', ')}]`;
  if (value === null || typeof value !== 'object') return JSON.stringify(value);
  return `{${fieldsOf(value).join(', ')}}`;
}
const fieldsOf = (value) => Object.entries(value).map(([name, inner]) => `"${name}": ${inline(inner)}`);

/** On one line, or one field a line where it would be too long. */
const written = (body) =>
  inline(body).length < lineLength - 10 ? inline(body) : `{\n    ${fieldsOf(body).join(',\n    ')}\n  }`;

/** In single quotes for the shell, with `$NAME` outside of them, so that the shell expands it. */
const quoted = (text) =>
  `'${text.replaceAll("'", "'\\''").replace(/\$[A-Z_]+/g, (variable) => `'"${variable}"'`)}'`;

/** What a request without a key sends instead. */
const keyless = { 'own-page': ['Origin: $MUSTER_URL'], anyone: [] };

function curl({ method, path, stream, access }, body, { query = '', upload, isCookie = false }) {
  const place = path.replace(/\{([^}]+)\}/g, (_, parameter) => pathExamples[parameter]);
  const flags = [stream ? '-sN' : '-s', ...(method === 'DELETE' ? ['-X DELETE'] : [])].join(' ');
  const page = method === 'GET' ? ['Cookie: $COOKIE'] : ['Cookie: $COOKIE', 'Origin: $MUSTER_URL'];
  const callers = isCookie ? page : (keyless[access] ?? ['Authorization: Bearer $MUSTER_API_KEY']);
  const headers = callers.map((header) => ` -H "${header}"`).join('');
  const call = `curl ${flags} "$MUSTER_URL${place}${query}"${headers}`;
  const type = upload?.endsWith('.png') ? 'image/png' : 'application/octet-stream';
  if (upload) return `${call} \\\n  -H 'Content-Type: ${type}' --data-binary @${upload}`;
  return body === undefined
    ? call
    : `${call} -H 'Content-Type: application/json' \\\n  -d ${quoted(written(body))}`;
}

const fence = (language, code) => `\`\`\`${language}\n${code}\n\`\`\``;

function exampleOf(name) {
  const { cli, ts, body = routes[name].example, ...how } = examples[name];
  if (routes[name].body && body === undefined) throw new Error(`the operation ${name} lacks an example`);
  const fences = [
    fence('sh', curl(routes[name], body, how)),
    ...(cli ? [fence('sh', cli)] : []),
    ...(ts ? [fence('ts', ts)] : []),
  ];
  const reference = `**Example** ([all fields](reference.md#${name.toLowerCase()}))`;
  return [reference, ...fences].join('\n\n');
}

requireSame(Object.keys(routes), Object.keys(examples));

const exampleBlocks = Object.fromEntries(
  Object.keys(routes).map((name) => [`example of ${name}`, exampleOf(name)]),
);

const [, ...shownPhases] = phases;
const meanings = {
  PHASE_PENDING: 'has work, but no run yet',
  PHASE_RUNNING: 'a run is in progress',
  PHASE_WAITING_FOR_INPUT: 'idle',
};
const reasonsIn = (phase) =>
  phaseReasons.filter((phaseReason) => reasonRow({ phaseReason }).phases.includes(phase)).join(', ');

const phaseTable = [
  '| phase | meaning | reasons |',
  '|---|---|---|',
  ...shownPhases.map((phase) => `| \`${phase}\` | ${meanings[phase] ?? 'ended'} | ${reasonsIn(phase)} |`),
].join('\n');

const reasonTable = [
  '| reason | why | who can change it |',
  '|---|---|---|',
  ...phaseReasons.map((phaseReason) => {
    const { why, changedBy } = reasonRow({ phaseReason });
    return `| \`${phaseReason}\` | ${cell(why)} | ${cell(changedBy)} |`;
  }),
].join('\n');

const followed = {
  final: 'FAILED',
  passing: 'RETRYING, then BLOCKED',
  fixable: 'BLOCKED',
};

const faultTable = [
  '| code | why | then the agent is |',
  '|---|---|---|',
  ...Object.entries(faults).map(
    ([code, fault]) => `| \`${code}\` | ${cell(fault.why)} | ${followed[fault.class]} |`,
  ),
].join('\n');

const everywhere = ['agent', 'workspace', 'account'];

/** The arguments of a tool, without those by which every tool names an agent. */
function argumentsOf({ inputSchema }) {
  const { properties = {}, required = [] } = inputSchema;
  const names = Object.keys(properties);
  const own = names.filter(
    (name) => name === 'agent' || !(names.includes('agent') && everywhere.includes(name)),
  );
  return own.map((name) => (required.includes(name) ? `**\`${name}\`**` : `\`${name}\``)).join(', ');
}

const rowOf = (tool) => `| \`${tool.name}\` | ${argumentsOf(tool)} | ${cell(tool.description)} |`;

const toolTable = `| tool | arguments (**required**) | what it does |\n|---|---|---|\n${userTools.map(rowOf).join('\n')}`;

/** The generated blocks of docs/interface.md: an example per operation, phases and their reasons, the error codes of runs, the tools of users. */
export const interfaceBlocks = {
  ...exampleBlocks,
  phases: phaseTable,
  'reasons of phases': reasonTable,
  'the codes of errors': faultTable,
  'the tools of users': toolTable,
};

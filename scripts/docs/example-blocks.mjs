import { routes } from '../../packages/sdk/dist/contract/index.js';
import { bodyExamples, pathExamples } from '../../packages/sdk/dist/contract/openapi.js';
import { examples } from './examples.mjs';
import { requireSame } from './tables.mjs';

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

function curl({ method, path, stream, access }, body, { query = '', isCookie = false }) {
  const place = path.replace(/\{([^}]+)\}/g, (_, parameter) => pathExamples[parameter]);
  const flags = [stream ? '-sN' : '-s', ...(method === 'DELETE' ? ['-X DELETE'] : [])].join(' ');
  const page = method === 'GET' ? ['Cookie: $COOKIE'] : ['Cookie: $COOKIE', 'Origin: $MUSTER_URL'];
  const callers = isCookie
    ? page
    : [access === 'own-page' ? 'Origin: $MUSTER_URL' : 'Authorization: Bearer $MUSTER_API_KEY'];
  const headers = callers.map((header) => ` -H "${header}"`).join('');
  const call = `curl ${flags} "$MUSTER_URL${place}${query}"${headers}`;
  return body === undefined
    ? call
    : `${call} -H 'Content-Type: application/json' \\\n  -d ${quoted(written(body))}`;
}

const fence = (language, code) => `\`\`\`${language}\n${code}\n\`\`\``;

function exampleOf(name) {
  const { cli, ts, body = bodyExamples[name], ...how } = examples[name];
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

/** A block per operation, by its name in the route table. */
export const exampleBlocks = Object.fromEntries(
  Object.keys(routes).map((name) => [`example of ${name}`, exampleOf(name)]),
);

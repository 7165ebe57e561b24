import { kindTable, limits, type McpServerDocument, type WorkspaceDocument } from '@muster/sdk/contract';
import { type Violation, validator } from './validator.ts';

/** `mcpServers` of a workspace: what is checked when it is written, and again by the runner that uses it. */
export type McpServerDocuments = NonNullable<WorkspaceDocument['mcpServers']>;

const shapeOf = validator(kindTable.workspace.schema.properties.mcpServers ?? {});

const namePattern = /^[A-Za-z0-9]+(?:[_-][A-Za-z0-9]+)*$/;
const mostNameLength = 32;
/** The tools of Muster itself, and names that Claude Code keeps for its own servers. */
const reservedNames: ReadonlyMap<string, string> = new Map([
  ['muster', 'Muster'],
  ...['ide', 'workspace', 'computer_use', 'claude_in_chrome', 'claude_ai', 'remote_devices'].map(
    (name) => [name, 'Claude Code'] as const,
  ),
]);
const remoteFields = ['url', 'headers'];
const localFields = ['command', 'args', 'env'];

/** The first thing that is wrong; null if nothing is. */
export function mcpServersProblem(servers: unknown): Violation | null {
  const shape = shapeOf(servers);
  if (shape) return { ...shape, field: ['mcpServers', shape.field].filter(Boolean).join('.') };
  const names = new Map<string, string>();
  for (const [name, server] of Object.entries(servers as McpServerDocuments)) {
    const problem = nameProblem(name, names) ?? serverProblem(`mcpServers.${name}`, server);
    if (problem) return problem;
    names.set(comparable(name), name);
  }
  return null;
}

/** Codex writes a hyphen in the names of tools as an underscore. */
const comparable = (name: string): string => name.toLowerCase().replaceAll('-', '_');

function nameProblem(name: string, others: ReadonlyMap<string, string>): Violation | null {
  if (!namePattern.test(name) || name.length > mostNameLength)
    return violation(
      'mcpServers',
      `must have names of 1 to ${mostNameLength} characters of A-Z a-z 0-9, with single - or _ between them; got ${shown(name)}`,
    );
  const owner = reservedNames.get(comparable(name));
  if (owner !== undefined)
    return violation(`mcpServers.${name}`, `must have another name: ${owner} uses this one itself`);
  const other = others.get(comparable(name));
  return other === undefined
    ? null
    : violation(
        `mcpServers.${name}`,
        `must have a name that differs from ${other} in more than case, - and _`,
      );
}

function serverProblem(field: string, server: McpServerDocument): Violation | null {
  const { url, command, headers = {}, args = [], env = {} } = server;
  const known = [...remoteFields, ...localFields];
  const unknown = Object.keys(server).find((name) => !known.includes(name));
  if (unknown !== undefined)
    return violation(field, `must have only the fields ${known.join(', ')}; got ${shown(unknown)}`);
  if ((url === undefined) === (command === undefined))
    return violation(field, `must have either url or command; got ${url === undefined ? 'neither' : 'both'}`);
  const [others, missing] = url === undefined ? [remoteFields, 'url'] : [localFields, 'command'];
  const misplaced = Object.keys(server).find((name) => others.includes(name));
  if (misplaced !== undefined) return violation(`${field}.${misplaced}`, `must be absent without ${missing}`);
  if (url !== undefined)
    return urlProblem(`${field}.url`, url) ?? headersProblem(`${field}.headers`, headers);
  const length = [command, ...args].join('').length;
  if (length > limits.mcpCommandLength)
    return violation(
      `${field}.args`,
      `must have at most ${limits.mcpCommandLength} characters together with command; got ${length}`,
    );
  return envProblem(`${field}.env`, env);
}

/** The address is not shown: its query may contain a key. */
function urlProblem(field: string, text: string): Violation | null {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || !/^https?:$/.test(url.protocol))
    return violation(field, 'must be an address that begins with https:// or http://');
  if (url.username || url.password)
    return violation(field, 'must not have a user name or password; write them to a header from a secret');
  return url.hash ? violation(field, 'must not have a fragment (#…)') : null;
}

const headerName = /^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}$/;

/** Headers that the client of the server, or HTTP itself, sets. */
const reservedHeader =
  /^(?:host|connection|keep-alive|proxy-.*|te|trailer|transfer-encoding|upgrade|expect|content-.*|accept|accept-encoding|last-event-id|mcp-.*)$/i;

function headersProblem(field: string, headers: NonNullable<McpServerDocument['headers']>): Violation | null {
  const names = new Set<string>();
  for (const [name, value] of Object.entries(headers)) {
    if (!headerName.test(name))
      return violation(field, `must have names of headers, such as Authorization; got ${shown(name)}`);
    if (reservedHeader.test(name))
      return violation(`${field}.${name}`, "must be absent: the agent's client sets this header itself");
    if (names.has(name.toLowerCase()))
      return violation(`${field}.${name}`, 'must be written once, in one case');
    names.add(name.toLowerCase());
    const problem = typeof value === 'string' ? headerValueProblem(value) : null;
    if (problem) return violation(`${field}.${name}`, problem);
  }
  return null;
}

/** Why a text can't be the value of a header; null if it can. */
export function headerValueProblem(value: string): string | null {
  if (value.length > limits.mcpTextLength)
    return `must have at most ${limits.mcpTextLength} characters; got ${value.length}`;
  return /^[\t\x20-\x7e\x80-\xff]*$/.test(value)
    ? null
    : 'must be one line of Latin characters, without line breaks and control characters';
}

const variableName = /^[A-Za-z_][A-Za-z0-9_]{0,127}$/;

function envProblem(field: string, env: NonNullable<McpServerDocument['env']>): Violation | null {
  for (const [name, value] of Object.entries(env)) {
    if (!variableName.test(name))
      return violation(
        field,
        `must have names of letters, digits and _ that do not start with a digit; got ${shown(name)}`,
      );
    if (typeof value === 'string' && value.length > limits.mcpTextLength)
      return violation(
        `${field}.${name}`,
        `must have at most ${limits.mcpTextLength} characters; got ${value.length}`,
      );
  }
  return null;
}

const violation = (field: string, description: string): Violation => ({ field, description });

const shownLength = 60;

const shown = (text: string): string =>
  JSON.stringify(text.length > shownLength ? `${text.slice(0, shownLength)}…` : text);

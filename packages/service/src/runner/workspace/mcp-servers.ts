import { limits, type McpServerDocument } from '@muster/sdk/contract';
import type { McpServer } from '../../harness/harness.ts';
import { headerValueProblem, type McpServerDocuments, mcpServersProblem } from '../../lib/mcp-servers.ts';
import { givenText, type VariableSources } from './environment.ts';

/** A remote server. Only the gateway knows its address and headers. */
export interface RemoteMcpServer {
  readonly name: string;
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  /** Whether its address may be on this machine or in an internal network; otherwise how to allow that. */
  readonly mayBeInner: true | string;
}

export interface ResolvedMcpServers {
  readonly remote: readonly RemoteMcpServer[];
  /** All of them, as a harness configures them. */
  readonly servers: readonly McpServer[];
  /** For the process of the harness, which passes them to the local servers. */
  readonly environment: Readonly<Record<string, string>>;
  /** Values of headers, which no answer of a server may contain. */
  readonly headerValues: readonly string[];
  /** To be masked in what the run reports. */
  readonly secretValues: readonly string[];
}

/** The path of a remote server at the run's gateway endpoint. */
export const mcpServerPath = (name: string): string => `/mcp-servers/${name}`;

/**
 * The servers of a workspace with the values that they refer to. Throws an error that names the field.
 *
 * A local server is started by the harness as a shell that reads its command from a variable. So the configuration of
 * the harness has neither the arguments nor the secrets of the server: it is an argument of a process, and one of the
 * harnesses replaces each `${NAME}` in it by a variable.
 */
export function mcpServersOf(documents: unknown, sources: VariableSources): ResolvedMcpServers {
  const problem = documents ? mcpServersProblem(documents) : null;
  if (problem) throw new Error(`${problem.field}: ${problem.description}`);
  const remote: RemoteMcpServer[] = [];
  const servers: McpServer[] = [];
  const environment: Record<string, string> = {};
  const headerValues: string[] = [];
  const envValues: string[] = [];
  for (const [name, server] of Object.entries((documents ?? {}) as McpServerDocuments)) {
    const field = `mcpServers.${name}`;
    if (server.url !== undefined) {
      const headers = headersOf(field, server, sources);
      headerValues.push(...fromElsewhere(server.headers, headers).flatMap(withoutScheme));
      remote.push({ name, url: new URL(server.url), headers, mayBeInner: innerOf(server.url, sources) });
      servers.push({ name, path: mcpServerPath(name) });
    } else {
      const variables = valuesOf(`${field}.env`, server.env, sources);
      envValues.push(...fromElsewhere(server.env, variables));
      const script = `MUSTER_MCP_${servers.length}`;
      const own = { [script]: scriptOf(script, server, variables), ...prefixed(script, variables) };
      Object.assign(environment, own);
      const args = ['-c', `eval "$${script}"`];
      servers.push({ name, command: '/bin/sh', args, variables: Object.keys(own) });
    }
  }
  refuseLarge(environment);
  return { remote, servers, environment, headerValues, secretValues: [...headerValues, ...envValues] };
}

function valuesOf(
  field: string,
  given: McpServerDocument['env'],
  sources: VariableSources,
): Record<string, string> {
  return Object.fromEntries(
    Object.entries(given ?? {}).map(([name, value]) => [name, givenText(`${field}.${name}`, value, sources)]),
  );
}

function headersOf(
  field: string,
  server: McpServerDocument,
  sources: VariableSources,
): Record<string, string> {
  const headers = valuesOf(`${field}.headers`, server.headers, sources);
  for (const [name, value] of Object.entries(headers)) {
    const problem = headerValueProblem(value);
    if (problem) throw new Error(`${field}.headers.${name}: ${problem}`);
  }
  return headers;
}

/** The values that the document does not contain itself. */
const fromElsewhere = (given: McpServerDocument['env'], values: Readonly<Record<string, string>>): string[] =>
  Object.entries(given ?? {}).flatMap(([name, value]) =>
    typeof value === 'string' ? [] : [values[name] ?? ''],
  );

/** `Bearer TOKEN`: also the token alone. */
const withoutScheme = (value: string): string[] => [value, ...value.split(/\s+/)];

function innerOf(text: string, { rights }: VariableSources): true | string {
  const url = new URL(text);
  return rights.mayBeInner(url) || rights.howToAllow('mcpServers', `${url.origin}${url.pathname}`);
}

const prefixed = (prefix: string, variables: Readonly<Record<string, string>>): Record<string, string> =>
  Object.fromEntries(Object.entries(variables).map(([name, value]) => [`${prefix}_${name}`, value]));

/** Values stay as they are, each in its own variable, so that they are recognized where they are printed. */
function scriptOf(
  script: string,
  { command = '', args = [] }: McpServerDocument,
  variables: Readonly<Record<string, string>>,
): string {
  const exports = Object.keys(variables).map((name) => `export ${name}="$${script}_${name}"`);
  return [...exports, `exec ${[command, ...args].map(quoted).join(' ')}`].join('\n');
}

const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

function refuseLarge(environment: Readonly<Record<string, string>>): void {
  const bytes = Object.entries(environment).reduce(
    (sum, [name, value]) => sum + Buffer.byteLength(name) + Buffer.byteLength(value),
    0,
  );
  if (bytes > limits.mcpEnvironmentBytes)
    throw new Error(
      `mcpServers: the commands and variables of all local servers must have at most ${limits.mcpEnvironmentBytes} bytes together; got ${bytes}`,
    );
}

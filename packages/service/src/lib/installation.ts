import { delimiter, isAbsolute, join, relative } from 'node:path';
import type { Installation } from '@muster/sdk/contract';

export interface Started {
  /** The file that Node was started with. */
  readonly script: string;
  readonly folder: string;
  readonly env: NodeJS.ProcessEnv;
  /** As the operator wrote it, for example in a container. */
  readonly command: string | null;
  readonly hasRunner: boolean;
}

/**
 * How people run `muster` where this service runs, as they have to write it in the folder in which it was started. Never a
 * form for which npm may download a package: `muster` is the package of others there.
 */
export function installationOf({ script, folder, env, command: given, hasRunner }: Started): Installation {
  const command = given ?? commandOf(script, folder, env);
  if (!hasRunner || given !== null || isManaged(env)) return { command, start: '' };
  return { command, start: isCheckout(script) ? 'npm start' : `${command} serve` };
}

function commandOf(script: string, folder: string, env: NodeJS.ProcessEnv): string {
  if (isOnPath(script, env)) return 'muster';
  const path = relative(folder, script);
  const shown = isAbsolute(path) || path === '' ? script : path;
  if (/\.m?js$/.test(shown)) return `node ${quoted(shown)}`;
  return quoted(shown.includes('/') ? shown : `./${shown}`);
}

/** npm adds `node_modules/.bin` of a folder to the path of what it starts. A shell has it only where a person added it. */
const isOnPath = (script: string, { PATH = '' }: NodeJS.ProcessEnv): boolean =>
  PATH.split(delimiter).some(
    (folder) => !/\/node_modules\/\.bin\/?$/.test(folder) && join(folder, 'muster') === script,
  );

const isCheckout = (script: string): boolean => /(^|\/)packages\/service\/bin\/muster\.js$/.test(script);

/** A service manager or an orchestrator has the variables of the service. */
const isManaged = ({ NOTIFY_SOCKET, INVOCATION_ID, KUBERNETES_SERVICE_HOST }: NodeJS.ProcessEnv): boolean =>
  [NOTIFY_SOCKET, INVOCATION_ID, KUBERNETES_SERVICE_HOST].some((value) => value !== undefined);

const quoted = (path: string): string =>
  /^[\w./@+-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`;

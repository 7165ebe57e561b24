import { execFile } from 'node:child_process';
import { existsSync, readlinkSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, isAbsolute, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import type { Sandbox } from './bubblewrap.ts';
import { relayFile, SandboxedProcess } from './sandboxed-process.ts';
import { systemView } from './system-view.ts';

export type { Sandbox } from './bubblewrap.ts';

export const sandboxModes = ['required', 'auto', 'off'] as const;
export type SandboxMode = (typeof sandboxModes)[number];

export interface SandboxChoice {
  readonly sandbox: Sandbox | null;
  /** A sentence for the operator: what holds the agents, or why nothing does. */
  readonly note: string;
}

const run = promisify(execFile);
const trialMs = 20_000;

/** The operator's `reads` are paths that every agent may read beyond the system's own programs. */
export async function chooseSandbox(
  mode: SandboxMode,
  reads: readonly string[] = [],
): Promise<SandboxChoice> {
  if (mode === 'off') return without('MUSTER_SANDBOX is off');
  const missing = reads.find((path) => !existsSync(path));
  if (missing !== undefined) throw new Error(`MUSTER_SANDBOX_READ names ${missing}, which does not exist`);
  try {
    const sandbox = await probe(reads);
    return { sandbox, note: `Agents run in a sandbox (${sandbox.program}).` };
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    if (mode === 'required') throw new Error(`MUSTER_SANDBOX is required, but ${reason}. ${requiredHelp}`);
    return without(reason);
  }
}

const requiredHelp =
  'It is required by default when a provider key is set. To run agents without a sandbox, with all rights of the ' +
  "runner's user, set MUSTER_SANDBOX=auto (a sandbox where it works) or MUSTER_SANDBOX=off.";

const without = (reason: string): SandboxChoice => ({
  sandbox: null,
  note: `AGENTS RUN WITHOUT A SANDBOX, with all rights of this runner: ${reason}`,
});

async function probe(reads: readonly string[]): Promise<Sandbox> {
  if (process.platform !== 'linux') throw new Error('the sandbox works on Linux only');
  const program = (process.env.PATH ?? '')
    .split(delimiter)
    .filter(isAbsolute)
    .map((folder) => join(folder, 'bwrap'))
    .find((file) => existsSync(file));
  if (!program) throw new Error('bubblewrap is not installed: apt-get install bubblewrap');
  try {
    const { stdout } = await run(program, ['--help'], { env: {} });
    const forbidsNamespaces = stdout.includes('--disable-userns');
    const limitsScratch = stdout.includes('--size');
    const sandbox = { ...systemView(reads), program, forbidsNamespaces, limitsScratch };
    await tryOut(sandbox);
    return sandbox;
  } catch (error) {
    const complaint = error instanceof Error ? error.message : String(error);
    throw new Error(`bubblewrap does not work here (${complaint.trim()}); ${remedy}`);
  }
}

const remedy =
  'allow user namespaces: sysctl user.max_user_namespaces above 0, kernel.unprivileged_userns_clone=1, on Ubuntu ' +
  'kernel.apparmor_restrict_unprivileged_userns=0; in a container, a seccomp profile that permits them';

const namespaces = ['pid', 'net', 'ipc', 'mnt', 'user'];

/** For real, the way an agent's processes are started, with the runner's own Node, which must be seen in there. */
async function tryOut(sandbox: Sandbox): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'muster-sandbox-'));
  try {
    const trial = new SandboxedProcess([process.execPath, '-e', look], {
      sandbox,
      view: {
        folders: { workspaceFolder: folder, homeFolder: folder },
        hides: [],
        reads: [relayFile],
        environment: {},
        scratchMb: 1,
        folder,
      },
      relayAddress: '127.0.0.2:1024',
      socketPath: join(folder, 'none'),
      marker: {},
      limited: (argv) => argv,
    });
    const patience = setTimeout(() => trial.kill(), trialMs);
    const [seen, complaint] = await Promise.all([text(trial.child.stdout), text(trial.child.stderr)]);
    await trial.exited;
    clearTimeout(patience);
    const [filter = '', ...lines] = seen.split('\n');
    const shared = namespaces.filter((name, at) => isShared(name, lines[at]));
    if (shared.length > 0)
      throw new Error(complaint.trim() || `no namespace of its own for ${shared.join(', ')}`);
    if (!/\t2$/.test(filter)) throw new Error('its system call filter was not installed');
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

const look = `
console.log(/^Seccomp:.*$/m.exec(require('node:fs').readFileSync('/proc/self/status', 'utf8'))?.[0]);
for (const name of ${JSON.stringify(namespaces)})
  console.log(require('node:fs').readlinkSync('/proc/self/ns/' + name));`;

const isShared = (name: string, seen = ''): boolean =>
  seen === '' || seen === readlinkSync(`/proc/self/ns/${name}`);

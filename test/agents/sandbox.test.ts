import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { createServer, type Server as HttpServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { AgentStatus } from '@muster/sdk/contract';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { until } from '../support/async.ts';
import { uniqueName, writeResource } from '../support/catalog.ts';
import { filesBelow, readUnlessGone } from '../support/files.ts';
import { findSecretsScript, wantedFile } from '../support/find-secrets.ts';
import type { GitRemote } from '../support/git-remote.ts';
import { sandbox } from '../support/sandbox.ts';
import { type Server, startServer } from '../support/server.ts';
import {
  backends,
  claudeCode,
  patienceMs,
  providerKeys,
  type TestAgents,
  TestService,
  useTestService,
} from './test-service.ts';

/** What an agent can see and do is found out by the agent itself: its model runs commands and scripts of its repository. */
const canary = `canary-${randomBytes(12).toString('hex')}`;
const serviceSecret = randomBytes(24).toString('hex');
const teamToken = randomBytes(12).toString('hex');

let service: TestService;
/** A server on this machine that only an environment can allow an agent to reach. */
let localServer: HttpServer;
let neighbour: Neighbour;

interface Neighbour {
  readonly branch: string;
  readonly secretFile: string;
  readonly token: string;
}

/** Everything that must not be found, by its name. */
const secrets = (): Record<string, string> => ({
  ...providerKeys,
  'the bootstrap key': service.server.key,
  'the service secret': serviceSecret,
  'the database': service.server.databaseUrl,
  "the neighbour's token": neighbour.token,
});

const data = (): string => service.server.env.MUSTER_DATA ?? '';
const localPort = (): number => (localServer.address() as AddressInfo).port;

/** All agents that have run, to search everything known about them for secrets. */
const visited: { agents: TestAgents; name: string }[] = [];

interface Visit {
  readonly name: string;
  readonly status: AgentStatus;
  /** What each command printed. */
  readonly printed: readonly string[];
}

const separator = '=====';

/** A new agent that runs these scripts and ends its turn. A script is a list of commands. */
async function visit(
  agents: TestAgents,
  model: string,
  ...scripts: readonly (readonly string[])[]
): Promise<Visit> {
  const name = uniqueName('visitor');
  visited.push({ agents, name });
  // Of a script that fails, Claude Code would also print the exit code.
  const steps = scripts.map((commands) => ({ shell: `${commands.join(`\necho ${separator}\n`)}\ntrue` }));
  const marker = service.script(...steps, { say: 'That was all.' });
  await agents.spawn(name, { model, description: `Look around. ${marker}` });
  const status = await agents.wait(name);
  const texts = await agents.texts(name, 'TOOL_RESULT');
  return { name, status, printed: texts.flatMap((text) => text.split(`${separator}\n`)) };
}

const linesOf = (text = ''): string[] => text.split('\n').filter((line) => line !== '');

async function environment(document: Record<string, unknown>): Promise<{ environment: string }> {
  const name = uniqueName('environment');
  await writeResource(service.api, 'environment', name, document);
  return { environment: name };
}

describe.skipIf(!sandbox)('in the sandbox', () => {
  let shared: { agents: TestAgents; remote: GitRemote };

  beforeAll(async () => {
    service = await TestService.start({
      env: { MUSTER_SECRET: serviceSecret, TEAM_NPM_TOKEN: teamToken, MUSTER_RUNNER_NAME: 'runner-one' },
    });
    localServer = createServer((_request, response) => response.end('the local server answers\n'));
    localServer.listen(0, '127.0.0.1');
    await once(localServer, 'listening');
    await writeResource(service.api, 'vm-profile', 'limited', { processes: 300 });
    await writeResource(service.api, 'pool', 'default', { vmProfile: 'limited' });
    const variables = { TEAM: 'muster', NPM_TOKEN: { fromRunner: 'TEAM_NPM_TOKEN' }, CANARY: canary };
    const allowHosts = [`127.0.0.1:${localPort()}`];
    shared = await service.workspace(
      { 'write.sh': tryToWrite, 'find.sh': findSecretsScript, 'canary.txt': canary, 'fork.sh': fork },
      await environment({ variables, allowHosts }),
    );
    neighbour = await startNeighbour(shared.agents);
    shared.remote.commit('main', { wanted: wantedFile([canary, ...Object.values(secrets())]) });
  });
  afterAll(async () => {
    localServer?.close();
    await service?.close();
  });

  /** A rehearsal agent of the same workspace, during its run. */
  async function startNeighbour(agents: TestAgents): Promise<Neighbour> {
    const commands = 'pwd; echo "private" > secret.txt; git add . && git commit -qm x && git push -q';
    const stay = `sh -c 'sleep 3600; :' "$PWD"`;
    await agents.spawn('neighbour', { description: `!run ${commands}\n!run ${stay}` });
    const [printed = ''] = await until(
      'what the neighbour printed',
      () => agents.texts('neighbour', 'TOOL_RESULT'),
      (seen) => seen.length > 0,
      patienceMs,
    );
    const folder = linesOf(printed)[0] ?? '';
    const [run = ''] = readdirSync(join(data(), 'runs'));
    const config = readFileSync(join(data(), 'runs', run, 'gitconfig'), 'utf8');
    return {
      branch: (await agents.status('neighbour')).branch,
      secretFile: join(folder, 'secret.txt'),
      token: /mst_[^\s"]+/.exec(config)?.[0] ?? '',
    };
  }

  const tryToWrite = `try() { if (echo x >> "$1") 2> /dev/null; then echo "wrote $1"; else echo "refused $1"; fi; }
mirror=$(cat .git/objects/info/alternates)
for path in /x /etc/x /etc/hosts /usr/x /usr/bin/x /root/x /home/x "$mirror/x" "$mirror/../x" \\
  "$GIT_CONFIG_GLOBAL" "$(dirname "$GIT_CONFIG_GLOBAL")/x" ../x ../note.json ../../x; do try "$path"; done
rm -f "$GIT_CONFIG_GLOBAL" 2> /dev/null && echo "wrote by removing"
try "$PWD/mine" && try "$HOME/mine"`;

  const fork = 'for n in $(seq 400); do sleep 60 & done; echo "all of them"; kill $(jobs -p)';
  // In a container no limit of memory is enforced either.
  const isNotAboutLimit = (warning: string): boolean =>
    !/^The (run reached its )?limit (processes: 300|memoryMb)/.test(warning);

  // Not concurrently: each compares the branches of the shared repository before and after.
  describe.each(backends)('$title', ({ model, provider }) => {
    it('gets its environment and limits, finds no key, and sees, writes, reaches and pushes only what it may', async () => {
      const { agents, remote } = shared;
      const refs = () => linesOf(remote.git('for-each-ref', '--format=%(objectname) %(refname)'));
      const before = refs();
      const url = `http://127.0.0.1:${localPort()}/`;
      const { name, status, printed } = await visit(
        agents,
        model,
        [
          'bash find.sh',
          'echo "$TEAM $NPM_TOKEN"; printf %s "$NPM_TOKEN" | sha256sum',
          `curl -sS ${url}`,
          `curl -sS --proxytunnel ${url}`,
          `curl -sS --noproxy '*' ${url} 2>&1`,
          `curl -sS ${service.stub.url}/ 2>&1`,
          'curl -sS http://example.com/ 2>&1',
          'curl -sS https://example.com/ 2>&1',
        ],
        [
          'pwd; echo "$HOME"; echo "$GIT_CONFIG_GLOBAL"',
          'sh write.sh',
          `cat ${neighbour.secretFile} 2>&1; ls -a ${dirname(neighbour.secretFile)} 2>&1`,
          `ls ${data()}; cat ${data()}/admin.key 2>&1; ls ${data()}/agents ${data()}/runs`,
          'git add mine && git commit -qm mine',
          'git push origin HEAD:main 2>&1',
          `git push --force origin HEAD:${neighbour.branch} 2>&1`,
          `git push origin :${neighbour.branch} 2>&1`,
          'git push origin HEAD:refs/tags/v1 2>&1',
          'git push 2>&1',
        ],
        // Separately: the script is an argument of its own shell.
        [`cat /proc/[0-9]*/cmdline | tr '\\0' ' '`],
        ['sh fork.sh 2>&1'],
      );
      const [found, given, plain, tunnelled, direct, other, outside, outsideTunnelled, ...more] = printed;
      const [own, written, ofNeighbour = '', ofData, , ...pushes] = more;
      const [processes = '', forked = ''] = printed.slice(-2);
      const [folder = '', home = '', gitConfig = ''] = linesOf(own);

      // The search finds the canary in every place.
      const places = ['environment', '/proc/environ', '/proc/cmdline', `${folder}/canary.txt`];
      expect(linesOf(found)).toEqual(expect.arrayContaining(places.map((place) => `${place}:${canary}`)));
      expect(linesOf(found).filter((line) => !line.endsWith(`:${canary}`))).toEqual([]);
      expect(given).toBe(`muster ***\n${createHash('sha256').update(teamToken).digest('hex')}  -\n`);

      expect(plain).toContain('the local server answers');
      expect(tunnelled).toContain('the local server answers');
      expect(direct).toMatch(/Failed to connect|Couldn't connect/);
      const refused = "is not among the `allowHosts` of the agent's environment";
      const { port } = new URL(service.stub.url);
      expect(other).toContain(`refused a connection to 127.0.0.1:${port}: it ${refused}`);
      expect(outside).toContain(`refused a connection to example.com:80: it ${refused}`);
      expect(outsideTunnelled).toContain('403');
      const warnings = await agents.warnings(name);
      expect(warnings.filter(isNotAboutLimit)).toEqual([
        expect.stringContaining(`127.0.0.1:${port}`),
        expect.stringContaining('example.com:80'),
        expect.stringMatching(/^Never in a checkpoint: .*\bmine\b/),
      ]);

      const lines = linesOf(written);
      expect(lines.filter((line) => line.startsWith('wrote'))).toEqual([
        `wrote ${folder}/mine`,
        `wrote ${home}/mine`,
      ]);
      expect(lines.filter((line) => line.startsWith('refused'))).toHaveLength(14);
      for (const path of ['/x', '/etc/x', '/usr/x', '/usr/bin/x', '/root/x', '/home/x'])
        expect(existsSync(path)).toBe(false);
      expect(existsSync(join(dirname(folder), 'x'))).toBe(false);

      expect(ofNeighbour).not.toContain('private');
      expect(ofNeighbour.match(/No such file/g)).toHaveLength(2);
      expect(readFileSync(neighbour.secretFile, 'utf8')).toBe('private\n');
      const ownKey = dirname(folder).split('/').at(-1);
      const ownRun = dirname(gitConfig).split('/').at(-1);
      expect(existsSync(join(data(), 'admin.key'))).toBe(true);
      expect(linesOf(ofData).filter((line) => !line.startsWith(data()))).toEqual([
        'agents',
        'mirrors',
        'runs',
        expect.stringContaining('No such file'),
        ownKey,
        ownRun,
      ]);
      expect(processes).toContain('relay.cjs');
      expect(processes).not.toContain('muster.js');
      expect(processes).not.toContain(dirname(neighbour.secretFile));

      const [toMain, toNeighbour, deletion, tag] = pushes;
      for (const refusal of [toMain, toNeighbour, tag]) {
        expect(refusal).toContain('rejected');
        expect(refusal).toContain(`push to ${status.branch}`);
      }
      expect(deletion).toContain(`only the branch ${status.branch} may be pushed`);
      const after = refs();
      expect(after.filter((ref) => !ref.endsWith(status.branch))).toEqual(before);
      expect(after).toHaveLength(before.length + 1);

      // Where the system can't enforce the limit, the agent is warned instead.
      const isWarned = warnings.some((text) => /processes: 300 is not/.test(text));
      expect(/Cannot fork/.test(forked)).toBe(!isWarned);
      const reached = warnings.filter((text) => /reached its limit processes: 300\./.test(text));
      expect(reached).toHaveLength(isWarned ? 0 : 1);
      expect(/all of them/.test(forked)).toBe(isWarned);
    });

    it('sends its key to the provider in one header, and the token of no run', () => {
      const requests = service.stub.requests.filter((request) => request.provider === provider);
      expect(requests.length).toBeGreaterThan(0);
      const header = provider === 'anthropic' ? 'x-api-key' : 'authorization';
      const credentials = { anthropic: providerKeys.anthropic, openai: `Bearer ${providerKeys.openai}` };
      for (const { headers, body } of requests) {
        const { [header]: shown, ...others } = headers;
        expect(shown).toBe(credentials[provider]);
        const rest = JSON.stringify({ others, body });
        expect(rest).not.toMatch(/mst_[\w-]+\.\w+/);
        for (const key of Object.values(providerKeys)) expect(rest).not.toContain(key);
      }
    });
  });

  it.each(['ANTHROPIC_API_KEY', 'OPENAI_API_KEY', 'MUSTER_SECRET', 'DATABASE_URL'])(
    'an environment that asks the runner for %s blocks the agent',
    async (fromRunner) => {
      const agents = await service.emptyWorkspace(await environment({ variables: { MINE: { fromRunner } } }));
      const { status } = await visit(agents, claudeCode.model);
      expect(status).toMatchObject({
        phaseReason: 'BLOCKED',
        error: {
          code: 'ENVIRONMENT_INVALID',
          message: expect.stringContaining(`variables.MINE: ${fromRunner} belongs to the runner`),
        },
      });
    },
  );

  it('an agent without an environment reaches no host', async () => {
    const agents = await service.emptyWorkspace();
    await agents.spawn('alone', { description: '!run curl -sS http://registry.example.com/ 2>&1' });
    await agents.wait('alone');
    const refused = 'refused a connection to registry.example.com:80';
    expect((await agents.texts('alone', 'TOOL_RESULT')).join()).toContain(refused);
    const warnings = await agents.warnings('alone');
    expect(warnings.filter(isNotAboutLimit)).toEqual([expect.stringContaining(refused)]);
  });

  it('an environment is set up once', async () => {
    const setup = ['echo "hello from the setup of $TEAM"', 'echo ran >> "$HOME/setup"'];
    const agents = await service.emptyWorkspace(await environment({ variables: { TEAM: 'muster' }, setup }));
    await agents.spawn('twice', { description: '!say begun' });
    await agents.wait('twice');
    await agents.queue('twice', '!run wc -l < "$HOME/setup"');
    await agents.runEnded('twice', 2);
    expect((await agents.texts('twice', 'TOOL_RESULT')).at(-1)?.trim()).toBe('1');
    expect(await agents.texts('twice', 'SETUP_OUTPUT')).toEqual([
      `$ ${setup[0]}\n`,
      'hello from the setup of muster\n',
      `$ ${setup[1]}\n`,
    ]);
  });

  it('a setup that fails blocks the agent, with its output in the timeline', async () => {
    const setup = ['echo "no such package" >&2; exit 3', 'echo never'];
    const agents = await service.emptyWorkspace(await environment({ setup }));
    const name = uniqueName('visitor');
    await agents.spawn(name, { model: claudeCode.model, description: 'Look around.' });
    const status = await until(
      'the failed setup',
      () => agents.status(name),
      ({ error }) => error !== null,
      patienceMs,
    );
    expect(status).toMatchObject({ phaseReason: 'BLOCKED', error: { code: 'SETUP_FAILED' } });
    expect(status.error?.message).toMatch(/timeline.*exited with code 3/);
    expect(await agents.texts(name, 'SETUP_OUTPUT')).toEqual([`$ ${setup[0]}\n`, 'no such package\n']);
    await agents.kill(name);
  });

  it('no key is in a status, a timeline, a log line or a file of an agent', async () => {
    const known = [...visited, { agents: shared.agents, name: 'neighbour' }];
    const answers = await Promise.all(
      known.map(async ({ agents, name }) => [await agents.status(name), await agents.timeline(name)]),
    );
    const texts = [
      JSON.stringify(answers),
      service.server.output.join(''),
      ...filesBelow(join(data(), 'agents')).map(readUnlessGone),
    ];
    expect(texts.length).toBeGreaterThan(50);
    for (const [name, secret] of Object.entries(secrets())) {
      const leaks = texts.filter((text) => text.includes(secret));
      expect(leaks, name).toEqual([]);
    }
  });
});

describe('without a sandbox', () => {
  const emptyFolder = mkdtempSync(join(tmpdir(), 'muster-no-programs-'));
  afterAll(() => rmSync(emptyFolder, { recursive: true, force: true }));

  /** The lines about the sandbox come after the address. */
  const greetingOf = (server: Server): Promise<string> =>
    until(
      'the line about the sandbox',
      async () => server.output.join(''),
      (output) => output.includes('  sandbox '),
    );

  const outcomeOf = (env: Record<string, string>): Promise<string> =>
    startServer({ env }).then(
      (server) => greetingOf(server).finally(() => server.close()),
      (error: Error) => error.message,
    );

  it.concurrent('the service does not start if one is required, and says what to install', async () => {
    const outcome = await outcomeOf({ MUSTER_SANDBOX: 'required', PATH: emptyFolder });
    expect(outcome).toMatch(/ended with 1:/);
    expect(outcome).toContain('MUSTER_SANDBOX is required, but bubblewrap is not installed');
    expect(outcome).toContain('apt-get install bubblewrap');
    expect(outcome).not.toMatch(/^ +at /m);
  });

  it.concurrent('the service starts with a warning if none is required', async () => {
    const outcome = await outcomeOf({ MUSTER_SANDBOX: 'auto', PATH: emptyFolder });
    expect(outcome).toContain('ready at');
    expect(outcome).toContain('AGENTS RUN WITHOUT A SANDBOX');
    expect(outcome).toContain('bubblewrap is not installed');
  });

  it.concurrent('a wrong value of MUSTER_SANDBOX prevents the start', async () => {
    const outcome = await outcomeOf({ MUSTER_SANDBOX: 'on' });
    expect(outcome).toMatch(/ended with 1:/);
    expect(outcome).toContain('MUSTER_SANDBOX: expected one of required, auto, off');
    expect(outcome).not.toMatch(/^ +at /m);
  });

  describe('that is turned off', () => {
    const open = useTestService({ env: { MUSTER_SANDBOX: 'off' } });

    it('the start prints a warning', async () => {
      expect(await greetingOf(open().server)).toContain(
        'AGENTS RUN WITHOUT A SANDBOX, with all rights of this runner: MUSTER_SANDBOX is off',
      );
    });

    it.concurrent.each(backends)('$title works from end to end', async ({ model }) => {
      const { agents, remote } = await open().workspace();
      const marker = open().script(
        { shell: 'echo b > b.txt && git add b.txt && git commit -qm "Add b" && git push' },
        { tool: 'update_task', args: { id: 'code', status: 'completed' } },
        { say: 'It is pushed.' },
      );
      const tasks = [{ id: 'code', subject: 'Write it' }];
      await agents.spawn('worker', { model, description: `Add b. ${marker}`, tasks });
      const status = await agents.wait('worker');
      expect(status).toMatchObject({ phaseReason: 'RESTING', error: null, sandboxed: false });
      const warnings = await agents.warnings('worker');
      expect(warnings.filter((text) => text.startsWith('No sandbox: '))).toHaveLength(1);
      expect(status.tasks[0]?.status).toBe('TASK_STATUS_COMPLETED');
      expect(remote.git('show', `${status.branch}:b.txt`)).toBe('b');
    });
  });
});

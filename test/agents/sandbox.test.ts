import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { createServer, type Server as HttpServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { AgentStatus } from '@muster/sdk/contract';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Agents } from '../support/agents.ts';
import { until } from '../support/async.ts';
import { uniqueName, writeResource } from '../support/catalog.ts';
import type { GitRemote } from '../support/git-remote.ts';
import { sandbox } from '../support/sandbox.ts';
import { type Server, startServer } from '../support/server.ts';
import { held, patienceMs } from './crew.ts';
import { backends, type Fleet, providerKeys, startFleet } from './fleet.ts';

/**
 * What an agent can see and do is asked of the agent itself: its model runs a script of its repository, and what the
 * script printed is read from the timeline.
 */
const canary = `canary-${randomBytes(12).toString('hex')}`;
const serviceSecret = randomBytes(24).toString('hex');
const teamToken = randomBytes(12).toString('hex');

let fleet: Fleet;
/** A server of this machine that no agent has a right to, unless its environment says so. */
let house: HttpServer;
let neighbour: Neighbour;

interface Neighbour {
  readonly branch: string;
  readonly secretFile: string;
  readonly token: string;
  readonly leave: () => void;
}

/** Everything that must not be found, by its name. */
const secrets = (): Record<string, string> => ({
  ...providerKeys,
  'the bootstrap key': fleet.server.key,
  'the service secret': serviceSecret,
  'the database': fleet.server.databaseUrl,
  "the neighbour's token": neighbour.token,
});

const data = (): string => fleet.server.env.MUSTER_DATA ?? '';
const housePort = (): number => (house.address() as AddressInfo).port;

/** The agents that have run, for a last look at everything that is known of them. */
const visited: { agents: Agents; name: string }[] = [];

interface Visit {
  readonly name: string;
  readonly status: AgentStatus;
  /** What each command printed. */
  readonly printed: readonly string[];
}

/** A new agent that runs these commands and rests. */
async function visit(agents: Agents, model: string, ...commands: string[]): Promise<Visit> {
  const name = uniqueName('visitor');
  visited.push({ agents, name });
  const marker = fleet.stub.script([...commands.map((shell) => ({ shell })), { say: 'That was all.' }]);
  await agents.spawn(name, { model, description: `Look around. ${marker}` });
  const status = await agents.wait(name);
  return { name, status, printed: await printedBy(agents, name) };
}

const printedBy = async (agents: Agents, name: string): Promise<string[]> =>
  (await agents.timeline(name, 'TOOL_RESULT')).map(({ text }) => text);

const linesOf = (text = ''): string[] => text.split('\n').filter((line) => line !== '');

const warningsOf = async (agents: Agents, name: string): Promise<string[]> =>
  (await agents.timeline(name, 'WARNING')).map(({ text }) => text);

async function environment(document: Record<string, unknown>): Promise<{ environment: string }> {
  const name = uniqueName('environment');
  await writeResource(fleet.api, 'environment', name, document);
  return { environment: name };
}

describe.skipIf(!sandbox)('in the sandbox', () => {
  let shared: { agents: Agents; remote: GitRemote };

  beforeAll(async () => {
    fleet = await startFleet({
      env: {
        MUSTER_SECRET: serviceSecret,
        TEAM_NPM_TOKEN: teamToken,
        MUSTER_RUNNER_NAME: 'house-runner',
      },
    });
    house = createServer((_request, response) => response.end('the house answers\n'));
    house.listen(0, '127.0.0.1');
    await once(house, 'listening');
    shared = await fleet.workspace();
    neighbour = await moveIn(shared.agents);
  });
  afterAll(async () => {
    neighbour?.leave();
    house?.close();
    await fleet?.close();
  });

  /** An agent of the same workspace, in the middle of its run. */
  async function moveIn(agents: Agents): Promise<Neighbour> {
    const { promise: left, release: leave } = held();
    const marker = fleet.stub.script([
      { shell: 'pwd; echo "for nobody else" > secret.txt; git add . && git commit -qm x && git push -q' },
      { until: left },
      { say: 'Good bye.' },
    ]);
    await agents.spawn('neighbour', { model: 'claude-opus-4-8', description: `Stay. ${marker}` });
    await fleet.stub.whenSeen(() => fleet.stub.requestsOf(marker).length === 2);
    // The model hears what was printed before the timeline does.
    const [printed = ''] = await until(
      'what the neighbour printed',
      () => printedBy(agents, 'neighbour'),
      (seen) => seen.length > 0,
    );
    const folder = linesOf(printed)[0] ?? '';
    const [run = ''] = readdirSync(join(data(), 'runs'));
    const config = readFileSync(join(data(), 'runs', run, 'gitconfig'), 'utf8');
    return {
      branch: (await agents.status('neighbour')).branch,
      secretFile: join(folder, 'secret.txt'),
      token: /mst_[^\s"]+/.exec(config)?.[0] ?? '',
      leave,
    };
  }

  describe.each(backends)('$title', ({ model, provider }) => {
    const lookForSecrets = `export LC_ALL=C
sh -c 'sleep 60; :' "$CANARY" > /dev/null 2>&1 &
look() { grep -aoF -f <(base64 -d wanted) "$@" 2> /dev/null; }
env | look | sort -u | sed 's|^|environment:|'
cat /proc/[0-9]*/environ 2> /dev/null | look | sort -u | sed 's|^|/proc/environ:|'
cat /proc/[0-9]*/cmdline 2> /dev/null | look | sort -u | sed 's|^|/proc/cmdline:|'
for place in /* /.[!.]* /dev/shm; do
  case $place in /proc|/sys|/dev|/usr|/bin|/sbin|/lib*|/opt) ;; *) look -rH "$place";; esac
done; true`;

    it('no key is anywhere: environment, processes, files', async () => {
      // Encoded: what is looked for must not be found because it is looked for.
      const wanted = Buffer.from([canary, ...Object.values(secrets())].join('\n')).toString('base64');
      const { agents } = await fleet.workspace(
        { 'look.sh': lookForSecrets, wanted, 'canary.txt': canary },
        await environment({ variables: { CANARY: canary } }),
      );
      const { printed } = await visit(agents, model, 'pwd', 'bash look.sh');
      const [folder = '', found] = printed;
      // The search finds what there is to find, in every place.
      const places = ['environment', '/proc/environ', '/proc/cmdline', `${folder.trim()}/canary.txt`];
      expect(linesOf(found)).toEqual(expect.arrayContaining(places.map((place) => `${place}:${canary}`)));
      expect(linesOf(found).filter((line) => !line.endsWith(`:${canary}`))).toEqual([]);
    });

    it('nothing can be written but its workspace and its home', async () => {
      const attempts = `try() { if (echo x >> "$1") 2> /dev/null; then echo "wrote $1"; else echo "refused $1"; fi; }
mirror=$(cat .git/objects/info/alternates)
for path in /x /etc/x /etc/hosts /usr/x /usr/bin/x /root/x /home/x "$mirror/x" "$mirror/../x" \\
  "$GIT_CONFIG_GLOBAL" "$(dirname "$GIT_CONFIG_GLOBAL")/x" ../x ../note.json ../../x; do try "$path"; done
rm -f "$GIT_CONFIG_GLOBAL" 2> /dev/null && echo "wrote by removing"
try "$PWD/mine" && try "$HOME/mine"`;
      const { agents } = await fleet.workspace({ 'write.sh': attempts });
      const { printed } = await visit(agents, model, 'pwd', 'echo "$HOME"', 'sh write.sh');
      const [folder = '', home = '', tried] = printed.map((text) => text.trim());
      const lines = linesOf(tried);
      expect(lines.filter((line) => line.startsWith('wrote'))).toEqual([
        `wrote ${folder}/mine`,
        `wrote ${home}/mine`,
      ]);
      expect(lines.filter((line) => line.startsWith('refused'))).toHaveLength(14);
      for (const path of ['/x', '/etc/x', '/usr/x', '/usr/bin/x', '/root/x', '/home/x'])
        expect(existsSync(path)).toBe(false);
      expect(existsSync(join(dirname(folder), 'x'))).toBe(false);
    });

    it('a neighbour, the rest of the data folder and the processes outside are out of sight', async () => {
      const { printed } = await visit(
        shared.agents,
        model,
        'pwd; echo "$GIT_CONFIG_GLOBAL"',
        `cat ${neighbour.secretFile} 2>&1; ls -a ${dirname(neighbour.secretFile)} 2>&1`,
        `ls ${data()}; cat ${data()}/admin.key 2>&1; ls ${data()}/agents ${data()}/runs`,
        `cat /proc/[0-9]*/cmdline | tr '\\0' ' '`,
      );
      const [own = '', ofNeighbour = '', ofData = '', processes = ''] = printed;
      const [folder = '', gitConfig = ''] = linesOf(own);
      expect(ofNeighbour).not.toContain('for nobody else');
      expect(ofNeighbour.match(/No such file/g)).toHaveLength(2);
      expect(readFileSync(neighbour.secretFile, 'utf8')).toBe('for nobody else\n');

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
    });

    it('no server of the machine is reached but what its environment allows', async () => {
      const url = `http://127.0.0.1:${housePort()}/`;
      const agents = await fleet.plain(await environment({ allowHosts: [`127.0.0.1:${housePort()}`] }));
      const { name, printed } = await visit(
        agents,
        model,
        `curl -sS ${url}`,
        `curl -sS --proxytunnel ${url}`,
        `curl -sS --noproxy '*' ${url} 2>&1`,
        `curl -sS ${fleet.stub.url}/ 2>&1`,
        'curl -sS http://example.com/ 2>&1',
        'curl -sS https://example.com/ 2>&1',
      );
      const [plain, tunnelled, direct, other, outside, outsideTunnelled] = printed;
      expect(plain).toContain('the house answers');
      expect(tunnelled).toContain('the house answers');
      expect(direct).toMatch(/Failed to connect|Couldn't connect/);
      const refused = "is not among the `allowHosts` of the agent's environment";
      const { port } = new URL(fleet.stub.url);
      expect(other).toContain(`refused a connection to 127.0.0.1:${port}: it ${refused}`);
      expect(outside).toContain(`refused a connection to example.com:80: it ${refused}`);
      expect(outsideTunnelled).toContain('403');
      expect(await warningsOf(agents, name)).toEqual([
        expect.stringContaining(`127.0.0.1:${port}`),
        expect.stringContaining('example.com:80'),
      ]);
    });

    it('with no host allowed, the agent and the timeline are told what was refused', async () => {
      const agents = await fleet.plain();
      const { name, printed } = await visit(agents, model, 'curl -sS http://registry.example.com/ 2>&1');
      const text = 'refused a connection to registry.example.com:80';
      expect(printed[0]).toContain(text);
      expect(await warningsOf(agents, name)).toEqual([expect.stringContaining(text)]);
    });

    it('its environment reaches its shell, and is set up once for a clone', async () => {
      const setup = ['echo "hello from the set-up of $TEAM"', 'echo ran >> "$HOME/set-up"'];
      const variables = { TEAM: 'muster', NPM_TOKEN: { fromRunner: 'TEAM_NPM_TOKEN' } };
      const { agents } = await fleet.workspace(undefined, await environment({ variables, setup }));
      const { name, printed } = await visit(agents, model, 'echo "$TEAM $NPM_TOKEN"');
      expect(printed[0]).toContain(`muster ${teamToken}`);
      const again = fleet.stub.script([{ shell: 'wc -l < "$HOME/set-up"' }, { say: 'Done.' }]);
      await agents.queue(name, `Once more. ${again}`);
      await agents.wait(name);
      expect((await printedBy(agents, name)).at(-1)?.trim()).toBe('1');
      const output = await agents.timeline(name, 'SETUP_OUTPUT');
      expect(output.map(({ text }) => text)).toEqual([
        `$ ${setup[0]}\n`,
        'hello from the set-up of muster\n',
        `$ ${setup[1]}\n`,
      ]);
    });

    it.each(['ANTHROPIC_API_KEY', 'OPENAI_API_KEY', 'MUSTER_SECRET', 'DATABASE_URL'])(
      'an environment that asks the runner for %s blocks the agent',
      async (fromRunner) => {
        const agents = await fleet.plain(await environment({ variables: { MINE: { fromRunner } } }));
        const { status } = await visit(agents, model);
        expect(status).toMatchObject({
          phaseReason: 'BLOCKED',
          error: {
            code: 'ENVIRONMENT_INVALID',
            message: expect.stringContaining(`variables.MINE: ${fromRunner} belongs to the runner`),
          },
        });
      },
    );

    it('a set-up that fails is tried again later, with its output in the timeline', async () => {
      const setup = ['echo "no such package" >&2; exit 3', 'echo never'];
      const agents = await fleet.plain(await environment({ setup }));
      const name = uniqueName('visitor');
      await agents.spawn(name, { model, description: 'Look around.' });
      const status = await until(
        'the set-up failed',
        () => agents.status(name),
        ({ error }) => error !== null,
        patienceMs,
      );
      expect(status).toMatchObject({ phaseReason: 'RETRYING', error: { code: 'SETUP_FAILED' } });
      expect(status.wakesAt).not.toBeNull();
      expect(status.error?.message).toMatch(/timeline.*exited with code 3/);
      const output = (await agents.timeline(name, 'SETUP_OUTPUT')).map(({ text }) => text);
      expect(output).toEqual([`$ ${setup[0]}\n`, 'no such package\n']);
      await agents.kill(name);
    });

    it('only its own branch can be pushed, and it is told which', async () => {
      const { agents, remote } = shared;
      const refs = () => linesOf(remote.git('for-each-ref', '--format=%(objectname) %(refname)'));
      const before = refs();
      const { status, printed } = await visit(
        agents,
        model,
        'echo mine > mine && git add mine && git commit -qm mine',
        'git push origin HEAD:main 2>&1',
        `git push --force origin HEAD:${neighbour.branch} 2>&1`,
        `git push origin :${neighbour.branch} 2>&1`,
        'git push origin HEAD:refs/tags/v1 2>&1',
        'git push 2>&1',
      );
      const [, toMain, toNeighbour, deletion, tag] = printed;
      for (const refusal of [toMain, toNeighbour, tag]) {
        expect(refusal).toContain('rejected');
        expect(refusal).toContain(`push to ${status.branch}`);
      }
      expect(deletion).toContain(`only the branch ${status.branch} may be pushed`);
      const after = refs();
      expect(after.filter((ref) => !ref.endsWith(status.branch))).toEqual(before);
      expect(after).toHaveLength(before.length + 1);
    });

    it("the limits of its pool's machines hold, or it is told that they do not", async () => {
      const pool = uniqueName('small');
      const profile = uniqueName('profile');
      await writeResource(fleet.api, 'vm-profile', profile, { processes: 300 });
      await writeResource(fleet.api, 'pool', pool, { vmProfile: profile });
      await fleet.runner(pool);
      const { agents } = await fleet.workspace(
        { 'fork.sh': 'for n in $(seq 400); do sleep 60 & done; echo "all of them"; kill $(jobs -p)' },
        { pool },
      );
      const { name, printed } = await visit(agents, model, 'sh fork.sh 2>&1');
      const isWarned = (await warningsOf(agents, name)).some((text) => /processes: 300 is not/.test(text));
      expect(/Cannot fork/.test(printed.join(''))).toBe(!isWarned);
      const reached = (await warningsOf(agents, name)).filter((text) =>
        /reached its limit processes: 300\./.test(text),
      );
      expect(reached).toHaveLength(isWarned ? 0 : 1);
      expect(/all of them/.test(printed.join(''))).toBe(isWarned);
    });

    it('the provider sees its key where it belongs, and the token of no run', () => {
      const requests = fleet.stub.requests.filter((request) => request.provider === provider);
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

  it('no key is in a status, a timeline, a line of the log or a file of an agent', async () => {
    const known = [...visited, { agents: shared.agents, name: 'neighbour' }];
    const answers = await Promise.all(
      known.map(async ({ agents, name }) => [await agents.status(name), await agents.timeline(name)]),
    );
    const texts = [
      JSON.stringify(answers),
      fleet.server.output.join(''),
      ...filesBelow(join(data(), 'agents')),
    ];
    expect(texts.length).toBeGreaterThan(50);
    for (const [name, secret] of Object.entries(secrets())) {
      const leaks = texts.filter((text) => text.includes(secret));
      expect(leaks, name).toEqual([]);
    }
  });
});

function filesBelow(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile())
    .map((entry) => readFileSync(join(entry.parentPath, entry.name), 'latin1'));
}

describe('without a sandbox', () => {
  const nowhere = mkdtempSync(join(tmpdir(), 'muster-no-programs-'));
  afterAll(() => rmSync(nowhere, { recursive: true, force: true }));

  /** All of the greeting comes after the address. */
  const greetingOf = (server: Server): Promise<string> =>
    until(
      'what it says of its sandbox',
      async () => server.output.join(''),
      (said) => said.includes('  sandbox '),
    );

  const outcomeOf = (env: Record<string, string>): Promise<string> =>
    startServer({ env }).then(
      (server) => greetingOf(server).finally(() => server.close()),
      (error: Error) => error.message,
    );

  it('that is required, the service does not start and says what to install', async () => {
    const outcome = await outcomeOf({ MUSTER_SANDBOX: 'required', PATH: nowhere });
    expect(outcome).toMatch(/ended with 1:/);
    expect(outcome).toContain('MUSTER_SANDBOX is required, but bubblewrap is not installed');
    expect(outcome).toContain('apt-get install bubblewrap');
    expect(outcome).not.toMatch(/^ +at /m);
  });

  it('that nobody required, the service starts and says so loudly', async () => {
    const outcome = await outcomeOf({ MUSTER_SANDBOX: 'auto', PATH: nowhere });
    expect(outcome).toContain('ready at');
    expect(outcome).toContain('AGENTS RUN WITHOUT A SANDBOX');
    expect(outcome).toContain('bubblewrap is not installed');
  });

  it('a wrong value stops the start', async () => {
    const outcome = await outcomeOf({ MUSTER_SANDBOX: 'on' });
    expect(outcome).toMatch(/ended with 1:/);
    expect(outcome).toContain('MUSTER_SANDBOX: expected one of required, auto, off');
    expect(outcome).not.toMatch(/^ +at /m);
  });

  describe('because it is off', () => {
    let open: Fleet;
    beforeAll(async () => {
      open = await startFleet({ env: { MUSTER_SANDBOX: 'off' } });
    });
    afterAll(() => open?.close());

    it('start-up says so loudly', async () => {
      expect(await greetingOf(open.server)).toContain(
        'AGENTS RUN WITHOUT A SANDBOX, with all rights of this runner: MUSTER_SANDBOX is off',
      );
    });

    it.each(backends)('$title works from end to end', async ({ model }) => {
      const { agents, remote } = await open.workspace();
      const marker = open.stub.script([
        { shell: 'echo b > b.txt && git add b.txt && git commit -qm "Add b" && git push' },
        { tool: 'update_task', args: { id: 'code', status: 'completed' } },
        { say: 'It is pushed.' },
      ]);
      const tasks = [{ id: 'code', subject: 'Write it' }];
      await agents.spawn('worker', { model, description: `Add b. ${marker}`, tasks });
      const status = await agents.wait('worker');
      expect(status).toMatchObject({ phaseReason: 'RESTING', error: null, sandboxed: false });
      const warnings = await warningsOf(agents, 'worker');
      expect(warnings.filter((text) => text.startsWith('No sandbox: '))).toHaveLength(1);
      expect(status.tasks[0]?.status).toBe('TASK_STATUS_COMPLETED');
      expect(remote.git('show', `${status.branch}:b.txt`)).toBe('b');
    });
  });
});

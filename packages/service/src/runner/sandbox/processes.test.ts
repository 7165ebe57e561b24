import { ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { type AddressInfo, createServer as createTcpServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { eventually } from '../../../../../test/support/async.ts';
import { isAlive } from '../../../../../test/support/fake-service.ts';
import { processText } from '../../../../../test/support/files.ts';
import { sandbox, theSandbox } from '../../../../../test/support/sandbox.ts';
import type { StartOptions } from '../../harness/harness.ts';
import { assertSpawned } from './proc.ts';
import { type AgentProcesses, agentProcesses, endpointUrl, groupScript, killLeftovers } from './processes.ts';

let dataFolder: string;
let workspaceFolder: string;
let homeFolder: string;
let runFolder: string;
let agent: AgentProcesses;
const gateway = createServer((_request, response) => response.end('the gateway'));

beforeEach(async () => {
  dataFolder = await mkdtemp(join(tmpdir(), 'muster-processes-'));
  workspaceFolder = join(dataFolder, 'agents', 'a', 'workspace');
  homeFolder = join(dataFolder, 'agents', 'a', 'home');
  runFolder = join(dataFolder, 'runs', 'a-1');
  for (const folder of [workspaceFolder, homeFolder, runFolder, join(dataFolder, 'mirrors')])
    await mkdir(folder, { recursive: true });
  await mkdir(join(dataFolder, 'agents', 'neighbour'));
  for (const path of ['agents/neighbour/secret', 'key', 'agents/a/note.json', 'mirrors/objects'])
    await writeFile(join(dataFolder, path), 'of the runner');
});
afterEach(async () => {
  await agent?.killAll();
  await rm(dataFolder, { recursive: true, force: true });
});

/** A number per test, so that a test does not find processes of another. */
let runs = 0;

function newRun() {
  runs += 1;
  return { agentKey: `${process.pid}`, runId: runs };
}

function inSandbox(scratchMb = 64): AgentProcesses {
  return agentProcesses({
    sandbox: theSandbox(),
    folders: { workspaceFolder, homeFolder },
    dataFolder,
    runFolder,
    ...newRun(),
    reads: [join(dataFolder, 'mirrors')],
    scratchMb,
    gateway: { socketPath: join(runFolder, 'gateway.sock') },
  });
}

function inTheOpen(): AgentProcesses {
  return agentProcesses({
    sandbox: null,
    folders: { workspaceFolder, homeFolder },
    dataFolder,
    runFolder,
    ...newRun(),
    gateway: { port: 9 },
  });
}

async function output(argv: readonly string[], options?: StartOptions) {
  const { child, exited } = agent.start(argv, options);
  child.stdin.end();
  const [stdout, stderr, exit] = await Promise.all([text(child.stdout), text(child.stderr), exited]);
  return { stdout, stderr, ...exit };
}

const shell = (script: string, options?: StartOptions) => output(['/bin/sh', '-c', script], options);

/** Pids outside the sandbox whose command line contains the text. */
function processesOf(words: string): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => processText(pid, 'cmdline').replaceAll('\0', ' ').includes(words))
    .filter((pid) => !/^\d+ \(.*\) Z/s.test(processText(pid, 'stat')))
    .map(Number);
}

/** A number of seconds that no other process sleeps. */
let sleeps = 600;
function sleepSeconds(): string {
  sleeps += 1;
  return `${sleeps}.${process.pid}`;
}

describe.skipIf(!sandbox)('in the sandbox', () => {
  beforeEach(() => {
    agent = inSandbox();
  });

  it('sees and writes only its own files, has no privileges, its own namespaces, and no open files except its three streams', async () => {
    const name = `muster-made-${process.pid}`;
    const settings = 'core_pattern panic_on_oops modprobe hostname'.split(' ');
    const namespaces = 'pid net ipc mnt user uts cgroup'.split(' ');
    const { stdout } = await shell(`
      (cd ${dataFolder} && find . -type f | sort; cat mirrors/objects); echo ====
      pwd; echo x > $TMPDIR/${name} && ls /tmp/${name}; echo mine > made; echo mine > "$HOME/made"
      for f in / /usr /etc /bin ${dataFolder}/key ${runFolder} ${dataFolder}/mirrors /opt /var /sys /proc/sys/kernel
      do (echo x > $f/made || echo x >> $f) 2>/dev/null && echo "wrote to $f"; done; echo ====
      whoami; hostname; id -u | grep -vx 0 > /dev/null && echo not root
      grep -h Cap /proc/self/status | grep -v 0000000000000000
      for f in ${settings.join(' ')}; do (: >> /proc/sys/kernel/$f) 2>/dev/null && echo "may set $f"; done
      cat /etc/shadow 2>/dev/null; ls /etc/ssl/private 2>/dev/null; echo ====
      for n in ${namespaces.join(' ')}; do readlink /proc/self/ns/$n; done; echo ====
      ls -l /proc/self/fd`);
    const [files, written, privileges, seen = '', opened] = stdout.split('====\n');
    expect(files).toBe('./mirrors/objects\nof the runner');

    expect(written).toBe(`${workspaceFolder}\n/tmp/${name}\n`);
    expect(existsSync(join(tmpdir(), name))).toBe(false);
    expect(readFileSync(join(workspaceFolder, 'made'), 'utf8')).toBe('mine\n');
    expect(readFileSync(join(homeFolder, 'made'), 'utf8')).toBe('mine\n');
    expect(readFileSync(join(dataFolder, 'key'), 'utf8')).toBe('of the runner');
    expect(existsSync(join(runFolder, 'made'))).toBe(false);

    expect(privileges).toBe('agent\nagent\nnot root\n');

    const own = namespaces.map((name) => readlinkSync(`/proc/self/ns/${name}`));
    const others = seen.trim().split('\n');
    expect(others).toHaveLength(own.length);
    expect(others.filter((name) => own.includes(name))).toEqual([]);

    // Whatever the runner inherited.
    expect(opened?.match(/-> (socket|pipe):/g)).toHaveLength(3);
  });

  it.skipIf(!sandbox?.limitsScratch)(
    'can fill no folder of memory beyond its limit, and that is seen',
    async () => {
      agent = inSandbox(2);
      const fill = (folder: string) => `head -c 4M /dev/zero > ${folder}/big || echo ${folder}`;
      const { child } = agent.start([
        '/bin/sh',
        '-c',
        `${['/tmp', '/run', '/dev/shm'].map(fill).join('; ')}; read -r line; rm /tmp/big /run/big; echo removed; read -r line`,
      ]);
      const said = child.stdout.setEncoding('utf8')[Symbol.asyncIterator]();
      for (let seen = ''; !seen.includes('/dev/shm'); ) seen += (await said.next()).value;
      expect((await agent.fullScratch()).toSorted()).toEqual(['/dev/shm', '/run', '/tmp']);
      child.stdin.write('go\n');
      await said.next();
      expect(await agent.fullScratch()).toEqual(['/dev/shm']);
      await agent.killAll();
      expect(await agent.fullScratch()).toEqual([]);
    },
  );

  it('sees no files of the runner below a folder that it may read', async () => {
    const { stdout } = await shell(`cd ${dataFolder} && find . -type f; echo x > made || echo refused`, {
      reads: [tmpdir(), dataFolder],
    });
    expect(stdout).toBe('./mirrors/objects\nrefused\n');
  });

  it('has only the given variables in its environment, and none of the runner', async () => {
    vi.stubEnv('ANTHROPIC_API_KEY', 'sk-secret');
    const { stdout } = await output(['/usr/bin/env'], { environment: { MINE: 'a b\nc=d' } });
    vi.unstubAllEnvs();
    expect(stdout).toContain('MINE=a b\nc=d\n');
    const names = [...stdout.matchAll(/^(\w+)=/gm)].map(([, name = '']) => name);
    const given = [
      'GIT_CONFIG_NOSYSTEM GIT_TERMINAL_PROMPT HOME HTTPS_PROXY HTTP_PROXY LANG LOGNAME MINE MUSTER_RUN NO_PROXY',
      'PATH SHELL TERM TMPDIR USER http_proxy https_proxy no_proxy',
    ].join(' ');
    const others = names.filter((name) => !['PWD', 'TZ', 'c'].includes(name));
    expect(others.sort().join(' ')).toBe(given);
  });

  it('hides its environment and command from outside users who cannot read its memory', async () => {
    const started = agent.start(['/bin/sh', '-c', 'echo ready; read -r line'], {
      environment: { TOKEN: 'x-token-x' },
    });
    await once(started.child.stdout, 'data');
    expect(processesOf('x-token-x')).toEqual([]);
    expect(readFileSync(`/proc/${started.child.pid}/environ`, 'utf8')).not.toContain('x-token-x');
    started.child.stdin.end('go\n');
    expect(await started.exited).toEqual({ exitCode: 0, signal: null });
  });

  it('cannot load a library into bubblewrap with a variable', async () => {
    const { stdout, stderr } = await shell('echo fine', {
      environment: { LD_PRELOAD: `${workspaceFolder}/evil.so` },
    });
    expect(stdout).toBe('fine\n');
    expect(stderr.match(/evil\.so/g)?.length).toBe(2);
  });

  it.skipIf(!sandbox?.forbidsNamespaces)('cannot create namespaces', async () => {
    expect(await shell('unshare --user true', { gateway: 'never' })).not.toMatchObject({ exitCode: 0 });
  });

  it('cannot reach servers on the machine or other hosts', async () => {
    const server = createTcpServer((socket) => socket.end('inside')).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const dial = `for (const host of ['127.0.0.1', '192.0.2.1'])
      require('net').connect(${port}, host).on('data', String)
        .on('error', (e) => console.log(host, e.code)).on('connect', () => console.log(host, 'connected'))`;
    const { stdout } = await output([process.execPath, '-e', dial]);
    expect(stdout.trim().split('\n').sort()).toEqual(['127.0.0.1 ECONNREFUSED', '192.0.2.1 ENETUNREACH']);
    server.close();
  });

  it('reaches the gateway at its endpoint through a read-only socket', async () => {
    gateway.listen(join(runFolder, 'gateway.sock'));
    await once(gateway, 'listening');
    const ask = `fetch(process.argv[1]).then((r) => r.text()).then(console.log)`;
    expect(
      (
        await output([
          process.execPath,
          '-e',
          ask,
          `${endpointUrl({ socketPath: join(runFolder, 'gateway.sock') })}/x`,
        ])
      ).stdout,
    ).toBe('the gateway\n');
    gateway.close();
  });

  it('finds the gateway ready when it starts, or after waiting for it if it starts early', async () => {
    gateway.listen(join(runFolder, 'gateway.sock'));
    await once(gateway, 'listening');
    // A shell is there long before the relay, and bash can dial without starting a program.
    const dial = 'exec 9<> /dev/tcp/127.0.0.2/31415 && echo connected';
    const early = agent.start(['/bin/bash', '-c', `read -r line; ${dial}`], { gateway: 'later' });
    await early.gatewayReady;
    early.child.stdin.end('go\n');
    expect(await text(early.child.stdout)).toBe('connected\n');
    expect((await output(['/bin/bash', '-c', dial])).stdout).toBe('connected\n');
    gateway.close();
  });

  it('has no relay if it never uses the gateway, and keeps running without one', async () => {
    const started = agent.start(['/bin/sh', '-c', `${findRelay}; sleep 1.5; echo alive`], {
      gateway: 'never',
    });
    expect(await text(started.child.stdout)).toBe('alive\n');
    expect(await started.exited).toEqual({ exitCode: 0, signal: null });
  });

  it('exits when the agent kills the relay', async () => {
    const started = agent.start(['/bin/sh', '-c', `kill -KILL $(${findRelay}); sleep ${sleepSeconds()}`]);
    expect(await started.exited).toEqual({ exitCode: null, signal: 'SIGKILL' });
    await started.gatewayReady;
  });

  it('has its streams, and its exit code or signal as a shell reports it', async () => {
    const started = agent.start(['/bin/sh', '-c', 'cat; echo err >&2; exit 7']);
    started.child.stdin.end('in and out');
    const said = await Promise.all([text(started.child.stdout), text(started.child.stderr)]);
    expect(said).toEqual(['in and out', 'err\n']);
    expect(await started.exited).toEqual({ exitCode: 7, signal: null });
    const options = { gateway: 'never' } as const;
    expect((await shell('kill -SEGV $$', options)).exitCode).toBe(139);
    expect((await shell('kill -PIPE $$', options)).exitCode).toBe(141);
    expect(await output(['/no/such/program'], options)).toMatchObject({
      exitCode: 127,
      stderr: expect.stringContaining('/no/such/program'),
    });
  });

  it('ends all its processes when its parent is killed, with and without a gateway', async () => {
    const seconds = [sleepSeconds(), sleepSeconds()];
    const [now, never] = seconds.map((s) => `setsid nohup sleep ${s} & echo ready; exec sleep ${s}`);
    const parent = spawn(
      process.execPath,
      ['--import', 'tsx', '--input-type=module', '-e', startsSandboxes],
      {
        env: {
          ...process.env,
          OPTIONS: JSON.stringify({
            sandbox,
            folders: { workspaceFolder, homeFolder },
            dataFolder,
            runFolder,
            ...newRun(),
            gateway: { socketPath: join(runFolder, 'gateway.sock') },
          }),
          SCRIPTS: JSON.stringify({ now, never }),
          MODULE: new URL('./processes.ts', import.meta.url).href,
        },
        stdio: ['ignore', 'pipe', 'inherit'],
      },
    );
    await once(parent.stdout, 'data');
    await eventually(() => {
      for (const each of seconds) expect(processesOf(`sleep ${each}`).length).toBeGreaterThanOrEqual(2);
    });
    parent.kill('SIGKILL');
    await eventually(() => {
      for (const each of seconds) expect(processesOf(each)).toEqual([]);
    });
  });
});

const startsSandboxes = `
  const { once } = await import('node:events');
  const { agentProcesses } = await import(process.env.MODULE);
  const agent = agentProcesses(JSON.parse(process.env.OPTIONS));
  await Promise.all(Object.entries(JSON.parse(process.env.SCRIPTS)).map(([gateway, script]) => {
    const { child } = agent.start(['/bin/sh', '-c', script], { gateway });
    child.stderr.pipe(process.stderr);
    return once(child.stdout, 'data');
  }));
  console.log('ready');
`;

describe.each([
  ...(sandbox ? [['in the sandbox', inSandbox] as const] : []),
  ['without a sandbox', inTheOpen] as const,
])('%s, nothing is left', (_name, make) => {
  beforeEach(() => {
    agent = make();
  });

  /** A command with two detached processes: one in the background, one in its own session. */
  async function sleepers(beginning = '') {
    const seconds = sleepSeconds();
    const started = agent.start([
      '/bin/sh',
      '-c',
      `${beginning} setsid nohup sleep ${seconds} > /dev/null 2>&1 & sleep ${seconds} & echo ready; wait; sleep ${seconds}`,
    ]);
    await once(started.child.stdout, 'data');
    await eventually(() => expect(running(seconds)).toHaveLength(2));
    return { started, seconds };
  }

  const running = (seconds: string): number[] =>
    processesOf(`sleep ${seconds}`).filter((pid) => processText(pid, 'comm') === 'sleep\n');

  it('after a kill', async () => {
    const { started, seconds } = await sleepers();
    await started.kill();
    expect(processesOf(seconds)).toEqual([]);
    expect(await started.exited).toEqual({ exitCode: null, signal: 'SIGKILL' });
  });

  it('after a kill before it has started', async () => {
    const seconds = sleepSeconds();
    const started = agent.start(['/bin/sleep', seconds]);
    await started.kill();
    expect(processesOf(seconds)).toEqual([]);
  });

  it('after it was asked to exit and did so', async () => {
    const { started, seconds } = await sleepers('trap "echo bye; exit 3" TERM;');
    started.end();
    expect(await text(started.child.stdout)).toBe('bye\n');
    expect((await started.exited).exitCode).toBe(3);
    expect(processesOf(seconds)).toEqual([]);
  });

  it('after it was asked to exit and did not', async () => {
    const { started, seconds } = await sleepers('trap "" TERM;');
    started.end();
    await started.exited;
    expect(processesOf(seconds)).toEqual([]);
  });

  it('after it exited by itself', async () => {
    const seconds = sleepSeconds();
    const { exitCode } = await shell(`setsid nohup sleep ${seconds} & sleep ${seconds} & exit 5`);
    expect(exitCode).toBe(5);
    expect(processesOf(seconds)).toEqual([]);
  });

  it('after it exited by itself and left processes that replace their program all the time', async () => {
    const script = 'test $1 -gt 0 && exec /bin/sh again $(($1 - 1)); echo x > survived';
    await writeFile(join(workspaceFolder, 'again'), script);
    // Resolves when the last of them has closed its output.
    await shell('for i in 1 2 3 4; do setsid nohup /bin/sh again 5000 & done; exit 5');
    expect(existsSync(join(workspaceFolder, 'survived'))).toBe(false);
  });

  it('after all its processes were killed, and no process can be started', async () => {
    const [one, other] = [await sleepers(), await sleepers()];
    await agent.killAll();
    expect(processesOf(one.seconds)).toEqual([]);
    expect(processesOf(other.seconds)).toEqual([]);
    expect(() => agent.start(['/bin/true'])).toThrow('the run has ended');
  });

  it('after the runner with the same data folder has started again, and only then', async () => {
    const { started, seconds } = await sleepers();
    await killLeftovers(`${dataFolder}-2`);
    expect(running(seconds)).toHaveLength(2);
    await killLeftovers(dataFolder);
    await started.exited;
    expect(processesOf(seconds)).toEqual([]);
  });
});

/** Node 24 names its process after its main thread. */
const findRelay = "pgrep -x 'node|MainThread'";

describe('without a sandbox', () => {
  it('reaches the gateway directly, and has a folder for temporary files', async () => {
    agent = inTheOpen();
    expect(endpointUrl({ port: 9 })).toBe('http://127.0.0.1:9');
    expect((await shell('cd "$TMPDIR" && pwd')).stdout).toBe(`${homeFolder}/tmp\n`);
  });
});

it('a process without pipes is refused, and its later error event is handled', () => {
  const child = new ChildProcess();
  expect(() => assertSpawned(child)).toThrow('too many open files');
  expect(() => child.emit('error', new Error('spawn EMFILE'))).not.toThrow();
});

it('a command does not outlive its runner, however the runner dies', async () => {
  const runner = spawn(process.execPath, ['-e', startsGroup, groupScript, 'echo $$; sleep 600'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [pid] = await once(runner.stdout, 'data');
  expect(isAlive(Number(pid))).toBe(true);
  runner.kill('SIGKILL');
  await eventually(() => expect(isAlive(Number(pid))).toBe(false));
});

const startsGroup = `
  const [script, command] = process.argv.slice(1);
  require('node:child_process').spawn('/bin/sh', ['-c', script, 'sh', '/bin/sh', '-c', command], {
    detached: true,
    stdio: ['ignore', 'inherit', 'inherit', 'pipe'],
  });
`;

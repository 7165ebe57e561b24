import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { apiOf } from '../support/api.ts';
import { until } from '../support/async.ts';
import { createKey } from '../support/catalog.ts';
import { bootstrapKey, program, type Server, serviceSecret, startServer } from '../support/server.ts';
import { isInstalled } from '../support/system-packages.ts';

const unitFile = (name: string) => fileURLToPath(new URL(`../../deploy/systemd/${name}`, import.meta.url));
const hasSystemd = isInstalled('systemd-analyze') && isInstalled('systemd-notify');
if (!hasSystemd) process.stderr.write('SKIPPED: the systemd units: apt-get install systemd\n');

interface Check {
  readonly set: boolean | null;
  readonly name: string;
  readonly exposure: string | null;
}

const securityOf = (unit: string, ...options: string[]): string =>
  execFileSync('systemd-analyze', ['security', '--offline=yes', '--no-pager', ...options, unitFile(unit)], {
    encoding: 'utf8',
  });

describe.skipIf(!hasSystemd)('units', () => {
  test.each(['muster.service', 'muster-runner.service'])(
    '%s has nothing that systemd warns about',
    (name) => {
      const args = ['verify', '--man=no', unitFile(name)];
      expect(execFileSync('systemd-analyze', args, { encoding: 'utf8', stdio: 'pipe' })).toBe('');
    },
  );

  test('the service gives up what it does not need', () => {
    // The command fails above this level, which is ten times the number that it prints.
    expect(securityOf('muster.service', '--threshold=30')).toContain('Overall exposure level');
  });

  test('the runner explains every setting that would break the sandbox', () => {
    const checks = JSON.parse(securityOf('muster-runner.service', '--json=short')) as Check[];
    const text = readFileSync(unitFile('muster-runner.service'), 'utf8');
    const service = JSON.parse(securityOf('muster.service', '--json=short')) as Check[];
    const weaker = checks.filter(
      ({ name, exposure }) => exposure && !service.find((other) => other.name === name)?.exposure,
    );
    expect(weaker.length).toBeGreaterThan(5);
    const unexplained = weaker.filter(({ name }) => {
      const [setting = '', value = ''] = name.split('=~');
      const lines = text.split('\n').filter((line) => line.startsWith('#') || line.startsWith(`${setting}=`));
      return !lines.some((line) => line.includes(setting.replace(/=.*/, '')) && line.includes(value));
    });
    expect(unexplained).toEqual([]);
  });
});

/** Receives what a service sends to systemd. Node has no such sockets. */
class Manager {
  readonly socket: string;
  readonly #process: ChildProcess;
  #messages = '';

  constructor(folder: string) {
    this.socket = join(folder, `notify-${Math.random()}`);
    const receiver = `use IO::Socket::UNIX; $| = 1;
      my $socket = IO::Socket::UNIX->new(Type => SOCK_DGRAM(), Local => $ARGV[0]) or die; print "OPEN\\n";
      while (defined $socket->recv(my $text, 4096)) { print "$text\\n" }`;
    this.#process = spawn('perl', ['-e', receiver, this.socket], { stdio: ['ignore', 'pipe', 'inherit'] });
    this.#process.stdout?.on('data', (text) => {
      this.#messages += text;
    });
  }

  got(what: string, times = 1): Promise<unknown> {
    return until(
      what,
      async () => this.#messages,
      (seen) => seen.split('\n').filter((line) => line === what).length >= times,
    );
  }

  readonly count = (what: string): number => this.#messages.split(what).length - 1;

  end(): void {
    this.#process.kill();
  }
}

describe.skipIf(!hasSystemd)('with keys in files, as a unit of systemd', () => {
  const key = bootstrapKey();
  let folder: string;
  let server: Server;
  const managers: Manager[] = [];

  const fileWith = (name: string, text: string): string => {
    const file = join(folder, name);
    writeFileSync(file, `${text}\n`, { mode: 0o600 });
    return file;
  };

  async function startManager(): Promise<Manager> {
    const manager = new Manager(folder);
    managers.push(manager);
    await manager.got('OPEN');
    return manager;
  }

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'muster-unit-'));
    const manager = await startManager();
    server = await startServer({
      env: {
        MUSTER_SECRET: undefined,
        MUSTER_SECRET_FILE: fileWith('secret', serviceSecret),
        MUSTER_BOOTSTRAP_KEY: undefined,
        MUSTER_BOOTSTRAP_KEY_FILE: fileWith('key', key),
        ANTHROPIC_CUSTOM_HEADERS_FILE: fileWith('headers', 'X-Team: hidden'),
        NOTIFY_SOCKET: manager.socket,
        WATCHDOG_USEC: '400000',
      },
    });
  });

  afterAll(async () => {
    await server?.close();
    for (const manager of managers) manager.end();
    rmSync(folder, { recursive: true, force: true });
  });

  const environmentOf = (pid: number): string => readFileSync(`/proc/${pid}/environ`, 'utf8');

  test('the service is ready once, keeps the watchdog quiet, and has the keys', async () => {
    const [manager] = managers;
    await manager?.got('READY=1');
    await manager?.got('WATCHDOG=1', 2);
    expect(manager?.count('READY=1')).toBe(1);
    expect(await apiOf({ url: server.url, key }).get('/v1/whoami')).toMatchObject({ status: 200 });
    const { pid } = JSON.parse(readFileSync(`${server.env.MUSTER_DATA}/runner.lock`, 'utf8'));
    expect(environmentOf(pid)).toContain('ANTHROPIC_CUSTOM_HEADERS_FILE');
    expect(environmentOf(pid)).not.toMatch(/X-Team|MUSTER_SECRET/);
  });

  test('muster config shows the files and not what is in them', () => {
    const env = { ...server.env, OPENAI_API_KEY_FILE: fileWith('openai', 'sk-from-a-file') };
    const text = execFileSync(process.execPath, [program, 'config'], { encoding: 'utf8', env });
    expect(text).toContain(`MUSTER_SECRET_FILE ${server.env.MUSTER_SECRET_FILE}`);
    expect(text).toMatch(/^ {2}codex +OPENAI_API_KEY$/m);
    for (const value of [serviceSecret, key, 'sk-from-a-file']) expect(text).not.toContain(value);
  });

  test('the runner is ready when the service knows it, and says that it stops', async () => {
    const manager = await startManager();
    const { key: runnerKey } = await createKey(apiOf({ url: server.url, key }), {
      role: 'runner',
      pool: 'default',
    });
    const runner = spawn(process.execPath, [program, 'runner', '--name', 'unit-runner'], {
      stdio: 'inherit',
      env: {
        PATH: process.env.PATH,
        MUSTER_URL: server.url,
        MUSTER_DATA: join(folder, 'runner'),
        MUSTER_API_KEY_FILE: fileWith('runner-key', runnerKey),
        MUSTER_LOG: 'warn',
        NOTIFY_SOCKET: manager.socket,
      },
    });
    const gone = once(runner, 'exit');
    try {
      await manager.got('READY=1');
      runner.kill('SIGTERM');
      expect(await gone).toEqual([0, null]);
      await manager.got('STOPPING=1');
      expect(manager.count('WATCHDOG=1')).toBe(0);
    } finally {
      runner.kill('SIGKILL');
    }
  });

  test('the service says that it stops', async () => {
    await server.end();
    await managers[0]?.got('STOPPING=1');
  });
});

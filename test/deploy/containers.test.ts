import { execFile, execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { eventually, until } from '../support/async.ts';
import { program } from '../support/server.ts';
import { installMissing, isInstalled } from '../support/system-packages.ts';

/**
 * Builds the images and runs them with Podman, alone, with `podman kube play` and with podman-compose. Only
 * `npm run test:deploy` does this: it takes minutes, and some gigabytes of the disk.
 */
const root = fileURLToPath(new URL('../../', import.meta.url));
const isWanted = process.env.MUSTER_TEST_DEPLOY !== undefined;
const missing = isWanted
  ? installMissing({
      podman: 'podman',
      catatonit: 'catatonit',
      buildah: 'buildah',
      runc: 'runc',
      mmdebstrap: 'mmdebstrap',
      'podman-compose': 'podman-compose',
      iptables: 'iptables',
      '/usr/lib/podman/netavark': 'netavark',
      '/usr/lib/podman/aardvark-dns': 'aardvark-dns',
      openssl: 'openssl',
    })
  : [];
const canRun = isWanted && missing.length === 0 && process.getuid?.() === 0;
if (!canRun)
  process.stderr.write(
    isWanted
      ? `\n*** THE IMAGES ARE NOT TESTED: this needs root and ${missing.join(', ') || 'nothing else'}\n\n`
      : 'SKIPPED: the images: npm run test:deploy\n',
  );

const folder = canRun ? mkdtempSync('/var/tmp/muster-deploy-') : '/nonexistent';
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const images = { service: 'localhost/muster:test', runner: 'localhost/muster-runner:test' };
const base = 'localhost/muster-base:test';
const standIns = 'localhost/muster-stand-ins:test';
const seccomp = `seccomp=${root}deploy/seccomp.json`;
const unmask = 'unmask=ALL';

/** Neither systemd nor control groups of version 2 are needed. Keys of this machine are not for agents of tests. */
const env: NodeJS.ProcessEnv = {
  ...process.env,
  CONTAINERS_CONF: join(folder, 'containers.conf'),
  TMPDIR: '/var/tmp',
  ANTHROPIC_API_KEY: '',
  OPENAI_API_KEY: '',
};
const settings = `[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
[containers]
default_ulimits = ["nofile=20000:20000", "nproc=20000:20000"]
`;
/** Containers of a compose file find each other by name. */
const namedNetwork = '[network]\nnetwork_backend = "netavark"\n';

const execute = promisify(execFile);
async function run(command: string, args: readonly string[], options: object = {}): Promise<string> {
  const { stdout } = await execute(command, args, { env, maxBuffer: 64 * 1024 ** 2, ...options });
  return stdout.trim();
}
const podman = (...args: string[]): Promise<string> => run('podman', args);

const noRights = ['--read-only', '--tmpfs=/tmp', '--cap-drop=ALL', '--security-opt=no-new-privileges'];
const security = (...options: string[]): string[] => options.flatMap((option) => ['--security-opt', option]);

/** All that a container has written. */
const logOf = async (name: string): Promise<string> => {
  const { stdout, stderr } = await execute('podman', ['logs', name], { env });
  return stdout + stderr;
};

const whenReady = (url: string): Promise<Response> =>
  until(
    `${url} is ready`,
    () => fetch(`${url}/readyz`).catch(() => new Response(null, { status: 503 })),
    ({ status }) => status === 200,
    120_000,
  );

async function makeImages(): Promise<void> {
  writeFileSync(join(folder, 'containers.conf'), settings);
  const hasBase = await podman('image', 'exists', base).then(
    () => true,
    () => false,
  );
  const from = hasBase ? [`--base=${base}`] : ['--offline-base'];
  await run(process.execPath, ['scripts/images.mjs', '--tag=test', ...from], { cwd: root });
  await podman(
    'build',
    '--layers',
    `--build-arg=BASE=${base}`,
    `--tag=${standIns}`,
    `${root}test/deploy/stand-ins`,
  );
}

describe.skipIf(!canRun)('the images', () => {
  beforeAll(makeImages, 1_800_000);
  afterAll(async () => {
    await podman('rm', '--force', '--volumes', 'muster-test-service').catch(() => {});
    await podman('volume', 'rm', '--force', 'muster-test-data').catch(() => {});
    await podman('image', 'prune', '--force').catch(() => {});
  });

  const start = (port: string) =>
    podman(
      ...['run', '--detach', '--replace', '--name=muster-test-service', '--network=host', ...noRights],
      ...[
        '--volume=muster-test-data:/var/lib/muster',
        '--env=MUSTER_HOST=127.0.0.1',
        `--env=MUSTER_PORT=${port}`,
      ],
      images.service,
    );

  test('the control plane runs without rights, is healthy, ends in order, and keeps its data', async () => {
    await start('18420');
    await whenReady('http://127.0.0.1:18420');
    await podman('healthcheck', 'run', 'muster-test-service');
    const inside = (command: string) => podman('exec', 'muster-test-service', 'sh', '-c', command);
    expect(await inside('id -u; grep CapEff /proc/1/status')).toMatch(/^10001\nCapEff:\s+0+$/);
    await expect(inside('touch /opt/muster/x')).rejects.toThrow('Read-only file system');
    await expect(inside('ls /opt/muster/node_modules/@openai')).rejects.toThrow('No such file');
    const key = await inside('cat /var/lib/muster/admin.key');
    await podman('stop', '--time=60', 'muster-test-service');
    expect(await podman('inspect', '--format={{.State.ExitCode}}', 'muster-test-service')).toBe('0');
    await start('18420');
    await whenReady('http://127.0.0.1:18420');
    const caller = await fetch('http://127.0.0.1:18420/v1/whoami', {
      headers: { authorization: `Bearer ${key}` },
    });
    expect(caller.status).toBe(200);
  }, 300_000);

  test.each([
    ['nothing', [], 'deploy/seccomp.json as the seccomp profile'],
    ['an uncovered /proc', [unmask], 'deploy/seccomp.json as the seccomp profile'],
    ['the seccomp profile', [seccomp], 'parts of /proc are covered'],
    ['both', [seccomp, unmask], 'Agents run in a sandbox'],
  ])(
    'with %s the runner says what the sandbox lacks',
    async (_, options, said) => {
      const args = ['run', '--rm', '--network=host', ...noRights, ...security(...options), images.runner];
      const findings = await run('podman', [...args, 'doctor', '--output=json']).catch(
        ({ stdout }) => stdout,
      );
      const { found } = JSON.parse(findings).find(({ what }: { what: string }) => what === 'sandbox');
      expect(found).toContain(said);
    },
    120_000,
  );

  test('in a container without rights the sandbox hides what it hides elsewhere', async () => {
    const mounts = [`--volume=${root}:/src:ro`, '--workdir=/src', '--tmpfs=/dev/shm:rw,size=4g,mode=1777'];
    const vitest = ['node', 'node_modules/vitest/vitest.mjs', 'run', '--configLoader=runner'];
    const text = await podman(
      ...['run', '--rm', '--network=host', ...noRights, ...security(seccomp, unmask), ...mounts],
      ...['--entrypoint=/usr/bin/tini', images.runner, '--', ...vitest, 'test/agents/sandbox.test.ts'],
    );
    expect(text).toMatch(/1[0-9] passed, 0 failed, 0 skipped/);
  }, 900_000);

  test('the overlay for one node runs with podman kube play', async () => {
    const overlay = `${root}deploy/kubernetes/overlays/single`;
    const manifests = (await run('kubectl', ['kustomize', overlay]))
      .replaceAll(/localhost\/(muster\S*):latest/g, 'localhost/$1:test')
      // The port of the container becomes one of this machine.
      .replace('containerPort: 8420\n', 'containerPort: 8420\n          hostPort: 18421\n');
    const file = join(folder, 'single.yaml');
    writeFileSync(file, manifests);
    try {
      await podman('kube', 'play', file);
      await whenReady('http://127.0.0.1:18421');
      const key = await podman('exec', 'muster-pod-0-muster', 'cat', '/var/lib/muster/admin.key');
      const headers = { authorization: `Bearer ${key}` };
      expect((await fetch('http://127.0.0.1:18421/v1/whoami', { headers })).status).toBe(200);
    } finally {
      await podman('kube', 'down', file).catch(() => {});
      await podman('volume', 'rm', '--force', 'muster-data').catch(() => {});
    }
  }, 300_000);
});

describe.skipIf(!canRun)('compose.yaml', () => {
  const project = 'muster-test';
  const place = join(folder, 'compose');
  const secrets = join(place, 'secrets');
  const container = (service: string): string => `${project}_${service}_1`;
  const composeEnv = {
    ...env,
    MUSTER_IMAGE: images.service,
    MUSTER_RUNNER_IMAGE: images.runner,
    POSTGRES_IMAGE: standIns,
    HAPROXY_IMAGE: standIns,
    MUSTER_PORT: '18443',
  };
  const compose = (...args: string[]) =>
    run('podman-compose', ['--project-name', project, ...args], { cwd: place, env: composeEnv });
  const muster = (...args: string[]): Promise<string> =>
    run(process.execPath, [program, ...args], {
      env: {
        PATH: env.PATH,
        HOME: folder,
        MUSTER_DATA: folder,
        MUSTER_URL: 'https://localhost:18443',
        MUSTER_API_KEY: readFileSync(join(secrets, 'bootstrap-key'), 'utf8'),
        NODE_EXTRA_CA_CERTS: join(secrets, 'cert.pem'),
      },
    });

  /** The commands of the page, which a person copies. */
  const makeSecrets = (): void => {
    const page = readFileSync(join(root, 'docs/deploy.md'), 'utf8');
    const [, commands = ''] = /```sh\n(cd deploy && mkdir[\s\S]*?)docker compose/.exec(page) ?? [];
    execFileSync('bash', ['-ec', commands.replace('cd deploy &&', '')], { cwd: place, stdio: 'pipe' });
  };

  beforeAll(async () => {
    mkdirSync(place, { recursive: true });
    writeFileSync(join(folder, 'containers.conf'), `${settings}${namedNetwork}`);
    for (const name of ['compose.yaml', 'compose-proxy.cfg', 'seccomp.json'])
      cpSync(join(root, 'deploy', name), join(place, name));
    makeSecrets();
    await compose('up', '-d', 'postgres', 'node-1', 'node-2', 'proxy');
    await eventually(() => muster('whoami'), 180_000);
    const token = await muster(
      'token',
      'create',
      'runner-1',
      '--role=runner',
      '--pool=default',
      '--output=json',
    );
    writeFileSync(join(secrets, 'runner-key'), JSON.parse(token).document.key);
    await compose('up', '-d', '--no-deps', 'runner').catch(() => compose('up', '-d', 'runner'));
  }, 600_000);

  afterAll(async () => {
    await compose('down', '--volumes').catch(() => {});
  });

  interface Shown {
    readonly phase: string;
    readonly result?: unknown;
    readonly run?: { readonly runId: string; readonly outcome?: string };
  }
  const statusOf = async (name: string): Promise<Shown> =>
    JSON.parse(await muster('status', name, '--output=json'));

  test('agents run in a sandbox, and no work is lost when either node is killed', async () => {
    await until(
      'the runner',
      () => logOf(container('runner')),
      (log) => log.includes('Agents run in a sandbox'),
      60_000,
    );
    for (const node of ['node-1', 'node-2']) {
      const name = `beside-${node}`;
      const task = `!run echo uid-$(id -u)\n!sleep 10\n!run echo after-$((1+1))`;
      await muster('spawn', '--name', name, '--model=rehearsal-a', task);
      await until(
        'a run that works',
        () => muster('logs', name),
        (text) => /uid-\d/.test(text),
        120_000,
      );
      await podman('kill', container(node));
      // The other node takes what comes meanwhile.
      await muster('send', name, '!run echo queued-$((2+2))');
      const log = await until(
        'both messages answered',
        () => muster('logs', name),
        (text) => text.includes('after-2') && text.includes('queued-4'),
        180_000,
      );
      expect(log.split('after-2').length, log).toBe(2);
      expect(log).not.toMatch(/lost|LOST/);
      await podman('start', container(node));
      await eventually(() => podman('healthcheck', 'run', container(node)), 120_000);
    }
    expect((await statusOf('beside-node-1')).phase).toBe('PHASE_WAITING_FOR_INPUT');
  }, 600_000);
});

test.skipIf(!isWanted)('Podman and what it needs are installed where this tier runs', () => {
  expect(missing.filter((name) => !isInstalled(name))).toEqual([]);
});

import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { isInstalled } from '../support/system-packages.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));
const read = (path: string): string => readFileSync(join(root, 'deploy', path), 'utf8');

const hasKustomize = isInstalled('kubectl');
if (!hasKustomize) process.stderr.write('SKIPPED: the manifests for Kubernetes: install kubectl\n');

interface Container {
  readonly name: string;
  readonly securityContext: object;
  readonly readinessProbe?: object;
  readonly volumeMounts: readonly { readonly name: string }[];
}
interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly labels: object };
  readonly spec: {
    readonly replicas?: number;
    readonly minAvailable?: number;
    readonly template?: {
      readonly metadata: { readonly labels: Record<string, string> };
      readonly spec: {
        readonly containers: readonly Container[];
        readonly hostUsers?: boolean;
        readonly volumes: readonly { readonly name: string }[];
      };
    };
    readonly selector?: Readonly<Record<string, unknown>>;
    readonly volumeClaimTemplates?: readonly { readonly metadata: { readonly name: string } }[];
  };
}

const rendered = (overlay: string): Manifest[] => {
  const args = ['kustomize', join(root, 'deploy/kubernetes/overlays', overlay)];
  const text = execFileSync('kubectl', args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] });
  return parseAllDocuments(text).map((document) => document.toJS());
};

/** The compiler refuses an unknown field, a missing one and a wrong type of a literal, at every depth. */
function problemsOf(manifests: readonly Manifest[]): string {
  const cache = join(root, 'node_modules/.cache');
  mkdirSync(cache, { recursive: true });
  const folder = mkdtempSync(join(cache, 'manifests-'));
  try {
    const lines = manifests.map(({ apiVersion, kind }, at) => {
      const group = apiVersion === 'v1' ? 'core/v1' : apiVersion.replace('.k8s.io', '');
      return `export const m${at}: import('kubernetes-types/${group}').${kind} = ${JSON.stringify(manifests[at])};`;
    });
    const file = join(folder, 'manifests.ts');
    writeFileSync(file, lines.join('\n'));
    const options = ['--noEmit', '--strict', '--skipLibCheck', '--types', '', '--ignoreConfig'];
    const tsc = join(root, 'node_modules/.bin/tsc');
    const { stdout } = spawnSync(
      tsc,
      [...options, '--module', 'esnext', '--moduleResolution', 'bundler', file],
      { encoding: 'utf8' },
    );
    return stdout;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

describe.skipIf(!hasKustomize).each(['single', 'cluster'])('overlay %s', (overlay) => {
  const manifests = hasKustomize ? rendered(overlay) : [];
  const templates = manifests.flatMap(({ spec }) => spec.template ?? []);

  test('has only fields of the API, and all that it requires', () => {
    expect(manifests.length).toBeGreaterThan(5);
    expect(problemsOf(manifests)).toBe('');
  });

  test('makes no Secret, and nothing in it is one', () => {
    expect(manifests.map(({ kind }) => kind)).not.toContain('Secret');
    expect(JSON.stringify(manifests)).not.toMatch(/"(ANTHROPIC_API_KEY|MUSTER_SECRET|DATABASE_URL)"/);
  });

  test('every pod runs without any privilege, and its mounts exist', () => {
    expect(templates).toHaveLength(2);
    for (const { spec } of templates) {
      expect(spec).toMatchObject({
        automountServiceAccountToken: false,
        enableServiceLinks: false,
        securityContext: { runAsNonRoot: true, runAsUser: 10001 },
      });
      for (const { securityContext } of spec.containers)
        expect(securityContext).toMatchObject({
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          capabilities: { drop: ['ALL'] },
        });
    }
    for (const { spec } of manifests.filter(({ spec }) => spec.template)) {
      const claims = spec.volumeClaimTemplates?.map(({ metadata }) => metadata.name) ?? [];
      const volumes = [...claims, ...(spec.template?.spec.volumes ?? []).map(({ name }) => name)];
      const mounts = spec.template?.spec.containers.flatMap(({ volumeMounts }) => volumeMounts) ?? [];
      expect(mounts.map(({ name }) => name).sort()).toEqual(volumes.sort());
    }
  });

  test('every selector finds the pods of one workload', () => {
    const selectors = manifests
      .filter(({ kind }) => kind === 'Service')
      .map(({ spec }) => spec.selector ?? {});
    expect(selectors).toHaveLength(2);
    for (const selector of selectors)
      expect(
        templates.filter(({ metadata }) =>
          Object.entries(selector).every(([name, value]) => metadata.labels[name] === value),
        ),
      ).toHaveLength(1);
  });

  test('a drain of the machines leaves nodes of the cluster', () => {
    const find = (kind: string, name: string) =>
      manifests.find((each) => each.kind === kind && each.metadata.name === name)?.spec;
    const replicas = find('Deployment', 'muster')?.replicas ?? 0;
    if (overlay === 'single') return expect(replicas).toBe(1);
    expect(find('PodDisruptionBudget', 'muster')?.minAvailable).toBeLessThan(replicas);
  });
});

test.skipIf(!hasKustomize)('a field that the API does not have is a problem', () => {
  const manifests = rendered('single').filter(({ kind }) => kind === 'Deployment');
  const misspelt = JSON.parse(
    JSON.stringify(manifests).replaceAll('"readOnlyRootFilesystem"', '"readOnlyRoot"'),
  );
  expect(problemsOf(misspelt)).toContain('readOnlyRoot');
});

test('every service of compose.yaml has only secrets and volumes that the file names, and no rights', () => {
  const { services, secrets, volumes } = parse(read('compose.yaml'), { merge: true });
  expect(Object.keys(services).sort()).toEqual(['node-1', 'node-2', 'postgres', 'proxy', 'runner']);
  for (const [name, service] of Object.entries<Record<string, unknown>>(services)) {
    for (const secret of service.secrets as string[]) expect(Object.keys(secrets)).toContain(secret);
    for (const volume of service.volumes as string[]) {
      const [source = ''] = volume.split(':');
      if (!source.startsWith('.')) expect(Object.keys(volumes)).toContain(source);
    }
    // The image of PostgreSQL starts as root and gives up its rights itself.
    if (name === 'postgres') continue;
    expect(service).toMatchObject({ read_only: true, cap_drop: ['ALL'] });
    expect(service.security_opt).toContain('no-new-privileges:true');
  }
});

test('the seccomp profile permits what bubblewrap calls, and refuses what no agent needs', () => {
  const { defaultAction, architectures, syscalls } = JSON.parse(read('seccomp.json'));
  expect(defaultAction).toBe('SCMP_ACT_ALLOW');
  expect(architectures).toContain('SCMP_ARCH_AARCH64');
  const refused = syscalls.flatMap(({ names }: { names: string[] }) => names);
  for (const call of ['mount', 'umount2', 'pivot_root', 'unshare', 'clone', 'sethostname'])
    expect(refused).not.toContain(call);
  for (const call of ['bpf', 'kexec_load', 'keyctl', 'init_module', 'io_uring_setup'])
    expect(refused).toContain(call);
  expect(new Set(refused).size).toBe(refused.length);
});

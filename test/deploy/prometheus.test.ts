import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { metricTable } from '../../packages/service/src/lib/metrics-table.ts';
import { Agents } from '../support/agents.ts';
import { apiOf } from '../support/api.ts';
import { until } from '../support/async.ts';
import { createKey } from '../support/catalog.ts';
import { freePort } from '../support/database-servers.ts';
import { expectOk } from '../support/expect-reply.ts';
import { FakeRunner } from '../support/fake-runner.ts';
import { type Server, startServer } from '../support/server.ts';
import { isInstalled } from '../support/system-packages.ts';
import { metricsKey, operatorOf } from '../support/tenants.ts';

const file = (path: string) => fileURLToPath(new URL(`../../${path}`, import.meta.url));
const isTier = Boolean(process.env.MUSTER_TEST_DEPLOY);
const hasPrometheus = isInstalled('prometheus') && isInstalled('promtool');
if (!hasPrometheus)
  process.stderr.write('\n*** TESTS OF THE ALERTS ARE SKIPPED: apt-get install prometheus\n\n');

const rules = readFileSync(file('deploy/prometheus/muster.rules.yml'), 'utf8');
const dashboard: { panels: { title: string; targets?: { expr: string }[] }[] } = JSON.parse(
  readFileSync(file('deploy/grafana/muster.json'), 'utf8'),
);
const queries = dashboard.panels.flatMap(({ title, targets = [] }) =>
  targets.map(({ expr }) => [title, expr] as const),
);

test('every alert has a section in docs/operations.md', () => {
  const headings = readFileSync(file('docs/operations.md'), 'utf8').match(/^### Muster\w+$/gm) ?? [];
  const alerts = [...rules.matchAll(/- alert: (\w+)/g)].map(([, name]) => name ?? '');
  expect(headings.toSorted()).toEqual(alerts.map((name) => `### ${name}`).toSorted());
  const links = [...rules.matchAll(/runbook: docs\/operations\.md#(\w+)/g)].map(([, anchor]) => anchor);
  expect(links).toEqual(alerts.map((name) => name.toLowerCase()));
});

test('alerts and the dashboard use metrics that exist, and the dashboard shows all of them', () => {
  const known = Object.keys(metricTable);
  const used = (text: string) => [
    ...new Set((text.match(/muster_\w+/g) ?? []).map((name) => name.replace(/_(count|sum|bucket)$/, ''))),
  ];
  expect(used(rules.replace(/muster_\w+\.yml/g, '')).filter((name) => !known.includes(name))).toEqual([]);
  expect(used(queries.map(([, expr]) => expr).join(' ')).toSorted()).toEqual(known.toSorted());
});

test.skipIf(!hasPrometheus)('the alerts are valid, silent when all is well, and fire when it is not', () => {
  const promtool = (...args: string[]) =>
    execFileSync('promtool', args, { cwd: file('deploy/prometheus'), encoding: 'utf8', stdio: 'pipe' });
  expect(promtool('check', 'rules', 'muster.rules.yml')).toContain('SUCCESS: 10 rules found');
  expect(promtool('test', 'rules', 'muster.rules.test.yml')).toContain('SUCCESS');
});

/** A Prometheus that scrapes this server each second, with a key of role metrics. */
async function startPrometheus(server: Server, key: string) {
  const folder = mkdtempSync(join(tmpdir(), 'muster-prometheus-'));
  writeFileSync(join(folder, 'muster.key'), key);
  writeFileSync(join(folder, 'muster.rules.yml'), rules);
  const config = readFileSync(file('deploy/prometheus/prometheus.yml'), 'utf8')
    .replace('scrape_interval: 15s', 'scrape_interval: 1s')
    .replace('127.0.0.1:8420', new URL(server.url).host);
  writeFileSync(join(folder, 'prometheus.yml'), config);
  const port = await freePort();
  const child: ChildProcess = spawn(
    'prometheus',
    [
      `--config.file=${join(folder, 'prometheus.yml')}`,
      `--storage.tsdb.path=${join(folder, 'data')}`,
      `--web.listen-address=127.0.0.1:${port}`,
    ],
    { stdio: 'ignore' },
  );
  return {
    url: `http://127.0.0.1:${port}`,
    stop: async () => {
      const gone = once(child, 'exit');
      child.kill('SIGKILL');
      await gone;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

test.skipIf(!hasPrometheus || !isTier)(
  'every query of the dashboard returns something of a busy service, and no alert fires',
  async () => {
    const server = await startServer({ env: { MUSTER_LEASE_SECONDS: '30' } });
    const operator = await operatorOf(server);
    const { body } = await operator.get<{ tenant: Parameters<typeof metricsKey>[1] }>('/v1/whoami');
    const prometheus = await startPrometheus(server, (await metricsKey(operator, body.tenant)).key);
    try {
      const api = apiOf(server);
      const agents = new Agents(api, 'default');
      const { api: runnerApi } = await createKey(api, { role: 'runner', pool: 'other' });
      const runner = new FakeRunner(runnerApi);
      const request = { what: 'request', provider: 'anthropic', model: 'claude-opus-5', outcome: 'ok' };
      const observed = [
        { ...request, seconds: 2, firstByteSeconds: 1, inputTokens: 9, outputTokens: 5, costUsd: 0.1 },
        { what: 'limit', provider: 'anthropic', seconds: 2 },
      ];
      const ask = async (expr: string) => {
        const query = expr.replaceAll('$job', 'muster').replaceAll('$__rate_interval', '30s');
        const reply = await fetch(`${prometheus.url}/api/v1/query?${new URLSearchParams({ query })}`);
        const { data, error } = (await reply.json()) as { data?: { result: unknown[] }; error?: string };
        if (!data) throw new Error(`${query}: ${error}`);
        return data.result;
      };
      let turn = 0;
      await until(
        'every query answered',
        async () => {
          turn += 1;
          await agents.spawn(`busy-${turn}`, { description: '!say done' });
          expectOk(await runner.poll({ observed, free: { real: 1, rehearsed: 1 } }));
          await agents.wait(`busy-${turn}`);
          if (turn === 1) await agents.spawn('asleep', { description: '!sleep 600' });
          try {
            const empty: string[] = [];
            for (const [title, expr] of queries)
              if ((await ask(expr)).length === 0) empty.push(`${title}: ${expr}`);
            return empty;
          } catch (error) {
            // Prometheus is starting.
            if (error instanceof TypeError) return ['not started'];
            throw error;
          }
        },
        (empty) => empty.length === 0,
      );
      expect(await ask('ALERTS{alertstate="firing"}')).toEqual([]);
      expect(await ask('up')).toMatchObject([
        { metric: { job: 'muster' }, value: [expect.any(Number), '1'] },
      ]);
    } finally {
      await prometheus.stop();
      await server.close();
    }
  },
);

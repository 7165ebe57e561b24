import type { ReplyOf } from '@muster/sdk/contract';
import { describe, expect, it } from 'vitest';
import { readPrices } from '../../packages/service/src/runner/gateway/prices.ts';
import type { Tokens } from '../provider/script.ts';
import { until } from '../support/async.ts';
import { expectOk } from '../support/expect-reply.ts';
import { backends, patienceMs, type TestAgents, useTestService } from './test-service.ts';

const tokens: Tokens = { input: 12_345, cached: 6_789, output: 321 };
const service = useTestService({}, async ({ stub }) => {
  stub.tokens = tokens;
});

const usageOf = async ({ api, workspace }: TestAgents, groupBy: readonly string[]) =>
  expectOk(
    await api.post<ReplyOf<'usage'>>('/v1/usage', { groupBy, filter: { workspace }, interval: 'total' }),
  ).rows;

/** In a command, so that every request to the provider has been answered. */
const sleeping = { shell: 'exec sleep 300' };

describe('usage is the sum of the runs, and what the provider counted', { timeout: 3 * patienceMs }, () => {
  it('after a kill of an agent, and of the service with its runner', async () => {
    const { stub } = service();
    const agents = await service().emptyWorkspace();
    const markers: Record<string, string> = {};
    for (const { name, model } of backends) {
      for (const path of [`${name}-killed`, `${name}-lost`]) {
        const marker = service().script(sleeping, { say: 'Never said.' });
        markers[path] = marker;
        await agents.spawn(path, { model, description: `Begin. ${marker}` });
        await agents.doing(path, 'exec sleep');
      }
      await agents.kill(`${name}-killed`);
    }
    await service().restartServer('SIGKILL');
    for (const { name } of backends) {
      await until(
        'a second try',
        () => agents.runs(`${name}-lost`),
        (runs) => runs.length === 2,
        patienceMs,
      );
      await agents.doing(`${name}-lost`, 'exec sleep');
      await agents.stop(`${name}-lost`, 2, 'INTERRUPT');
      await agents.runEnded(`${name}-lost`, 2);
    }

    const prices = readPrices();
    for (const { name, model, provider } of backends) {
      const price = prices.get(model);
      if (!price) throw new Error(`${model} has no price`);
      const { input, cached, output } = tokens;
      const once = (input * price.input + cached * price.cachedInput + output * price.output) / 1e6;
      const paths = [`${name}-killed`, `${name}-lost`];
      const answered = paths.reduce((sum, path) => sum + stub.requestsOf(markers[path] ?? '').length, 0);
      const row = await until(
        'what the lost run used',
        async () =>
          (await usageOf(agents, ['model', 'providerAccount'])).find(({ keys }) => keys.model === model),
        (found) => found?.outputTokens === String(answered * output),
        patienceMs,
      );
      expect(row).toMatchObject({
        keys: { providerAccount: expect.stringMatching(new RegExp(`^${provider}/`)) },
        inputTokens: String(answered * (input + cached)),
        cachedInputTokens: String(answered * cached),
        unpricedTokens: '0',
        runs: 3,
        agents: 2,
      });
      expect(row?.costUsd).toBeCloseTo(answered * once, 9);
      const runs = (await Promise.all(paths.map((path) => agents.runs(path)))).flat();
      expect(runs.reduce((sum, { cost }) => sum + cost, 0)).toBeCloseTo(answered * once, 9);
    }
    expect(await usageOf(agents, ['model'])).toHaveLength(backends.length);
  });
});

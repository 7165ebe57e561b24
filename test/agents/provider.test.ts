import { readFileSync } from 'node:fs';
import type { AgentStatus } from '@muster/sdk/contract';
import { describe, expect, it } from 'vitest';
import type { Step, Tokens } from '../provider/script.ts';
import { until } from '../support/async.ts';
import { uniqueName, writeResource } from '../support/catalog.ts';
import {
  type Backend,
  backends,
  contentOf,
  patienceMs,
  sessionOf,
  type TestAgents,
  useTestService,
} from './test-service.ts';

const runnerName = 'impatient-runner';

let agents: TestAgents;
/** Agents of a runner that lets a provider be silent for one second only, and does not wait for limits. */
let impatient: TestAgents;
/** The usage of each reply. */
const tokens: Tokens = { input: 12_345, cached: 6_789, output: 321 };
const service = useTestService({}, async (started) => {
  started.stub.tokens = tokens;
  agents = await started.emptyWorkspace();
  const pool = uniqueName('impatient');
  await writeResource(started.api, 'pool', pool, {});
  await started.runner(pool, {
    MUSTER_STALL_SECONDS: '1',
    MUSTER_LIMIT_WAIT_SECONDS: '0',
    MUSTER_RUNNER_NAME: runnerName,
  });
  impatient = await started.emptyWorkspace({ pool });
});

const prices = (
  JSON.parse(readFileSync(new URL('../../packages/service/prices.json', import.meta.url), 'utf8')) as {
    models: Record<string, { input: number; cachedInput: number; output: number }>;
  }
).models;

const said = { say: 'That was all.' } as const;

/** A new agent whose model plays these steps. */
async function spawn(model: string, steps: readonly Step[], among = agents) {
  const name = uniqueName('agent');
  const marker = service().script(...steps);
  await among.spawn(name, { model, description: `Do it. ${marker}` });
  return { name, marker, requests: () => service().stub.requestsOf(marker) };
}

const withReason = (name: string, reason: string): Promise<AgentStatus> =>
  until(
    `${name} ${reason}`,
    () => agents.status(name),
    ({ phaseReason }) => phaseReason === reason,
    patienceMs,
  );

/** How each provider reports the end of its limit. */
const limitUntil: Readonly<Record<Backend['provider'], (seconds: number) => Step>> = {
  anthropic: (seconds) => ({
    status: 429,
    headers: { 'anthropic-ratelimit-unified-reset': String(seconds) },
  }),
  openai: (seconds) => ({
    status: 429,
    body: {
      error: { type: 'usage_limit_reached', message: 'The usage limit was reached', resets_at: seconds },
    },
  }),
};

const variables: Readonly<Record<Backend['provider'], string>> = {
  anthropic: 'ANTHROPIC_API_KEY',
  openai: 'OPENAI_API_KEY',
};

// Limits, outages and stalled replies are mostly waits, so the agents wait at the same time.
describe.concurrent.each(backends)('$title', ({ model, provider }) => {
  it('waits for a short limit within the turn, sends images to the model, costs what the price list says, and reaches no model that its settings do not name', async () => {
    const png =
      'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==';
    const limit: Step = { status: 429, headers: { 'retry-after': '1' }, times: 2 };
    const shell = `echo ${png} | base64 -d > dot.png; pwd`;
    // A model that the settings do not name, requested by a command in the sandbox.
    const other = JSON.stringify({ model: 'claude-opus-5', max_tokens: 1, messages: [] });
    const fetchOther = `node -e 'fetch(process.env.ANTHROPIC_BASE_URL + "/v1/messages", {method: "POST", headers: {"x-api-key": process.env.ANTHROPIC_AUTH_TOKEN}, body: process.argv[1]}).then(async (r) => console.log(r.status, await r.text()))' '${other}'`;
    const isAnthropic = provider === 'anthropic';
    const { name, requests } = await spawn(model, [
      limit,
      { shell },
      { view: 'dot.png' },
      ...(isAnthropic ? [{ shell: fetchOther }] : []),
      said,
    ]);
    const status = await agents.wait(name);
    expect(status).toMatchObject({ phaseReason: 'RESTING', response: said.say, error: null });
    expect(await agents.outcomes(name)).toEqual(['COMPLETED']);
    const [first, second, third, ...more] = requests().map(contentOf);
    expect([second, third]).toEqual([first, first]);
    expect(more).toHaveLength(isAnthropic ? 3 : 2);
    const retry = expect.stringContaining('The gateway retries in 1 s');
    const refused = isAnthropic ? [expect.stringContaining('"claude-opus-5"')] : [];
    expect(await agents.warnings(name)).toEqual([retry, retry, ...refused]);
    if (isAnthropic)
      expect((await agents.texts(name, 'TOOL_RESULT')).at(-1)).toMatch(/^403 .*permission_error/);
    expect(more.at(-1)).toContain(png);

    const price = prices[model];
    if (!price) throw new Error(`${model} is not in prices.json`);
    const { input, cached, output } = tokens;
    const once = (input * price.input + cached * price.cachedInput + output * price.output) / 1e6;
    const replies = more.length + 1;
    expect(Number(status.inputTokens)).toBe(replies * (input + cached));
    expect(status.cost).toBeCloseTo(replies * once, 9);
  });

  it('stops waiting for a short limit on an interrupt', async () => {
    const { name, requests } = await spawn(model, [{ status: 429, headers: { 'retry-after': '59' } }]);
    await agents.doing(name, `Rate limited by ${provider}`);
    await agents.stop(name, 1);
    expect(await agents.wait(name)).toMatchObject({ phaseReason: 'INTERRUPTED', error: null });
    expect(requests()).toHaveLength(1);
  });

  it('continues by itself after a longer limit, is blocked by a refused key at the first reply, continues after a retry, and retries a stalled stream', async () => {
    const limit: Step = { status: 429, headers: { 'retry-after': '1' }, times: 2 };
    const { name, marker, requests } = await spawn(
      model,
      [limit, { status: 401, times: 1 }, { shell: 'echo back again' }, { stall: true, times: 1 }, said],
      impatient,
    );
    const blocked = await impatient.wait(name);
    expect(blocked).toMatchObject({
      phaseReason: 'BLOCKED',
      needsInput: `The provider refused the key. Fix it on runner ${runnerName}, then retry.`,
      error: { code: 'PROVIDER_KEY_REFUSED' },
    });
    const message = blocked.error?.message ?? '';
    expect(message).toContain(`${provider} answered 401`);
    expect(message).toContain(`Set ${variables[provider]} of the runner ${runnerName} to a valid key`);
    expect(requests()).toHaveLength(3);
    expect(await impatient.outcomes(name)).toEqual(['PARKED', 'PARKED', 'FAILED']);

    expect((await impatient.send('agent/retry', name)).status).toBe(200);
    const status = await impatient.wait(name);
    expect(status).toMatchObject({ phaseReason: 'RESTING', response: said.say, error: null });
    const runs = await impatient.runs(name);
    expect(runs.map(({ outcome }) => outcome)).toEqual(['COMPLETED', 'FAILED', 'PARKED', 'PARKED']);
    expect(new Set(runs.map(({ batch }) => batch)).size).toBe(1);
    const sessions = requests().map(sessionOf);
    expect(new Set(sessions).size).toBe(1);
    expect(sessions[0]).toBeTruthy();
    const content = contentOf(service().lastRequest(marker));
    expect(content.split(marker)).toHaveLength(2);
    expect(content).toContain('Continue where you were interrupted');
    expect(content).not.toMatch(/interrupted by user|turn_aborted/);
    expect(content).toContain('back again');
    // One reply to the command, and the stalled one again.
    expect(requests().length).toBeGreaterThan(5);
    expect(await impatient.warnings(name)).toContain(
      `${provider} sent nothing for 1 s: the gateway ended the request, which can be retried.`,
    );
  });

  it('waits for the end of an outage; a preempting message replaces the waiting batch, starts immediately, and parks at a limit until the time that the provider names', async () => {
    const before = new Date().toISOString();
    const { name, requests } = await spawn(model, [{ status: 500 }]);
    const status = await withReason(name, 'RETRYING');
    expect(status).toMatchObject({ phase: 'PHASE_PENDING', error: { code: 'PROVIDER_UNAVAILABLE' } });
    expect((status.wakesAt ?? '') > before).toBe(true);
    expect(await agents.outcomes(name)).toEqual(['FAILED']);
    expect(status.error?.message).toContain(`${provider} answered 500.`);
    // The harness has retried by itself first.
    expect(requests().length).toBeGreaterThan(1);

    const seconds = Math.floor(Date.now() / 1000) + 3600;
    const marker = service().script(limitUntil[provider](seconds));
    const followUpId = await agents.queue(name, { description: `Leave that. ${marker}`, preempt: true });
    const [abandoned] = await agents.timeline(name, 'BATCH_ABANDONED');
    expect(abandoned).toMatchObject({ followUpId });
    expect((await agents.status(name)).phaseReason).not.toBe('RETRYING');

    const parked = await withReason(name, 'PROVIDER_LIMIT');
    const resetAt = new Date(seconds * 1000).toISOString();
    expect(parked).toMatchObject({ phase: 'PHASE_PENDING', wakesAt: resetAt, error: null });
    expect(await agents.outcomes(name)).toEqual(['FAILED', 'PARKED']);
    expect((await agents.warnings(name)).at(-1)).toContain(`${provider} answered 429`);
    expect((await agents.warnings(name)).at(-1)).toContain(resetAt);
    expect(service().stub.requestsOf(marker)).toHaveLength(1);
    await agents.kill(name);
  });

  it('counts what an interrupted reply has used by then; a model without a price costs nothing, with one warning', async () => {
    const unknownModel = `${model.split('-')[0]}-unknown`;
    const { name, marker } = await spawn(unknownModel, [
      { shell: 'true' },
      { shell: 'true' },
      { stall: true },
    ]);
    await service().asked(marker, 3);
    await agents.stop(name, (await agents.status(name)).runCount);
    const status = await agents.wait(name);
    expect(status).toMatchObject({ phaseReason: 'INTERRUPTED', cost: 0 });
    // Anthropic reports the input tokens at the start of a reply, OpenAI everything at the end.
    const isAnthropic = provider === 'anthropic';
    expect(Number(status.inputTokens)).toBe((isAnthropic ? 3 : 2) * (tokens.input + tokens.cached));
    expect(Number(status.outputTokens)).toBe(2 * tokens.output + (isAnthropic ? 1 : 0));
    const flags = (await agents.warnings(name)).filter((text) => text.includes('price'));
    expect(flags).toEqual([expect.stringContaining(`The price of ${unknownModel}`)]);
  });
});

import { readFileSync } from 'node:fs';
import type { AgentStatus } from '@muster/sdk/contract';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { SeenRequest, Step, Tokens } from '../provider/script.ts';
import type { Agents } from '../support/agents.ts';
import { until } from '../support/async.ts';
import { uniqueName, writeResource } from '../support/catalog.ts';
import { patienceMs } from './crew.ts';
import { type Backend, backends, type Fleet, startFleet } from './fleet.ts';
import { sessionOf, toldIn } from './requests.ts';

const runnerName = 'runner-of-the-house';
const impatientPool = uniqueName('impatient');

let fleet: Fleet;
let agents: Agents;
beforeAll(async () => {
  fleet = await startFleet({ env: { MUSTER_RUNNER_NAME: runnerName } });
  agents = await fleet.plain();
});
afterAll(() => fleet.close());

const prices = (
  JSON.parse(readFileSync(new URL('../../packages/service/prices.json', import.meta.url), 'utf8')) as {
    models: Record<string, { input: number; cachedInput: number; output: number }>;
  }
).models;

const said = { say: 'That was all.' } as const;

/** A new agent whose model plays these steps. */
async function spawn(model: string, steps: readonly Step[], among = agents) {
  const name = uniqueName('agent');
  const marker = fleet.stub.script(steps);
  await among.spawn(name, { model, description: `Do it. ${marker}` });
  return { name, marker, requests: () => fleet.stub.requestsOf(marker) };
}

const parked = (name: string): Promise<AgentStatus> =>
  until(
    `${name} parked`,
    () => agents.status(name),
    ({ phaseReason }) => phaseReason === 'PROVIDER_LIMIT',
    patienceMs,
  );

const outcomes = async (name: string): Promise<string[]> =>
  (await agents.runs(name)).map(({ outcome }) => outcome);

const warnings = async (name: string, among = agents): Promise<string[]> =>
  (await among.timeline(name, 'WARNING')).map(({ text }) => text);

/** How each provider says when its limit ends. */
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

describe.each(backends)('$title', ({ model, provider }) => {
  it('a limit parks the agent until the time that the provider says', async () => {
    const seconds = Math.floor(Date.now() / 1000) + 3600;
    const { name, requests } = await spawn(model, [limitUntil[provider](seconds)]);
    const status = await parked(name);
    const resetAt = new Date(seconds * 1000).toISOString();
    expect(status).toMatchObject({ phase: 'PHASE_PENDING', wakesAt: resetAt, error: null });
    expect(await outcomes(name)).toEqual(['PARKED']);
    expect((await warnings(name)).at(-1)).toContain(`${provider} answered 429`);
    expect((await warnings(name)).at(-1)).toContain(resetAt);
    expect(requests()).toHaveLength(1);
    await agents.kill(name);
  });

  it('a short limit is waited out inside the turn, and its harness does not notice', async () => {
    const limit: Step = { status: 429, headers: { 'retry-after': '1' }, times: 2 };
    const { name, requests } = await spawn(model, [limit, { shell: 'echo back again' }, said]);
    const status = await agents.wait(name);
    expect(status).toMatchObject({ phaseReason: 'RESTING', response: said.say, error: null });
    expect(await outcomes(name)).toEqual(['COMPLETED']);
    const [first, second, third, ...more] = requests().map(toldIn);
    expect([second, third]).toEqual([first, first]);
    expect(more).toHaveLength(1);
    const waits = (await warnings(name)).filter((text) => text.includes('The gateway retries in 1 s'));
    expect(waits).toHaveLength(2);
  });

  it('an interrupt ends the wait for a short limit', async () => {
    const { name, requests } = await spawn(model, [{ status: 429, headers: { 'retry-after': '59' } }]);
    await until(
      'the wait in the status',
      () => agents.status(name),
      ({ run }) => run?.currentAction.startsWith(`Rate limited by ${provider}`) === true,
      patienceMs,
    );
    await agents.stop(name, 1);
    expect(await agents.wait(name)).toMatchObject({ phaseReason: 'INTERRUPTED', error: null });
    expect(requests()).toHaveLength(1);
  });

  it('after a longer limit it goes on by itself, in the same session, and is told to continue', async () => {
    const among = await impatient();
    const limit: Step = { status: 429, headers: { 'retry-after': '1' }, times: 2 };
    const { name, marker, requests } = await spawn(model, [limit, { shell: 'echo back again' }, said], among);
    const status = await among.wait(name);
    expect(status).toMatchObject({ phaseReason: 'RESTING', response: said.say, error: null });
    const runs = await among.runs(name);
    expect(runs.map(({ outcome }) => outcome)).toEqual(['COMPLETED', 'PARKED', 'PARKED']);
    expect(new Set(runs.map(({ batch }) => batch)).size).toBe(1);
    const sessions = requests().map(sessionOf);
    expect(new Set(sessions).size).toBe(1);
    expect(sessions[0]).toBeTruthy();
    const told = toldIn(requests().at(-1) as SeenRequest);
    expect(told.split(marker)).toHaveLength(2);
    expect(told).toContain('Continue where you were interrupted');
    expect(told).not.toMatch(/interrupted by user|turn_aborted/);
  });

  it('a refused key blocks the agent at the first answer, says what to fix, and a retry goes on with it', async () => {
    const { name, marker, requests } = await spawn(model, [{ status: 401, times: 1 }, said]);
    const status = await agents.wait(name);
    expect(status).toMatchObject({
      phaseReason: 'BLOCKED',
      needsInput: `The provider refused the key. Fix it on runner ${runnerName}, then retry.`,
      error: { code: 'PROVIDER_KEY_REFUSED' },
    });
    const message = status.error?.message ?? '';
    expect(message).toContain(`${provider} answered 401`);
    expect(message).toContain(`Set ${variables[provider]} of the runner ${runnerName} to a valid key`);
    expect(requests()).toHaveLength(1);
    expect(await outcomes(name)).toEqual(['FAILED']);
    expect((await agents.send('agent/retry', name)).status).toBe(200);
    expect(await agents.wait(name)).toMatchObject({
      phaseReason: 'RESTING',
      response: said.say,
      error: null,
    });
    const told = toldIn(requests().at(-1) as SeenRequest);
    expect(told.split(marker)).toHaveLength(2);
    expect(told).toContain('Continue where you were interrupted');
  });

  it('an image that the agent looks at is in the request itself', async () => {
    const png =
      'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==';
    const shell = `echo ${png} | base64 -d > dot.png; pwd`;
    const { name, requests } = await spawn(model, [{ shell }, { view: 'dot.png' }, said]);
    expect(await agents.wait(name)).toMatchObject({ response: said.say, error: null });
    expect(JSON.stringify(requests().at(-1)?.body)).toContain(png);
  });

  it('a stream that stalls is cut, and tried again', async () => {
    const patient = await impatient();
    const { name, requests } = await spawn(model, [{ stall: true, times: 1 }, said], patient);
    const status = await patient.wait(name);
    expect(status).toMatchObject({ phaseReason: 'RESTING', response: said.say, error: null });
    expect(requests().length).toBeGreaterThan(1);
    expect(await warnings(name, patient)).toContain(
      `${provider} sent nothing for 1 s: the gateway ended the request, which can be retried.`,
    );
    expect((await patient.runs(name)).map(({ outcome }) => outcome)).toEqual(['COMPLETED']);
  });

  it('an outage is waited out; a preempting message takes the place of what waits, and starts immediately', async () => {
    const before = new Date().toISOString();
    const { name, requests } = await spawn(model, [{ status: 500 }]);
    const status = await until(
      `${name} retried`,
      () => agents.status(name),
      ({ phaseReason }) => phaseReason === 'RETRYING',
      patienceMs,
    );
    expect(status).toMatchObject({ phase: 'PHASE_PENDING', error: { code: 'PROVIDER_UNAVAILABLE' } });
    expect((status.wakesAt ?? '') > before).toBe(true);
    expect(await outcomes(name)).toEqual(['FAILED']);
    expect(status.error?.message).toContain(`${provider} answered 500.`);
    // The harness has tried again by itself first.
    expect(requests().length).toBeGreaterThan(1);

    const followUpId = await agents.queue(name, { description: 'Leave that.', preempt: true });
    const [abandoned] = await agents.timeline(name, 'BATCH_ABANDONED');
    expect(abandoned).toMatchObject({ followUpId });
    expect((await agents.status(name)).phaseReason).not.toBe('RETRYING');
    await agents.kill(name);
  });

  it('the cost is what the tokens cost by the list', async () => {
    const tokens: Tokens = { input: 12_345, cached: 6_789, output: 321 };
    fleet.stub.tokens = tokens;
    const { name, requests } = await spawn(model, [{ shell: 'true' }, said]);
    const { cost, inputTokens } = await agents.wait(name);
    const price = prices[model];
    if (!price) throw new Error(`${model} is not in prices.json`);
    const { input, cached, output } = tokens;
    const once = (input * price.input + cached * price.cachedInput + output * price.output) / 1e6;
    expect(requests()).toHaveLength(2);
    expect(Number(inputTokens)).toBe(2 * (input + cached));
    expect(cost).toBeCloseTo(2 * once, 9);
    expect(await warnings(name)).toEqual([]);
  });

  it('a model without a price is flagged, once, and costs nothing', async () => {
    fleet.stub.tokens = { input: 1000, cached: 0, output: 100 };
    const unheardOf = `${model.split('-')[0]}-unheard-of`;
    const { name } = await spawn(unheardOf, [{ shell: 'true' }, said]);
    const status = await agents.wait(name);
    expect(status).toMatchObject({ phaseReason: 'RESTING', cost: 0 });
    expect(Number(status.inputTokens)).toBe(2000);
    const flags = (await warnings(name)).filter((text) => text.includes('no price'));
    expect(flags).toEqual([expect.stringContaining(`There is no price for ${unheardOf}`)]);
  });

  it('what an interrupted answer has used by then is counted', async () => {
    fleet.stub.tokens = { input: 1000, cached: 0, output: 100 };
    const { name, requests } = await spawn(model, [{ shell: 'true' }, { stall: true }]);
    await until(
      'the second request',
      async () => requests().length,
      (count) => count === 2,
      patienceMs,
    );
    await agents.stop(name, (await agents.status(name)).runCount);
    const status = await agents.wait(name);
    expect(status.phaseReason).toBe('INTERRUPTED');
    // Anthropic says at the beginning of an answer what it has read; OpenAI says all at the end.
    const [input, output] = provider === 'anthropic' ? [2000, 101] : [1000, 100];
    expect(Number(status.inputTokens)).toBe(input);
    expect(Number(status.outputTokens)).toBe(output);
  });
});

it('a model that the settings do not name is refused inside the sandbox, with a warning', async () => {
  const body = JSON.stringify({ model: 'claude-opus-5', max_tokens: 1, messages: [] });
  const shell = `node -e 'fetch(process.env.ANTHROPIC_BASE_URL + "/v1/messages", {method: "POST", headers: {"x-api-key": process.env.ANTHROPIC_AUTH_TOKEN}, body: process.argv[1]}).then(async (r) => console.log(r.status, await r.text()))' '${body}'`;
  const { name } = await spawn('claude-opus-4-8', [{ shell }, said]);
  expect(await agents.wait(name)).toMatchObject({ response: said.say, error: null });
  expect((await agents.timeline(name, 'TOOL_RESULT'))[0]?.text).toMatch(/^403 .*permission_error/);
  expect(await warnings(name)).toEqual([expect.stringContaining('"claude-opus-5"')]);
});

let workspace: Promise<Agents> | undefined;

/** Agents of a runner that lets a provider be silent for a second only, and waits out no limit. */
function impatient(): Promise<Agents> {
  workspace ??= (async () => {
    await writeResource(fleet.api, 'pool', impatientPool, {});
    await fleet.runner(impatientPool, { MUSTER_STALL_SECONDS: '1', MUSTER_LIMIT_WAIT_SECONDS: '0' });
    return fleet.plain({ pool: impatientPool });
  })();
  return workspace;
}

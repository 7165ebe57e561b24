import { readFileSync } from 'node:fs';
import type { AgentStatus, TimelineEntry } from '@muster/sdk/contract';
import { afterAll, describe, expect, it } from 'vitest';
import type { Step, Tokens } from '../provider/script.ts';
import { eventually, until } from '../support/async.ts';
import { uniqueName, writeResource } from '../support/catalog.ts';
import { sandbox } from '../support/sandbox.ts';
import {
  type Backend,
  backends,
  codex,
  contentOf,
  patienceMs,
  processesWith,
  sessionOf,
  type TestAgents,
  useTestService,
} from './test-service.ts';

const runnerName = 'impatient-runner';
const stallSeconds = 2;

let agents: TestAgents;
/** Agents of a runner that lets a provider be silent for a short time only, and does not wait for limits. */
let impatient: TestAgents;
/** The usage of each reply. */
const tokens: Tokens = { input: 12_345, cached: 6_789, output: 321 };
const service = useTestService({}, async (started) => {
  started.stub.tokens = tokens;
  agents = await started.emptyWorkspace();
  const pool = uniqueName('impatient');
  await writeResource(started.api, 'pool', pool, {});
  await started.runner(pool, {
    MUSTER_STALL_SECONDS: String(stallSeconds),
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
    () => impatient.status(name),
    ({ phaseReason }) => phaseReason === reason,
    patienceMs,
  );

const inputOfOne = tokens.input + tokens.cached;

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

const sleepers: Sleeper[] = [];
afterAll(() => {
  for (const sleeper of sleepers) sleeper.end();
});

/** A command that does not end, and a background process of it; both are identified by how long they would sleep. */
class Sleeper {
  readonly #seconds = 100_000_000 + Math.floor(Math.random() * 100_000_000) * 2;

  constructor() {
    sleepers.push(this);
  }

  get step(): Step {
    const background = `setsid nohup sleep ${this.#seconds + 1} >/dev/null 2>&1 &`;
    return { shell: `${background} exec sleep ${this.#seconds}` };
  }

  processes(): string[] {
    return [0, 1].flatMap((more) => processesWith(`sleep\0${this.#seconds + more}\0`, ['cmdline']));
  }

  /** When both processes run. Returns the key of their agent. */
  async started(): Promise<string> {
    const [pid] = await until(
      'both processes running',
      async () => this.processes(),
      (pids) => pids.length === 2,
      patienceMs,
    );
    const [, key] = /MUSTER_RUN=([\w-]+)\//.exec(readFileSync(`/proc/${pid}/environ`, 'utf8')) ?? [];
    if (key === undefined) throw new Error('the process has no MUSTER_RUN');
    expect(processesWith(key).length).toBeGreaterThan(2);
    return key;
  }

  end(): void {
    for (const pid of this.processes()) process.kill(Number(pid), 'SIGKILL');
  }
}

const processGone = (agents: TestAgents, path: string): Promise<TimelineEntry[]> =>
  until(
    `the processes of ${path} gone`,
    () => agents.timeline(path, 'PROCESS_GONE'),
    (entries) => entries.length > 0,
    patienceMs,
  );

/** The last runs of the agent delivered one batch, once, in one session, and continued after `back again`. */
async function expectContinued(name: string, marker: string, runs: number): Promise<void> {
  const batches = (await impatient.runs(name)).slice(0, runs).map(({ batch }) => batch);
  expect(new Set(batches).size).toBe(1);
  const sessions = service().stub.requestsOf(marker).map(sessionOf);
  expect(new Set(sessions).size).toBe(1);
  expect(sessions[0]).toBeTruthy();
  const content = contentOf(service().lastRequest(marker));
  expect(content.split(marker)).toHaveLength(2);
  expect(content).toContain('Continue where you were interrupted');
  expect(content).not.toMatch(/interrupted by user|turn_aborted/);
  expect(content).toContain('back again');
}

// Limits, outages and stalled replies are mostly waits, so the agents wait at the same time.
describe.concurrent.each(backends)('$title', ({ model, provider }) => {
  const isAnthropic = provider === 'anthropic';

  it('waits for a short limit within the turn, sends images, costs what the price list says, and reaches only models of its settings', async () => {
    const png =
      'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==';
    const limit: Step = { status: 429, headers: { 'retry-after': '1' }, times: 2 };
    // A folder that other processes of the agent do not see.
    const dot = sandbox ? '/tmp/dot.png' : 'dot.png';
    const shell = `echo ${png} | base64 -d > ${dot}; pwd`;
    // A model that the settings do not name, requested by a command in the sandbox.
    const other = JSON.stringify({ model: 'claude-opus-5', max_tokens: 1, messages: [] });
    const fetchOther = `node -e 'fetch(process.env.ANTHROPIC_BASE_URL + "/v1/messages", {method: "POST", headers: {"x-api-key": process.env.ANTHROPIC_AUTH_TOKEN}, body: process.argv[1]}).then(async (r) => console.log(r.status, await r.text()))' '${other}'`;
    const { name, requests } = await spawn(model, [
      limit,
      { shell },
      { view: dot },
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
    expect(await agents.images(name)).toEqual([png]);

    const price = prices[model];
    if (!price) throw new Error(`${model} is not in prices.json`);
    const { input, cached, output } = tokens;
    const once = (input * price.input + cached * price.cachedInput + output * price.output) / 1e6;
    const replies = more.length + 1;
    expect(Number(status.inputTokens)).toBe(replies * (input + cached));
    expect(status.cost).toBeCloseTo(replies * once, 9);
  });

  it('continues after an outage, a preempting message, a refused key, a stalled stream and a limit', async () => {
    const before = new Date().toISOString();
    const { name, requests } = await spawn(model, [{ status: 500 }], impatient);
    const status = await withReason(name, 'RETRYING');
    expect(status).toMatchObject({ phase: 'PHASE_PENDING', error: { code: 'PROVIDER_UNAVAILABLE' } });
    expect((status.wakesAt ?? '') > before).toBe(true);
    expect(await impatient.outcomes(name)).toEqual(['FAILED']);
    expect(status.error?.message).toContain(`${provider} answered 500.`);
    // The harness has retried by itself first.
    expect(requests().length).toBeGreaterThan(1);

    const seconds = Math.floor(Date.now() / 1000) + 3600;
    const marker = service().script(
      { status: 401, times: 1 },
      { shell: 'echo back again' },
      { stall: true, times: 1 },
      limitUntil[provider](seconds),
    );
    const followUpId = await impatient.queue(name, { description: `Leave that. ${marker}`, preempt: true });
    const [abandoned] = await impatient.timeline(name, 'BATCH_ABANDONED');
    expect(abandoned).toMatchObject({ followUpId });
    expect((await impatient.status(name)).phaseReason).not.toBe('RETRYING');

    const blocked = await impatient.runEnded(name, 2);
    expect(blocked).toMatchObject({
      phaseReason: 'BLOCKED',
      needsInput: `The provider refused the key. Fix it on runner ${runnerName}, then retry.`,
      error: { code: 'PROVIDER_KEY_REFUSED' },
    });
    const message = blocked.error?.message ?? '';
    expect(message).toContain(`${provider} answered 401`);
    expect(message).toContain(`Set ${variables[provider]} of the runner ${runnerName} to a valid key`);
    expect(service().stub.requestsOf(marker)).toHaveLength(1);
    expect(await impatient.outcomes(name)).toEqual(['FAILED', 'FAILED']);

    expect((await impatient.send('agent/retry', name)).status).toBe(200);
    const parked = await withReason(name, 'PROVIDER_LIMIT');
    const resetAt = new Date(seconds * 1000).toISOString();
    expect(parked).toMatchObject({ phase: 'PHASE_PENDING', wakesAt: resetAt, error: null });
    expect(await impatient.outcomes(name)).toEqual(['FAILED', 'FAILED', 'PARKED']);
    await expectContinued(name, marker, 2);
    // The command, the stalled reply, and only one more.
    expect(service().stub.requestsOf(marker)).toHaveLength(4);
    const warnings = await impatient.warnings(name);
    expect(warnings).toContain(
      `${provider} sent nothing for ${stallSeconds} s: the gateway ended the request, which can be retried.`,
    );
    expect(warnings.at(-1)).toContain(`${provider} answered 429`);
    expect(warnings.at(-1)).toContain(resetAt);
    await impatient.kill(name);
  });

  it('is interrupted or killed during a command, which leaves no process, and pays for what it has used by then', async () => {
    const { stub } = service();
    const agents = await service().emptyWorkspace();
    const [first, second] = [new Sleeper(), new Sleeper()];
    const begin = service().script(first.step, { say: 'Never said.' });
    await agents.spawn('a', { model, description: `Begin. ${begin}` });
    const key = await first.started();
    await agents.doing('a', 'exec sleep');
    await agents.stop('a', 1, 'INTERRUPT');
    const interrupted = await agents.runEnded('a', 1);
    expect(first.processes()).toEqual([]);
    expect(processesWith(key)).toEqual([]);
    const [run] = await agents.runs('a');
    expect(run).toMatchObject({
      outcome: 'INTERRUPTED',
      inputTokens: String(inputOfOne),
      cachedInputTokens: String(tokens.cached),
      outputTokens: String(tokens.output),
    });
    expect(run?.cost).toBeGreaterThan(0);
    expect(interrupted).toMatchObject({ phaseReason: 'INTERRUPTED', cost: run?.cost });
    expect(interrupted.inputTokens).toBe(String(inputOfOne));
    expect(stub.requestsOf(begin)).toHaveLength(1);
    const [call] = await agents.timeline('a', 'TOOL_CALL');
    expect(call?.text).toContain('exec sleep');

    const again = service().script(second.step, { say: 'Never said.' });
    await agents.queue('a', `Begin again. ${again}`);
    await second.started();
    await agents.doing('a', 'exec sleep');
    await agents.stop('a', 2, 'KILL');
    const gone = await processGone(agents, 'a');
    expect(second.processes()).toEqual([]);
    expect(gone).toMatchObject([{ runId: '2' }]);
    // A last checkpoint is packed after that.
    await eventually(() => expect(processesWith(key)).toEqual([]));
    expect(await agents.phase('a')).toBe('WAITING_FOR_INPUT/INTERRUPTED');

    const unknownModel = `${model.split('-')[0]}-unknown`;
    const last = service().script({ shell: 'true' }, { shell: 'true' }, { stall: true });
    await agents.queue('a', { description: `Continue. ${last}`, model: unknownModel });
    await service().asked(last, 3);
    await agents.stop('a', 3);
    expect(await agents.runEnded('a', 3)).toMatchObject({ phaseReason: 'INTERRUPTED', error: null });
    expect(await agents.outcomes('a')).toEqual(['INTERRUPTED', 'KILLED', 'INTERRUPTED']);
    const [counted] = await agents.runs('a');
    expect(counted).toMatchObject({ cost: 0, outputTokens: String(2 * tokens.output + 1) });
    // Anthropic reports the input tokens at the start of a reply. OpenAI does at the end: the gateway estimates them.
    if (isAnthropic) expect(counted?.inputTokens).toBe(String(3 * inputOfOne));
    else expect(Number(counted?.inputTokens)).toBeGreaterThan(2 * inputOfOne);
    const flags = (await agents.warnings('a')).filter((text) => text.includes('price'));
    expect(flags).toEqual([expect.stringContaining(`The price of ${unknownModel}`)]);
    for (const marker of [again, last]) {
      expect(contentOf(service().firstRequest(marker))).toContain('Begin.');
      expect(sessionOf(service().firstRequest(marker))).toBe(sessionOf(service().firstRequest(begin)));
    }
  });
});

// What the harness waits for is up to the gateway.
describe.concurrent('Codex', () => {
  it('stops waiting for a short limit on an interrupt', async () => {
    const { name, requests } = await spawn(codex.model, [{ status: 429, headers: { 'retry-after': '59' } }]);
    await agents.doing(name, 'Rate limited by openai');
    await agents.stop(name, 1);
    expect(await agents.wait(name)).toMatchObject({ phaseReason: 'INTERRUPTED', error: null });
    expect(requests()).toHaveLength(1);
  });

  it('continues by itself after a longer limit', async () => {
    const limit: Step = { status: 429, headers: { 'retry-after': '1' }, times: 2 };
    const { name, marker } = await spawn(codex.model, [limit, { shell: 'echo back again' }, said], impatient);
    const status = await impatient.wait(name);
    expect(status).toMatchObject({ phaseReason: 'RESTING', response: said.say, error: null });
    expect(await impatient.outcomes(name)).toEqual(['PARKED', 'PARKED', 'COMPLETED']);
    await expectContinued(name, marker, 3);
  });
});

it('an agent is killed together with its child on another runner, and no process of either is left', async () => {
  const pool = uniqueName('pool');
  await writeResource(service().api, 'pool', pool, { maxRuns: 1 });
  await Promise.all([service().runner(pool), service().runner(pool)]);
  const agents = await service().emptyWorkspace({ pool });
  const [parents, childs] = [new Sleeper(), new Sleeper()];
  const child = service().script(childs.step);
  const parent = service().script(
    { tool: 'spawn_child', args: { name: 'kid', description: `Begin. ${child}`, model: codex.model } },
    parents.step,
  );
  await agents.spawn('a', { model: codex.model, description: `Delegate. ${parent}` });
  const keys = await Promise.all([parents.started(), childs.started()]);
  const runners = await Promise.all(
    ['a', 'a/kid'].map(async (path) => (await agents.status(path)).run?.runnerId),
  );
  expect(new Set(runners).size).toBe(2);

  await agents.kill('a');
  expect(await agents.phase('a')).toBe('CANCELED/KILLED');
  expect(await agents.phase('a/kid')).toBe('CANCELED/PARENT_KILLED');
  for (const path of ['a', 'a/kid']) {
    expect(await processGone(agents, path)).toMatchObject([{ runId: '1' }]);
    expect(await agents.outcomes(path)).toEqual(['KILLED']);
  }
  expect([...parents.processes(), ...childs.processes()]).toEqual([]);
  // What the runner starts to save the work ends too.
  for (const key of keys) await eventually(() => expect(processesWith(key)).toEqual([]));
});

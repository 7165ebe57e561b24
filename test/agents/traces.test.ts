import { randomBytes } from 'node:crypto';
import type { FollowUp, Run } from '@muster/sdk/contract';
import { afterAll, describe, expect, it, onTestFinished } from 'vitest';
import { TestUser } from '../cli/cli.ts';
import { accepted } from '../support/agents.ts';
import { apiOf } from '../support/api.ts';
import { until } from '../support/async.ts';
import { writeResource } from '../support/catalog.ts';
import { OtlpReceiver, type ReceivedSpan } from '../support/otlp-receiver.ts';
import { type Server, startServer } from '../support/server.ts';
import { TestRunners } from './test-runners.ts';
import { backends, patienceMs, TestAgents, useTestService } from './test-service.ts';

const collector = await OtlpReceiver.start();
const secret = `canary-${randomBytes(12).toString('hex')}`;
afterAll(() => collector.close());

const variables = {
  OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
  OTEL_EXPORTER_OTLP_HEADERS: 'authorization=Basic%20Zm9vOmJhcg==',
  OTEL_EXPORTER_OTLP_COMPRESSION: 'gzip',
  OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=test',
  OTEL_BSP_SCHEDULE_DELAY: '50',
};

const service = useTestService({ env: { ...variables, MUSTER_LOG: 'info' } }, async ({ api, stub }) => {
  stub.tokens = { input: 1000, cached: 400, output: 50 };
  await writeResource(api, 'secret', 'canary', { value: secret });
  await writeResource(api, 'environment', 'traced', {
    setup: ['true'],
    variables: { CANARY: { fromSecret: 'canary' } },
  });
});

const sender = {
  traceId: 'aaaabbbbccccddddeeeeffff00001111',
  spanId: '1111222233334444',
};
const traceparent = `00-${sender.traceId}-${sender.spanId}-01`;

/** Spawns an agent with a request that is part of the sender's trace, and returns its first run. */
async function runOf(agents: TestAgents, path: string, fields: Record<string, unknown>): Promise<Run> {
  const body = { agentId: agents.id(path), ...fields };
  const headers = { traceparent, tracestate: 'vendor=opaque', baggage: 'user=ada' };
  accepted('spawn', await service().api.post('/v1/agent/spawn', body, headers));
  await agents.idle(path);
  const run = (await agents.runs(path)).at(-1);
  if (!run) throw new Error(`${path} has no run`);
  return run;
}

const ofRunner = (spans: readonly ReceivedSpan[]): ReceivedSpan[] =>
  spans.filter((span) => span.service === 'muster-runner');
const rootOf = (spans: readonly ReceivedSpan[]): ReceivedSpan => {
  const root = spans.find(({ parentSpanId }) => parentSpanId === '');
  if (!root) throw new Error('no root');
  return root;
};
const named = (spans: readonly ReceivedSpan[], beginning: string): ReceivedSpan[] =>
  spans.filter(({ name }) => name.startsWith(beginning));
const sumOf = (spans: readonly ReceivedSpan[], attribute: string): number =>
  spans.reduce((sum, { attributes }) => sum + Number(attributes[attribute] ?? 0), 0);

/** The span of the request that the link leads to: part of the sender's trace. */
async function requestSpan(link: ReceivedSpan['links'][number] | undefined): Promise<ReceivedSpan> {
  const find = async () => collector.spans.find(({ spanId }) => spanId === link?.spanId);
  const found = await until('the span of the request', find, (span) => span !== undefined);
  return found as ReceivedSpan;
}

function expectOneTrace(spans: readonly ReceivedSpan[]): void {
  const root = rootOf(spans);
  for (const span of spans) {
    if (span !== root) expect(span.parentSpanId).toBe(root.spanId);
    expect(span.startNs).toBeGreaterThanOrEqual(root.startNs);
    expect(span.endNs).toBeGreaterThanOrEqual(span.startNs);
  }
  for (const span of ofRunner(spans)) expect(span.endNs).toBeLessThanOrEqual(root.endNs);
  expect(collector.problems).toEqual([]);
}

describe.concurrent.each(backends)('the trace of a run of $title', ({ name, model, provider }) => {
  it('has the requests to the model, the tools, the steps and the checkpoint, and what they cost', async () => {
    const { agents } = await service().workspace({ 'README.md': '# Wall\n' }, { environment: 'traced' });
    const marker = service().script(
      { shell: 'echo "$TRACEPARENT $CANARY"' },
      { tool: 'create_tasks', args: { tasks: [{ subject: 'Sweep' }] } },
      { shell: 'exit 3' },
      { tool: 'spawn_child', args: { name: 'child', description: '!run true', model: 'rehearsal-a' } },
      { say: 'The secret answer.' },
    );
    const run = await runOf(agents, name, { model, description: `A secret prompt. ${marker}` });
    expect(run.traceId).toMatch(/^[\da-f]{32}$/);
    expect(run.traceId).not.toBe(sender.traceId);
    const spans = await collector.trace(run.traceId);
    expectOneTrace(spans);
    expect(collector.requests[0]?.headers.authorization).toBe('Basic Zm9vOmJhcg==');

    const root = rootOf(spans);
    expect(root.name).toBe(`invoke_agent ${name}`);
    expect(root.attributes).toMatchObject({
      'gen_ai.operation.name': 'invoke_agent',
      'gen_ai.provider.name': provider,
      'gen_ai.agent.name': name,
      'gen_ai.request.model': model,
      'muster.run.number': 1,
      'muster.run.outcome': 'COMPLETED',
      'gen_ai.usage.input_tokens': Number(run.inputTokens),
      'gen_ai.usage.cache_read.input_tokens': Number(run.cachedInputTokens),
      'gen_ai.usage.output_tokens': Number(run.outputTokens),
    });
    expect(root.attributes['gen_ai.usage.cost']).toBeCloseTo(run.cost, 9);
    expect(run.cost).toBeGreaterThan(0);
    expect(root.hasFailed).toBe(false);

    const request = await requestSpan(root.links[0]);
    expect(root.links).toHaveLength(1);
    expect(request).toMatchObject({ name: 'POST /v1/agent/spawn', kind: 2, service: 'muster' });
    expect(request).toMatchObject({ traceId: sender.traceId, parentSpanId: sender.spanId });

    const chats = named(spans, 'chat ');
    expect(chats.length).toBeGreaterThanOrEqual(5);
    expect(sumOf(chats, 'gen_ai.usage.input_tokens')).toBe(Number(run.inputTokens));
    expect(sumOf(chats, 'gen_ai.usage.output_tokens')).toBe(Number(run.outputTokens));
    expect(sumOf(chats, 'gen_ai.usage.cost')).toBeCloseTo(run.cost, 9);
    for (const chat of named(chats, `chat ${model}`))
      expect(chat).toMatchObject({
        kind: 3,
        attributes: {
          'gen_ai.operation.name': 'chat',
          'gen_ai.provider.name': provider,
          'gen_ai.request.model': model,
          'gen_ai.response.model': model,
          'gen_ai.response.finish_reasons': [expect.stringMatching(/\w+/)],
          'gen_ai.response.time_to_first_chunk': expect.any(Number),
        },
      });

    const tools = named(spans, 'execute_tool ');
    expect(tools.length).toBeGreaterThanOrEqual(4);
    const failed = tools.filter(({ hasFailed }) => hasFailed);
    expect(failed.map(({ attributes }) => attributes['error.type'])).toEqual(['tool_error']);
    const steps = ['fetch repositories', 'clone', 'restore', 'set up', 'save checkpoint'];
    expect(ofRunner(spans).map((span) => span.name)).toEqual(expect.arrayContaining(steps));

    const printed = (await agents.texts(name, 'TOOL_RESULT')).join('\n');
    expect(printed).toContain(`00-${run.traceId}-${root.spanId}-01 ***`);
    for (const seen of service().stub.requestsOf(marker))
      for (const header of ['traceparent', 'tracestate', 'baggage'])
        expect(seen.headers).not.toHaveProperty(header);
    expect(JSON.stringify(service().stub.requests.map(({ headers }) => headers))).not.toContain(run.traceId);
    for (const text of ['secret prompt', 'secret answer', secret])
      expect(collector.received).not.toContain(text);

    await agents.idle(`${name}/child`);
    const [childRun] = await agents.runs(`${name}/child`);
    const child = rootOf(await collector.trace(childRun?.traceId ?? ''));
    expect(child.traceId).not.toBe(run.traceId);
    expect(child.links.map((link) => link.traceId)).toEqual([run.traceId]);
  });
});

describe('the trace of a rehearsed run', () => {
  it('links to each message that it answers, and to the run that spawned the agent', async () => {
    const agents = await service().emptyWorkspace();
    const first = await runOf(agents, 'a', { model: 'rehearsal-a', description: '!spawn child !run true' });
    const root = rootOf(await collector.trace(first.traceId));
    expect(root.attributes).toMatchObject({ 'gen_ai.usage.cost': 0, 'muster.run.outcome': 'COMPLETED' });
    expect(root.links.map(({ traceId }) => traceId)).toEqual([sender.traceId]);
    await agents.idle('a/child');
    const [ofChild] = await agents.runs('a/child');
    const child = rootOf(await collector.trace(ofChild?.traceId ?? ''));
    expect(child.links.map(({ traceId }) => traceId)).toEqual([first.traceId]);

    const body = { agentId: agents.id('a'), description: 'more', followUpId: 'm1' };
    const malformed = { traceparent: `00-${sender.traceId}-${'0'.repeat(16)}-01` };
    accepted('queue', await service().api.post('/v1/agent/queue', body, malformed));
    const answered = await until(
      'the answer',
      () => agents.send<FollowUp>('agent/queue/get', 'a', { followUpId: 'm1' }),
      (reply) => reply.body.answered,
      patienceMs,
    );
    const link = rootOf(await collector.trace(answered.body.run?.traceId ?? '')).links[0];
    expect(link?.attributes).toEqual({ 'muster.follow_up.id': 'm1' });
    const request = await requestSpan(link);
    expect(request).toMatchObject({ name: 'POST /v1/agent/queue', parentSpanId: '' });
    expect(request.traceId).not.toBe(sender.traceId);
    expect(service().server.output.join('')).toContain(`"trace":"${request.traceId}"`);
  });

  it('is recorded of a run that fails and of one that is killed', async () => {
    const agents = await service().emptyWorkspace();
    const failed = await runOf(agents, 'f', { model: 'rehearsal-a', description: '!fail no way' });
    const root = rootOf(await collector.trace(failed.traceId));
    expect(root).toMatchObject({ hasFailed: true, attributes: { 'muster.run.outcome': 'FAILED' } });

    await agents.spawn('k', { description: '!run sleep 1000' });
    await agents.doing('k', 'sleep');
    await agents.kill('k');
    const [killed] = await agents.runs('k');
    const spans = await collector.trace(killed?.traceId ?? '');
    expect(rootOf(spans).attributes).toMatchObject({
      'muster.run.outcome': 'KILLED',
      'error.type': 'KILLED',
    });
    expect(named(spans, 'execute_tool')).toMatchObject([{ hasFailed: true }]);
  });
});

describe('the texts of prompts and answers', () => {
  it('are recorded only where the operator asks for them, and without the values of secrets', async () => {
    const runners = await TestRunners.create(service());
    await runners.use({ environment: 'traced' });
    await runners.start({ ...variables, OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT: 'true' });
    const run = await runOf(runners.agents, 'c', {
      model: 'rehearsal-a',
      description: `!run echo shown; echo "$CANARY"\n!run echo ${secret}\n!say the answer\nthe prompt`,
    });
    const spans = await collector.trace(run.traceId);
    const { attributes } = rootOf(spans);
    expect(JSON.parse(String(attributes['gen_ai.input.messages']))).toEqual([
      { role: 'user', parts: [{ type: 'text', content: expect.stringContaining('the prompt') }] },
    ]);
    expect(attributes['gen_ai.output.messages']).toContain('the answer');
    const [tool] = named(spans, 'execute_tool');
    expect(tool?.attributes['gen_ai.tool.call.arguments']).toContain('echo shown');
    expect(tool?.attributes['gen_ai.tool.call.result']).toContain('shown\n***');
    expect(collector.received).not.toContain(secret);
  });
});

/** A service with `MUSTER_LOG` and these variables, and what it writes while an agent of it works. */
async function worked(env: Record<string, string>): Promise<{ server: Server; run: Run; metrics: string }> {
  const server = await startServer({ env: { MUSTER_LOG: 'warn', ...env } });
  onTestFinished(() => server.close());
  const agents = new TestAgents(apiOf(server), 'default');
  await agents.spawn('a');
  await agents.idle('a');
  const [run] = await agents.runs('a');
  if (!run) throw new Error('no run');
  const metrics = await (await fetch(`${server.url}/metrics`)).text();
  return { server, run, metrics };
}

/** Node writes the URL of each module that it loads. */
const listsModules = { NODE_DEBUG: 'esm' } as const;
const tracing = /bundle\/otlp-tracer\.js|opentelemetry/;

describe('a service', () => {
  it('loads nothing for traces where no collector is set', async () => {
    const { server, run, metrics } = await worked(listsModules);
    const output = server.output.join('');
    expect(run.traceId).toBe('');
    expect(output).toMatch(/bundle\/muster\.js/);
    expect(output).not.toMatch(tracing);
    expect(metrics).toMatch(/^muster_trace_spans_dropped_total 0$/m);
  });

  it('works as before while its collector is unreachable, and counts the spans that it drops', async () => {
    const { server, run, metrics } = await worked({
      ...listsModules,
      OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:1',
      OTEL_BSP_MAX_QUEUE_SIZE: '1',
    });
    expect(run).toMatchObject({ outcome: 'COMPLETED', traceId: expect.stringMatching(/^[\da-f]{32}$/) });
    expect(server.output.join('')).toMatch(tracing);
    const user = new TestUser(server);
    onTestFinished(() => user.remove());
    expect(await user.prints(['logs', 'a', '--trace'])).toContain(`run 1 completed, trace ${run.traceId}\n`);
    expect(await user.prints(['logs', 'a'])).not.toContain(run.traceId);
    expect(metrics).toMatch(/^muster_trace_spans_dropped_total [1-9]/m);
    await server.end('SIGTERM');
    expect(server.process.exitCode).toBe(0);
  });
});

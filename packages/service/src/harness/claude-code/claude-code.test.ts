import { randomUUID } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Claim } from '@muster/sdk/contract';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { type ProviderStub, startProviderStub } from '../../../../../test/provider/stub.ts';
import { recordFileAccesses } from '../../../../../test/support/file-accesses.ts';
import {
  deliverTo,
  expectLiveOutput,
  interruptFrozenTurn,
  interruptSilentTurn,
  message,
  ofType,
  openSession,
  startEndpoint,
} from '../../../../../test/support/harness-session.ts';
import { MarkedProcesses } from '../../../../../test/support/processes.ts';
import {
  claudeCanaries,
  claudeProject,
  projectTool,
  seenIn,
  writeFiles,
} from '../../../../../test/support/project-settings.ts';
import type { HarnessSession, Processes, Work } from '../harness.ts';
import { claudeCodeHarness, findClaudeCode } from './claude-code.ts';

const claudeCode = findClaudeCode();
const harness = claudeCodeHarness(claudeCode ?? '', 'haiku');
const claude = describe.skipIf(claudeCode === undefined);

let stub: ProviderStub;
let folder: string;
let processes: MarkedProcesses;
const sessions: HarnessSession[] = [];

beforeAll(async () => {
  stub = await startProviderStub();
});
afterAll(() => stub.close());

async function makeFolders(): Promise<void> {
  folder = await mkdtemp(join(tmpdir(), 'muster-claude-'));
  await mkdir(join(folder, 'workspace'));
  await mkdir(join(folder, 'home'));
  processes = new MarkedProcesses(join(folder, 'workspace'));
}

async function removeFolders(): Promise<void> {
  await Promise.all(sessions.splice(0).map((session) => session.kill()));
  await rm(folder, { recursive: true, force: true });
}

const runs = (command: string): boolean => processes.commands().some((line) => line.startsWith(command));

async function open(claim: Partial<Claim> = {}, work: Partial<Work> = {}) {
  const opened = await openSession(
    harness,
    { model: 'claude-opus-4-8', ...claim },
    {
      workspaceFolder: join(folder, 'workspace'),
      homeFolder: join(folder, 'home'),
      endpoint: { url: stub.url, token: 'run-token' },
      processes,
      ...work,
    },
  );
  sessions.push(opened.session);
  return opened;
}

claude('Claude Code', () => {
  beforeEach(makeFolders);
  afterEach(removeFolders);

  it('stores a session in the files that it names, is interrupted, and resumes with new settings; this process opens none of them', async ({
    onTestFinished,
  }) => {
    // A library of this process must not open them either: the agent may replace each by a link.
    const { calls, stop } = recordFileAccesses(folder);
    onTestFinished(stop);
    const first = await open({ fastMode: true });
    const fast = stub.script([{ say: 'I keep it.' }]);
    await first.session.deliver(message(`My word is HERON. ${fast}`));
    expect(first.actions).toEqual(['Starting Claude Code']);
    expect(stub.requestsOf(fast)[0]?.body.speed).toBe('fast');
    const turn = first.session.deliver(
      message(stub.script([{ shell: 'tail -f /dev/null' }, { say: 'Never.' }])),
    );
    await vi.waitUntil(() => runs('tail -f'), { timeout: 20_000 });
    first.session.interrupt();
    expect(await turn).toEqual({ type: 'interrupted', response: '' });
    await vi.waitUntil(() => !runs('tail -f'), { timeout: 20_000 });
    expect(await first.session.deliver(message('And now?'))).toEqual({ type: 'interrupted', response: '' });
    await first.session.close();
    expect(processes.alive()).toEqual([]);

    const [session = ''] = first.refs;
    const projects = readdirSync(join(folder, 'home', '.claude', 'projects'));
    const [transcript = ''] = harness
      .sessionFiles(session)
      .map((pattern) => pattern.replace('*', projects[0] ?? ''));
    expect(existsSync(join(folder, 'home', transcript))).toBe(true);

    const marker = stub.script([{ say: 'HERON' }]);
    const second = await open(
      { session, model: 'claude-opus-5-5', reasoningEffort: 'low', fastMode: false },
      { instructions: 'You are Grace.' },
    );
    expect(await second.session.deliver(message(`What was my word? ${marker}`))).toMatchObject({
      type: 'done',
      response: 'HERON',
    });
    expect(second.refs).toEqual([session]);
    const [request] = stub.requestsOf(marker);
    expect(JSON.stringify(request?.body.messages)).toContain('My word is HERON.');
    expect(JSON.stringify(request?.body.system)).toContain('You are Grace.');
    expect(JSON.stringify(request?.body.system)).not.toContain('You are Ada.');
    expect(request?.body).toMatchObject({ model: 'claude-opus-5-5', output_config: { effort: 'low' } });
    expect(request?.body.speed).toBeUndefined();

    expect(await interruptSilentTurn(second, stub)).toEqual({ type: 'interrupted', response: '' });
    // Those of this test.
    expect(calls.map((call) => call.split(' ')[0])).toEqual(['readdirSync', 'existsSync']);
  });

  it('resolves opus, sonnet and haiku to the models that the gateway allows', async () => {
    const allowedFor = (model: string) =>
      harness.providerOf?.({ model, models: [], workspace: { document: {} } } as unknown as Claim).models[0];
    let input: NodeJS.WritableStream | undefined;
    // The alias itself, as if Muster did not know what becomes of it.
    const unresolved: Processes = {
      start: (argv, options) => {
        const started = processes.start(
          argv.map((argument) => (argument === allowedFor('opus') ? 'opus' : argument)),
          {
            ...options,
            environment: { ...options?.environment, ANTHROPIC_DEFAULT_HAIKU_MODEL: '' },
          },
        );
        input = started.child.stdin;
        return started;
      },
    };
    const { session } = await open({ model: 'opus' }, { processes: unresolved });
    for (const model of ['opus', 'sonnet', 'haiku']) {
      const request = { subtype: 'set_model', model };
      if (model !== 'opus')
        input?.write(`${JSON.stringify({ type: 'control_request', request_id: model, request })}\n`);
      const marker = stub.script([{ say: 'Hello.' }]);
      await session.deliver(message(marker));
      expect(stub.requestsOf(marker).map(({ body }) => body.model)).toEqual([allowedFor(model)]);
    }
  });

  it('says which tools the rules of the repository kept it from using', async () => {
    const rules = { permissions: { ask: ['Bash(touch:*)'] } };
    await writeFiles(join(folder, 'workspace'), { '.claude/settings.json': JSON.stringify(rules) });
    const opened = await open({});
    const { items } = await deliverTo(opened, stub.script([{ shell: 'touch asked' }, { say: 'Done.' }]));
    expect(ofType(items, 'WARNING').map(({ text }) => text)).toContainEqual(
      expect.stringMatching(/not permitted to use Bash: the permissions in .claude\/settings.json/),
    );
  });

  it('reports that the session to resume does not exist', async () => {
    const { session } = await open({ session: randomUUID() });
    expect(await session.deliver(message('Go on'))).toMatchObject({
      type: 'failed',
      code: 'SESSION_NOT_OPENED',
    });
  });

  it('is interrupted before the turn has started', async () => {
    const { session, items } = await open();
    const turn = session.deliver(message(stub.script([{ shell: 'touch begun' }, { say: 'Too late.' }])));
    session.interrupt();
    expect(await turn).toEqual({ type: 'interrupted', response: '' });
    expect(ofType(items, 'MESSAGE')).toEqual([]);
  });

  it('is ended with its command if it does not react to an interrupt', async () => {
    expect(await interruptFrozenTurn(await open(), stub, processes)).toMatchObject({ type: 'interrupted' });
  });

  it.each([
    {
      model: 'claude-opus-4-1',
      wire: 'claude-opus-4-1',
      schema: {
        $schema: 'https://json-schema.org/draft/2020-12/schema',
        type: 'object',
        properties: { sum: { type: 'integer' } },
        required: ['sum'],
      },
      sent: { sum: 3 },
      output: { sum: 3 },
    },
    {
      model: 'claude-opus-4-8[1m]',
      wire: 'claude-opus-4-8',
      schema: { type: 'array', items: { $ref: '#/$defs/n' }, $defs: { n: { type: 'number' } } },
      sent: { output: [1, 2] },
      output: [1, 2],
    },
  ])(
    "returns structured output of type $schema.type, asks only for $model as $wire, ignores the repository's settings if told to, and can be killed",
    async ({ model, wire, schema, sent, output }) => {
      await writeFiles(join(folder, 'workspace'), claudeProject);
      const marker = stub.script([projectTool, { output: sent }]);
      const { session } = await open({
        model,
        outputSchema: JSON.stringify(schema),
        workspace: { document: { projectSettings: false } } as never,
      });
      expect(await session.deliver(message(marker))).toMatchObject({
        type: 'done',
        structuredOutput: output,
      });
      expect(new Set(stub.requestsOf(marker).map(({ body }) => body.model))).toEqual(new Set([wire]));
      expect(seenIn(stub.requestsOf(marker), claudeCanaries)).toEqual([]);

      const turn = session.deliver(message(stub.script([{ shell: 'tail -f /dev/null' }])));
      await vi.waitUntil(() => runs('tail -f'), { timeout: 20_000 });
      await session.kill();
      expect(processes.alive()).toEqual([]);
      expect(await turn).toMatchObject({ type: 'interrupted' });
    },
  );

  it('reports the error output of a program that can not run', async () => {
    const refused: Processes = {
      start: () => processes.start(['/bin/sh', '-c', 'echo no such luck >&2; exit 7']),
    };
    const { session } = await open({}, { processes: refused });
    const result = await session.deliver(message('Hello'));
    expect(result).toMatchObject({ type: 'failed', code: 'HARNESS_ERROR' });
    expect(result).toHaveProperty('message', expect.stringContaining('no such luck'));
  });
});

claude('Claude Code, in one session', () => {
  let opened: Awaited<ReturnType<typeof openSession>>;
  let endpoint: Awaited<ReturnType<typeof startEndpoint>>;
  beforeAll(async () => {
    await makeFolders();
    endpoint = await startEndpoint(stub.url);
    opened = await open({ model: 'opus' }, { endpoint: { url: endpoint.url, token: 'run-token' } });
  });
  afterAll(async () => {
    await removeFolders();
    endpoint.close();
  });

  const deliver = (text: string) => deliverTo(opened, text);

  it('answers a message, and thinks before it', async () => {
    const marker = stub.script([{ think: 'Well, well.' }, { say: 'Hello, operator.' }]);
    const { result, items } = await deliver(`Say hello ${marker}`);
    expect(result).toEqual({ type: 'done', response: 'Hello, operator.' });
    const data = { key: expect.any(String) };
    expect(ofType(items, 'THINKING')).toEqual([{ type: 'THINKING', text: 'Well, well.', data }]);
    expect(ofType(items, 'MESSAGE')).toEqual([{ type: 'MESSAGE', text: 'Hello, operator.', data }]);
    const [request, ...more] = stub.requestsOf(marker);
    expect(more).toEqual([]);
    expect(request?.headers.authorization).toBe('Bearer run-token');
    expect(JSON.stringify(request?.body.system)).toContain('You are Ada.');
  });

  it('reports its tool calls and their results', async () => {
    const marker = stub.script([
      { shell: 'echo one; echo two >&2; exit 3' },
      { write: { path: join(folder, 'workspace', 'notes.md'), text: 'a note\n' } },
      { say: 'Noted.' },
    ]);
    const { result, items, actions } = await deliver(marker);
    expect(result).toMatchObject({ type: 'done', response: 'Noted.' });
    const [shell, write] = ofType(items, 'TOOL_CALL');
    expect(shell).toMatchObject({ text: 'echo one; echo two >&2; exit 3', data: { tool: 'Bash' } });
    expect(write).toMatchObject({
      text: 'Write notes.md',
      data: { tool: 'Write', input: { content: 'a note\n' } },
    });
    const [output, written] = ofType(items, 'TOOL_RESULT');
    expect(output?.text).toContain('two');
    // It also has a key if some of the output was reported before the command ended.
    expect(output?.data).toMatchObject({ tool: 'Bash', id: shell?.data?.id, error: true });
    expect(written?.data).toEqual({
      tool: 'Write',
      id: write?.data?.id,
      diff: '--- /dev/null\n+++ notes.md\n@@ -0,0 +1,1 @@\n+a note',
    });
    expect(actions).toEqual(['Running echo one; echo two >&2; exit 3', 'Writing notes.md']);
    const models = stub.requestsOf(marker).map(({ body }) => body.model);
    expect(new Set(models)).toEqual(new Set(['claude-opus-5-5']));
    expect(readFileSync(join(folder, 'workspace', 'notes.md'), 'utf8')).toBe('a note\n');
  });

  it('reports thoughts, texts and the output of commands while they are produced', async () => {
    await expectLiveOutput(opened, stub, join(folder, 'workspace'));
    await vi.waitUntil(() => !runs('tail -c'), { timeout: 20_000 });
  });

  it('reports the diff of a changed file, however long the replaced texts were', async () => {
    const path = join(folder, 'workspace', 'long.md');
    const lines = Array.from({ length: 2_000 }, (_, i) => `line ${i + 1}`);
    const before = lines.slice(9, 1_500).join('\n');
    const after = before.replace('line 700\n', 'line seven hundred\n');
    const marker = stub.script([
      { write: { path, text: `${lines.join('\n')}\n` } },
      { edit: { path, before, after } },
      { edit: { path, before: 'not in it', after: '' } },
      { say: 'Done.' },
    ]);
    const { result, items } = await deliver(marker);
    expect(result).toMatchObject({ type: 'done', response: 'Done.' });
    const [written, edited, refused] = ofType(items, 'TOOL_RESULT').map(({ data }) => data);
    expect(String(written?.diff).split('\n').slice(0, 4)).toEqual([
      '--- /dev/null',
      '+++ long.md',
      '@@ -0,0 +1,2000 @@',
      '+line 1',
    ]);
    expect(edited?.diff).toBe(
      [
        '--- long.md',
        '+++ long.md',
        '@@ -697,7 +697,7 @@',
        ...[' line 697', ' line 698', ' line 699', '-line 700', '+line seven hundred'],
        ...[' line 701', ' line 702', ' line 703'],
      ].join('\n'),
    );
    expect(refused).toEqual({ tool: 'Edit', id: refused?.id, error: true });
  });

  it('takes a message literally, also one that looks like a command of Claude Code', async () => {
    const text = `/help @notes.md ${stub.script([{ say: 'Certainly.' }])}`;
    const { result } = await deliver(text);
    expect(result).toMatchObject({ type: 'done', response: 'Certainly.' });
  });

  it("uses the agent's own tools, with the token of the run", async () => {
    const marker = stub.script([{ tool: 'complete_task', args: { taskId: 't-1' } }, { say: 'Ticked off.' }]);
    const { result, items, actions } = await deliver(marker);
    expect(result).toMatchObject({ type: 'done', response: 'Ticked off.' });
    expect(actions).toEqual(['Using complete_task']);
    expect(ofType(items, 'TOOL_CALL')).toMatchObject([
      { text: 'complete_task', data: { tool: 'mcp__muster__complete_task' } },
    ]);
    expect(ofType(items, 'TOOL_RESULT')).toMatchObject([{ text: 'Completed t-1 for Bearer run-token' }]);
  });

  it("fails with the text of the provider's error", async () => {
    const error = { type: 'invalid_request_error', message: 'the moon is too bright' };
    const marker = stub.script([{ status: 400, body: { type: 'error', error } }]);
    const { result } = await deliver(marker);
    expect(result).toMatchObject({ type: 'failed', code: 'PROVIDER_ERROR' });
    expect(result).toHaveProperty('message', expect.stringContaining('the moon is too bright'));
  });

  it('retries when the provider fails, and reports it', async () => {
    const marker = stub.script([
      { status: 529, headers: { 'retry-after': '0' }, times: 1 },
      { say: 'There.' },
    ]);
    const { result, items } = await deliver(marker);
    expect(result).toMatchObject({ type: 'done', response: 'There.' });
    expect(ofType(items, 'WARNING').at(-1)?.text).toMatch(
      /The request to the model failed with 529; retrying \(1 of \d+\)/,
    );
  });
});

it.each([
  ['claude-opus-4-1', 'claude-opus-4-1'],
  ['claude-opus-4-8[1m]', 'claude-opus-4-8'],
  ['opus', 'claude-opus-5-5'],
])('for %s the gateway allows %s, the other models of the session and the helper model', (model, wire) => {
  const workspace = { document: { tools: ['web_search'] } };
  expect(harness.providerOf?.({ model, models: ['sonnet'], workspace } as unknown as Claim)).toEqual({
    name: 'anthropic',
    models: [wire, 'claude-sonnet-5-5', 'claude-haiku-5-5'],
    webSearch: true,
  });
});

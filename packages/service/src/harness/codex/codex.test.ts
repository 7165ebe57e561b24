import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { cp, mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { Claim } from '@muster/sdk/contract';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import type { SeenRequest, Step } from '../../../../../test/provider/script.ts';
import { type ProviderStub, startProviderStub } from '../../../../../test/provider/stub.ts';
import { filesLike } from '../../../../../test/support/files.ts';
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
import { png } from '../../../../../test/support/images.ts';
import { MarkedProcesses } from '../../../../../test/support/processes.ts';
import {
  codexCanaries,
  codexProject,
  projectTool,
  seenIn,
  writeFiles,
} from '../../../../../test/support/project-settings.ts';
import type { HarnessSession, Processes, Work } from '../harness.ts';
import { codexHarness, findCodex, sessionFiles } from './codex.ts';

const found = findCodex();
const codex = describe.skipIf(found === undefined);
const harness = codexHarness(found ?? '');

/** One of each kind: tools called one by one, and tools called from scripts. */
const models = ['gpt-5.5', 'gpt-5.6-sol'];

let stub: ProviderStub;
let folder: string;
let processes: MarkedProcesses;
let home: string;
let workspace: string;
const sessions: HarnessSession[] = [];

beforeAll(async () => {
  stub = await startProviderStub();
});
afterAll(() => stub.close());

async function makeFolders(): Promise<void> {
  folder = await mkdtemp(join(tmpdir(), 'muster-codex-'));
  home = join(folder, 'home');
  workspace = join(folder, 'workspace');
  await mkdir(workspace);
  await mkdir(home);
  processes = new MarkedProcesses(workspace, { GIT_AUTHOR_NAME: 'Ada' });
}

async function removeFolders(): Promise<void> {
  await Promise.all(sessions.splice(0).map((session) => session.kill()));
  await rm(folder, { recursive: true, force: true });
}

async function open(claim: Partial<Claim> = {}, work: Partial<Work> = {}) {
  const opened = await openSession(
    harness,
    { model: 'gpt-5.5', ...claim },
    {
      workspaceFolder: workspace,
      homeFolder: home,
      endpoint: { url: stub.url, token: 'run-token' },
      processes,
      ...work,
    },
  );
  sessions.push(opened.session);
  return opened;
}

/** How often the developer messages of a request contain a text. */
const timesInstructed = (request: SeenRequest | undefined, text: string): number => {
  const input = (request?.body.input ?? []) as { role?: string }[];
  const instructions = JSON.stringify(input.filter((item) => item.role === 'developer'));
  return instructions.split(text).length - 1;
};

codex('Codex', () => {
  beforeEach(makeFolders);
  afterEach(removeFolders);

  it('turns what it asks the user for into the question of the agent', async () => {
    const options = ['Red', 'Blue'].map((label) => ({ label, description: `${label}.` }));
    const args = { questions: [{ id: 'colour', header: 'Colour', question: 'Which colour?', options }] };
    const opened = await open();
    const marker = stub.script([{ native: 'request_user_input', args }, { say: 'I wait.' }]);
    const { result } = await deliverTo(opened, marker);
    expect(result).toEqual({
      type: 'done',
      response: 'I wait.',
      question: 'Which colour?\n- Red: Red.\n- Blue: Blue.',
    });
    expect(JSON.stringify(stub.requestsOf(marker)[1]?.body.input)).toContain('End your turn now');
    expect((await deliverTo(opened, stub.script([{ say: 'Blue it is.' }]))).result).not.toHaveProperty(
      'question',
    );
  });

  it('resumes a thread in a new process with the settings of the new run, and on another machine from the files that it names', async () => {
    const first = await open({ serviceTier: 'fast' });
    const fast = stub.script([{ say: 'I keep it.' }]);
    await first.session.deliver(message(`My word is HERON. ${fast}`));
    await first.session.close();
    expect(first.actions).toEqual(['Starting Codex']);
    expect(processes.alive()).toEqual([]);
    expect(stub.requestsOf(fast)[0]?.body).toMatchObject({ service_tier: 'priority' });

    const marker = stub.script([{ say: 'HERON' }]);
    const second = await open(
      {
        session: first.ref,
        model: 'gpt-5.4',
        reasoningEffort: 'low',
        serviceTier: 'standard',
        fastMode: true,
      },
      { instructions: 'You are Grace.' },
    );
    expect(await second.session.deliver(message(`What was my word? ${marker}`))).toMatchObject({
      response: 'HERON',
    });
    expect(second.refs).toEqual([first.ref]);
    const [request] = stub.requestsOf(marker);
    expect(JSON.stringify(request?.body.input)).toContain('My word is HERON.');
    expect(timesInstructed(request, 'You are Grace.')).toBe(1);
    expect(request?.body).toMatchObject({ model: 'gpt-5.4', reasoning: { effort: 'low' } });
    expect(request?.body.service_tier).toBeUndefined();
    expect(
      await second.session.deliver(message(stub.script([{ shell: 'true' }, { say: 'Ran.' }]))),
    ).toMatchObject({
      response: 'Ran.',
    });
    await second.session.close();

    const files = filesLike(home, sessionFiles(first.ref));
    expect(files).toHaveLength(1);
    const old = home;
    home = join(folder, 'other-home');
    workspace = join(folder, 'other-workspace');
    await mkdir(workspace);
    for (const file of files) {
      await mkdir(join(home, dirname(file)), { recursive: true });
      await cp(join(old, file), join(home, file));
    }
    const third = await open({ session: first.ref });
    const moved = stub.script([{ shell: 'pwd' }, { say: 'HERON' }]);
    expect(await third.session.deliver(message(moved))).toMatchObject({ type: 'done', response: 'HERON' });
    expect(ofType(third.items, 'TOOL_RESULT')[0]?.text).toBe(`${workspace}\n`);
    expect(JSON.stringify(stub.requestsOf(moved)[0]?.body.input)).toContain('My word is HERON.');
  });

  it('continues with a model of the other kind, new instructions and another tier', async () => {
    const first = await open({ model: 'gpt-5.5', fastMode: true });
    const fast = stub.script([{ say: 'As I am used to.' }]);
    await first.session.deliver(message(fast));
    await first.session.close();
    expect(stub.requestsOf(fast)[0]?.body.service_tier).toBe('priority');
    const marker = stub.script([{ shell: 'echo new >new' }, { say: 'As is the fashion.' }]);
    const second = await open(
      { session: first.ref, model: 'gpt-5.6-sol', serviceTier: 'flex', fastMode: true },
      { instructions: 'You are Grace.' },
    );
    expect(await second.session.deliver(message(marker))).toMatchObject({ response: 'As is the fashion.' });
    expect(existsSync(join(workspace, 'new'))).toBe(true);
    const [request] = stub.requestsOf(marker);
    expect(timesInstructed(request, 'You are Grace.')).toBe(1);
    expect(timesInstructed(request, 'You are Ada.')).toBe(0);
    expect(request?.body.service_tier).toBe('flex');
  });

  it('sends instructions again only when they have changed, also in a turn that was interrupted', async () => {
    const first = await open();
    await first.session.deliver(message('Hello'));
    await first.session.close();
    const timesToldIn = async (instructions: string, steps: Step[]): Promise<number> => {
      const marker = stub.script(steps);
      const { session } = await open({ session: first.ref }, { instructions });
      const turn = session.deliver(message(marker));
      await vi.waitUntil(() => stub.requestsOf(marker).length > 0, { timeout: 20_000 });
      if (steps.some((step) => 'stall' in step)) session.interrupt();
      await turn;
      await session.close();
      return timesInstructed(stub.requestsOf(marker)[0], instructions);
    };
    expect(await timesToldIn('You are Ada.', [{ say: 'Yes.' }])).toBe(1);
    expect(await timesToldIn('You are Grace.', [{ stall: true }])).toBe(1);
    expect(await timesToldIn('You are Ada.', [{ say: 'Again.' }])).toBe(2);
  });

  it('names no files for an invalid session id', () => {
    expect(sessionFiles('../../x')).toEqual([]);
  });

  it('reports that the thread to resume does not exist, or is open elsewhere', async () => {
    await expect(open({ session: '01a1dda2-402f-7f82-ab10-fcc7f1b33990' })).rejects.toThrow(
      /no rollout found/,
    );
    expect(processes.alive()).toEqual([]);
    const { session, ref } = await open();
    await session.deliver(message('Hello'));
    await expect(
      open({ session: ref }, { processes: { start: (...args) => apart(processes.start(...args)) } }),
    ).rejects.toThrow(/already has an active writer/);
  });

  it.each(models)(
    'is interrupted during a command, which is killed, and while the model is silent (%s)',
    async (model) => {
      const marker = stub.script([{ shell: 'tail -f /dev/null' }, { say: 'Never.' }]);
      const { session, ref } = await open({ model });
      const turn = session.deliver(message(marker));
      const runs = () => processes.commands().some((command) => command.includes('tail -f'));
      await vi.waitUntil(runs, { timeout: 20_000 });
      session.interrupt();
      expect(await turn).toEqual({ type: 'interrupted', response: '' });
      await vi.waitUntil(() => !runs(), { timeout: 20_000 });
      expect(await session.deliver(message('And now?'))).toEqual({ type: 'interrupted', response: '' });
      await session.close();
      expect(processes.alive()).toEqual([]);

      const next = await open({ model, session: ref });
      const after = stub.script([{ say: 'On I go.' }]);
      expect(await next.session.deliver(message(after))).toMatchObject({
        type: 'done',
        response: 'On I go.',
      });

      expect(await interruptSilentTurn(next, stub)).toEqual({ type: 'interrupted', response: '' });
    },
  );

  it('is interrupted before the turn has started, and ended with its command if it does not react', async () => {
    const { session } = await open();
    const turn = session.deliver(message(stub.script([{ stall: true }])));
    session.interrupt();
    expect(await turn).toEqual({ type: 'interrupted', response: '' });
    await session.close();
    expect(await interruptFrozenTurn(await open(), stub, processes)).toMatchObject({ type: 'interrupted' });
  });

  it("returns structured output that the provider enforces, ignores the repository's settings if told to, and leaves no process when killed", async () => {
    await writeFiles(workspace, codexProject);
    execFileSync('git', ['init', '--quiet'], { cwd: workspace });
    const schema = {
      type: 'object',
      properties: { sum: { type: 'integer' }, note: { type: ['string', 'null'] } },
      required: ['sum', 'note'],
      additionalProperties: false,
    };
    const dialect = { $schema: 'https://json-schema.org/draft/2020-12/schema' };
    const { session } = await open({
      outputSchema: JSON.stringify({ ...dialect, ...schema }),
      workspace: { document: { projectSettings: false } } as never,
    });
    const marker = stub.script([projectTool, { output: { sum: 3, note: null } }]);
    expect(await session.deliver(message(marker))).toMatchObject({
      type: 'done',
      structuredOutput: { sum: 3, note: null },
    });
    expect(stub.requestsOf(marker)[0]?.body.text).toMatchObject({ format: { strict: true, schema } });
    expect(seenIn(stub.requestsOf(marker), codexCanaries)).toEqual([]);

    const turn = session.deliver(message(stub.script([{ shell: 'touch started; tail -f /dev/null' }])));
    await vi.waitUntil(() => existsSync(join(workspace, 'started')), { timeout: 20_000 });
    await session.kill();
    expect(processes.alive()).toEqual([]);
    expect(await turn).toMatchObject({ type: 'interrupted' });
  });

  it('returns structured output with a schema in its instructions', async () => {
    const outputSchema = JSON.stringify({ type: 'array', items: { oneOf: [{ type: 'number' }] } });
    const { session } = await open({ outputSchema });
    const marker = stub.script([{ say: '```json\n[1, 2]\n```' }]);
    expect(await session.deliver(message(marker))).toMatchObject({ type: 'done', structuredOutput: [1, 2] });
    expect(timesInstructed(stub.requestsOf(marker)[0], 'oneOf')).toBe(1);
    expect(await session.deliver(message(stub.script([{ say: 'I forgot.' }])))).toEqual({
      type: 'done',
      response: 'I forgot.',
    });
  });

  it('compacts a conversation that is too long, once per turn, and continues', async () => {
    const error = { code: 'context_length_exceeded', message: 'Your input exceeds the context window.' };
    const { session, items } = await open();
    for (const times of [1, 2]) {
      items.length = 0;
      const marker = stub.script([{ status: 400, body: { error }, times }, { say: 'On I go.' }]);
      expect(await session.deliver(message(`A long task. ${marker}`))).toMatchObject(
        times === 1 ? { type: 'done', response: 'On I go.' } : { type: 'failed', code: 'CONTEXT_OVERFLOW' },
      );
      const said = ofType(items, 'WARNING').map(({ text }) => text);
      expect(said.filter((text) => text?.includes('was compacted'))).toHaveLength(1);
    }
  });

  it('reports the error output of a program that can not run, and invalid messages', async () => {
    const playing = (script: string): Processes => ({
      start: () => processes.start(['/bin/sh', '-c', script]),
    });
    await expect(open({}, { processes: playing('echo no such luck >&2; exit 7') })).rejects.toThrow(
      /Codex ended: exit status 7: no such luck/,
    );
    await expect(open({}, { processes: playing('echo hello; cat') })).rejects.toThrow(/invalid message/);
    expect(processes.alive()).toEqual([]);
  });

  it('stops opening when the run has lost its lease', async () => {
    const halt = new AbortController();
    const silent: Processes = { start: () => processes.start(['/usr/bin/tail', '-f', '/dev/null']) };
    const opening = open({}, { processes: silent, signal: halt.signal });
    halt.abort();
    await expect(opening).rejects.toThrow();
    expect(processes.alive()).toEqual([]);
  });
});

codex.each(models)('Codex, in one session (%s)', (model) => {
  let opened: Awaited<ReturnType<typeof openSession>>;
  let endpoint: Awaited<ReturnType<typeof startEndpoint>>;
  beforeAll(async () => {
    await makeFolders();
    endpoint = await startEndpoint(stub.url);
    opened = await open({ model }, { endpoint: { url: endpoint.url, token: 'run-token' } });
  });
  afterAll(async () => {
    await removeFolders();
    endpoint.close();
  });

  const deliver = (text: string) => deliverTo(opened, text);

  it('reports thoughts, texts and the output of commands while they are produced', () =>
    expectLiveOutput(opened, stub, workspace));

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
    expect(timesInstructed(request, 'You are Ada.')).toBe(1);
  });

  it('may delete files and branches', async () => {
    const deleting = [
      'touch junk && mkdir build && touch build/out && git init --quiet && git -c user.email=a@b -c user.name=a commit --quiet --allow-empty -m x && git branch old',
      'rm -f junk',
      'rm -rf build',
      'git branch -d old',
    ];
    const marker = stub.script([...deleting.map((shell) => ({ shell })), { say: 'Gone.' }]);
    const { result, items } = await deliver(`Tidy up ${marker}`);
    expect(result).toMatchObject({ type: 'done', response: 'Gone.' });
    const left = ['.git', 'junk', 'build'].filter((name) => existsSync(join(workspace, name)));
    expect(left).toEqual(['.git']);
    expect(execFileSync('git', ['branch', '--list', 'old'], { cwd: workspace, encoding: 'utf8' })).toBe('');
    expect(ofType(items, 'TOOL_CALL').map(({ text }) => text)).toEqual(deleting);
  });

  it('reports its tool calls and their results', async () => {
    const marker = stub.script([
      { shell: `echo "it's $GIT_AUTHOR_NAME"; echo two >&2; exit 3` },
      { write: { path: 'notes.md', text: 'a note\n' } },
      { view: 'dot.png' },
      { say: 'Noted.' },
    ]);
    writeFileSync(join(workspace, 'dot.png'), png());
    const { result, items, actions } = await deliver(marker);
    expect(result).toMatchObject({ type: 'done', response: 'Noted.' });
    const [shell, write, dot] = ofType(items, 'TOOL_CALL');
    expect(shell).toMatchObject({
      text: `echo "it's $GIT_AUTHOR_NAME"; echo two >&2; exit 3`,
      data: { tool: 'shell' },
    });
    expect(write).toMatchObject({
      text: 'Edit notes.md',
      data: { tool: 'apply_patch', files: ['notes.md'] },
    });
    expect(dot).toMatchObject({ text: 'dot.png', data: { tool: 'view_image' } });
    const [output, written, ...viewed] = ofType(items, 'TOOL_RESULT');
    expect(viewed).toEqual([{ type: 'TOOL_RESULT', data: { tool: 'view_image', id: dot?.data?.id } }]);
    expect(opened.images).toEqual([png().toString('base64')]);
    expect(output?.text?.trim().split('\n').sort()).toEqual(["it's Ada", 'two']);
    expect(output?.data).toMatchObject({ tool: 'shell', id: shell?.data?.id, exitCode: 3 });
    expect(written?.text).toContain('a note');
    expect(written?.data).toEqual({ tool: 'apply_patch', id: write?.data?.id });
    expect(actions).toEqual([
      `Running echo "it's $GIT_AUTHOR_NAME"; echo two >&2; exit 3`,
      'Editing notes.md',
    ]);
    expect(readFileSync(join(workspace, 'notes.md'), 'utf8')).toBe('a note\n');
  });

  it('uses the tools of Muster', async () => {
    const marker = stub.script([{ tool: 'complete_task', args: { taskId: 't-1' } }, { say: 'Ticked off.' }]);
    const { result, items } = await deliver(marker);
    expect(result).toMatchObject({ type: 'done', response: 'Ticked off.' });
    expect(ofType(items, 'TOOL_CALL')).toMatchObject([
      { text: 'complete_task', data: { tool: 'complete_task', input: { taskId: 't-1' } } },
    ]);
    expect(ofType(items, 'TOOL_RESULT')).toMatchObject([
      { text: 'Completed t-1 for Bearer run-token', data: { tool: 'complete_task' } },
    ]);
  });

  it("fails with the text of the provider's error", async () => {
    const error = { type: 'invalid_request_error', message: 'the moon is too bright', code: null };
    const marker = stub.script([{ status: 400, body: { error } }]);
    const { result } = await deliver(marker);
    expect(result).toEqual({
      type: 'failed',
      code: 'PROVIDER_ERROR',
      message: 'the moon is too bright',
      response: '',
    });
  });

  it('retries when the provider fails, and reports it', async () => {
    const marker = stub.script([{ status: 503, times: 4 }, { say: 'There.' }]);
    const { result, items } = await deliver(marker);
    expect(result).toMatchObject({ type: 'done', response: 'There.' });
    expect(ofType(items, 'WARNING').at(-1)?.text).toBe(
      'The request to the model failed with 503; retrying (1 of 2).',
    );
  });
});

/** A process that is killed alone, beside others of the same test. */
function apart(process: ReturnType<Processes['start']>): ReturnType<Processes['start']> {
  const kill = async (): Promise<void> => {
    process.child.kill('SIGKILL');
    await process.exited;
  };
  return { ...process, kill };
}

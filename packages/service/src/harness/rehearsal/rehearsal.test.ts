import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Claim, ReportItem } from '@muster/sdk/contract';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { eventually } from '../../../../../test/support/async.ts';
import { unlimitedCredit } from '../../../../../test/support/credit.ts';
import { ignored, message } from '../../../../../test/support/harness-session.ts';
import { unsandboxedProcesses } from '../../../../../test/support/processes.ts';
import { sandbox, theSandbox } from '../../../../../test/support/sandbox.ts';
import { ValueMask } from '../../lib/value-mask.ts';
import { agentProcesses } from '../../runner/sandbox/processes.ts';
import type { AgentTools, HarnessSession, Processes, Push, Usage } from '../harness.ts';
import { rehearsalHarness } from './rehearsal.ts';

let folder: string;
let workspaceFolder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'muster-rehearsal-'));
  workspaceFolder = join(folder, 'workspace');
  await mkdir(workspaceFolder);
});
afterEach(() => rm(folder, { recursive: true, force: true }));

async function open(
  claim: Partial<Claim> = {},
  tools: Partial<AgentTools> = {},
  turnMs = 20,
  processes: Processes = unsandboxedProcesses({ workspaceFolder, homeFolder: folder }),
) {
  const [items, used, pushes, sessions]: [ReportItem[], Usage[], Push[], string[]] = [[], [], [], []];
  const whole = {
    agentKey: '00000000-0000-4000-8000-000000000001',
    runId: 1,
    messages: [],
    attempt: 1,
    session: '',
    outputSchema: '',
    agentId: { tenant: { provider: 'PROVIDER_SERVICE_PROFILE', org: 'o' }, agent: ['root', 'kid'] },
    branch: 'muster/root-kid',
    workspace: { document: {}, environment: {}, vmProfile: {} },
    ...claim,
  } as Claim;
  const session = await rehearsalHarness({ turnMs }).open(
    {
      claim: whole,
      workspaceFolder,
      homeFolder: folder,
      signal: new AbortController().signal,
      instructions: '',
      resumes: false,
      mcpServers: { servers: [], environment: {}, commonVariables: [] },
      mask: new ValueMask(['hidden-value']),
      credit: unlimitedCredit(),
      endpoint: { url: '', token: '' },
      processes,
      tools: { openTasks: async () => [], ...tools } as AgentTools,
    },
    {
      item: (item) => items.push(item),
      ...ignored,
      usage: (usage) => used.push(usage),
      push: (push) => pushes.push(push),
      session: (ref) => sessions.push(ref),
    },
  );
  return { session, items, used, pushes, sessions };
}

const deliver = async (text: string, claim: Partial<Claim> = {}, tools: Partial<AgentTools> = {}) => {
  const opened = await open(claim, tools);
  return { ...opened, result: await opened.session.deliver(message(text)) };
};

const texts = (items: readonly ReportItem[], type: string) =>
  items.filter((i) => i.type === type).map((i) => i.text);

describe('a turn with directives', () => {
  it('sends messages, and the last one is the response', async () => {
    const { result, items } = await deliver('Hello\n!say one\n!say two');
    expect(result).toEqual({ type: 'done', response: 'two', structuredOutput: null, finished: false });
    expect(texts(items, 'MESSAGE')).toEqual(['one', 'two']);
  });

  it('runs a command in the workspace, without the secrets of the runner', async () => {
    vi.stubEnv('ANTHROPIC_API_KEY', 'sk-secret');
    const { items } = await deliver('!run pwd; echo err >&2; echo "key=$ANTHROPIC_API_KEY"; exit 3');
    vi.unstubAllEnvs();
    const result = items.find((i) => i.type === 'TOOL_RESULT');
    expect(result?.text).toContain(workspaceFolder);
    expect(result?.text).toContain('err');
    expect(result?.text).toContain('key=\n');
    expect(result?.data).toMatchObject({ exitCode: 3 });
    expect(texts(items, 'TOOL_CALL')[0]).toContain('pwd');
  });

  it('limits the output of a command', async () => {
    const { items } = await deliver('!run echo start; head -c 3000000 /dev/zero | tr "\\0" x; echo end');
    const text = texts(items, 'TOOL_RESULT')[0] ?? '';
    expect(text.length).toBeLessThan(70_000);
    expect(text).toMatch(/^start.*bytes left out.*end\n$/s);
  });

  it('masks the values of secrets before it cuts the output', async () => {
    const { items } = await deliver('!run yes hidden-"value" | head -c 3000000');
    const text = texts(items, 'TOOL_RESULT')[0] ?? '';
    expect(text).toContain('***\n***\n');
    expect(text).toContain('bytes left out');
    expect(text).not.toMatch(/hidden|value/);
  });

  it('ends the background processes of a command', async () => {
    await deliver('!run sleep 300 & echo $! > pid');
    await eventually(() => expect(isAlive(pidIn('pid'))).toBe(false));
  });

  it('stops at a question, and skips later lines', async () => {
    const { result, items } = await deliver('!say before\n!ask Which?\n!say after');
    expect(result).toEqual({ type: 'done', response: 'before', question: 'Which?' });
    expect(texts(items, 'MESSAGE')).toEqual(['before']);
  });

  it('declares itself finished, and follows later lines', async () => {
    const { result } = await deliver('!finish done\n!say more');
    expect(result).toMatchObject({ type: 'done', response: 'more', finished: true });
  });

  it('takes an unknown directive for prose, with a warning that names it', async () => {
    const { result, items } = await deliver('!say first\n!dance wildly\n!say last');
    expect(result).toMatchObject({ type: 'done', response: 'last' });
    expect(texts(items, 'MESSAGE')).toEqual(['first', 'last']);
    expect(texts(items, 'WARNING')).toEqual([expect.stringContaining('!dance')]);
    const alone = await deliver('!dance');
    expect(alone.result).toMatchObject({ type: 'done', response: expect.stringContaining('Rehearsed') });
    expect(texts(alone.items, 'WARNING')).toEqual([expect.stringContaining('!dance')]);
  });

  it('fails by !fail and by invalid JSON, after the lines before', async () => {
    const failed = await deliver('!say first\n!fail no good\n!say never');
    expect(failed.result).toEqual({ type: 'failed', code: 'REHEARSED_FAILURE', message: 'no good' });
    expect(texts(failed.items, 'MESSAGE')).toEqual(['first']);
    expect((await deliver('!output {')).result).toMatchObject({
      message: expect.stringContaining('!output'),
    });
  });

  it('is rate limited once per !limit, and continues when the batch is retried', async () => {
    const text = '!limit 60\n!say one\n!limit 60\n!say two';
    const first = (await deliver(text, { attempt: 1 })).result;
    expect(first.type === 'parked' && first.until.getTime()).toBeGreaterThan(Date.now() + 30_000);
    const second = await deliver(text, { attempt: 2 });
    expect(second.result.type).toBe('parked');
    expect(texts(second.items, 'MESSAGE')).toEqual(['one']);
    expect((await deliver(text, { attempt: 3 })).result).toMatchObject({ type: 'done', response: 'two' });
  });

  it('reports usage and the name of its session', async () => {
    const { used, sessions } = await deliver('!usage 10 2 3 0.5');
    expect(used).toEqual([{ inputTokens: 10, cachedInputTokens: 2, outputTokens: 3, costUsd: 0.5 }]);
    expect(sessions).toEqual(['rehearsal-00000000-0000-4000-8000-000000000001']);
    expect((await deliver('!say x', { session: 'kept' })).sessions).toEqual(['kept']);
  });

  it('uses its tools, and does not fail when one is refused', async () => {
    const calls: string[] = [];
    const tools: Partial<AgentTools> = {
      addTask: async (subject) => void calls.push(`add ${subject}`),
      completeTask: async (task) => void calls.push(`done ${task}`),
      spawnChild: async (name, description) => {
        calls.push(`spawn ${name} ${description}`);
        throw new Error('already exists');
      },
    };
    const { result, items } = await deliver(
      '!task add A b\n!task done A b\n!spawn kid !say x\\n!finish',
      {},
      tools,
    );
    expect(calls).toEqual(['add A b', 'done A b', 'spawn kid !say x\n!finish']);
    expect(items.at(-1)).toMatchObject({
      type: 'TOOL_RESULT',
      text: 'already exists',
      data: { error: true },
    });
    expect(result.type).toBe('done');
  });

  it('returns the given output, else a smallest instance of the schema', async () => {
    const outputSchema =
      '{"type":"object","required":["n"],"properties":{"n":{"type":"integer","minimum":2}}}';
    expect((await deliver('!output {"n":"bad"}', { outputSchema })).result).toMatchObject({
      structuredOutput: { n: 'bad' },
    });
    expect((await deliver('!say x', { outputSchema })).result).toMatchObject({ structuredOutput: { n: 2 } });
    expect((await deliver('!output 5')).result).toMatchObject({ structuredOutput: 5 });
  });

  it('ignores reminders', async () => {
    const { session, result, items } = await deliver('!say x');
    const count = items.length;
    expect(await session.deliver(message('!say a reminder'))).toEqual(result);
    expect(items).toHaveLength(count);
  });
});

/** Waits for each of the folders 0, 1, 2 … and replaces it by a link to the argument. */
const swapFolders = `const fs = require('node:fs');
console.log('started');
for (let folder = 0; ; folder++) {
  while (!fs.existsSync(String(folder)));
  fs.renameSync(String(folder), 'old-' + folder);
  fs.symlinkSync(process.argv[1], String(folder));
}`;

describe('!write', () => {
  it('writes a file in the workspace, and its folders', async () => {
    expect((await deliver('!write a/b.txt hello there\n!write a/b.txt again')).result.type).toBe('done');
    expect(readFileSync(join(workspaceFolder, 'a/b.txt'), 'utf8')).toBe('again\n');
  });

  it.each([
    '../out.txt',
    '/tmp/muster-out.txt',
    'a/../../out.txt',
    'link/out.txt',
    'link/deep/out.txt',
    'file-link',
  ])('stays inside the workspace: %s fails the run', async (path) => {
    const elsewhere = join(folder, 'elsewhere');
    await mkdir(elsewhere);
    await writeFile(join(elsewhere, 'kept.txt'), 'kept');
    await symlink(elsewhere, join(workspaceFolder, 'link'));
    await symlink(join(elsewhere, 'kept.txt'), join(workspaceFolder, 'file-link'));
    const { result } = await deliver(`!write ${path} text\n!say after`);
    expect(result).toMatchObject({ type: 'failed', message: expect.stringContaining(path) });
    expect(existsSync(join(folder, 'out.txt'))).toBe(false);
    expect(existsSync(join(elsewhere, 'out.txt'))).toBe(false);
    expect(readFileSync(join(elsewhere, 'kept.txt'), 'utf8')).toBe('kept');
  });

  it('does not wait for a pipe without a reader', async () => {
    execFileSync('mkfifo', [join(workspaceFolder, 'pipe')]);
    const { result } = await deliver('!write pipe text');
    expect(result).toMatchObject({ type: 'failed', message: expect.stringContaining('it is not a file') });
  });

  it('writes a text that is too long for an argument', async () => {
    const text = 'x'.repeat(300_000);
    expect((await deliver(`!write long.txt ${text}`)).result.type).toBe('done');
    expect(readFileSync(join(workspaceFolder, 'long.txt'), 'utf8')).toBe(`${text}\n`);
  });

  it('starts a process of the agent, and the runner itself writes nothing', async () => {
    const own = unsandboxedProcesses({ workspaceFolder, homeFolder: folder });
    const processes = { ...own, start: () => own.start(['/bin/true'], { gateway: 'never' }) };
    const { session } = await open({}, {}, 20, processes);
    await session.deliver(message('!write a/b.txt text\n!push'));
    expect(readdirSync(workspaceFolder)).toEqual([]);
  });

  it.skipIf(!sandbox)('writes nothing outside while the agent replaces the folder by a link', async () => {
    const outside = join(folder, 'outside');
    await mkdir(outside);
    const processes = agentProcesses({
      sandbox: theSandbox(),
      folders: { workspaceFolder, homeFolder: workspaceFolder },
      dataFolder: folder,
      runFolder: workspaceFolder,
      agentKey: '00000000-0000-4000-8000-000000000001',
      runId: 1,
      gateway: { socketPath: join(folder, 'none') },
    });
    const swapping = processes.start([process.execPath, '-e', swapFolders, outside], { gateway: 'never' });
    try {
      await once(swapping.child.stdout, 'data');
      for (let attempt = 0; attempt < 16; attempt++) {
        const { session } = await open({}, {}, 20, processes);
        await session.deliver(message(`!write ${attempt}/file-${attempt} text`));
      }
      expect(readdirSync(outside)).toEqual([]);
    } finally {
      await processes.killAll();
    }
  });
});

describe('!push', () => {
  const git = (...args: string[]) =>
    execFileSync('git', ['-C', workspaceFolder, ...args], { encoding: 'utf8' }).trim();

  it("commits everything to the agent's branch and reports what changed since the last push", async () => {
    const first = await deliver('!write a.txt one\n!write ü/b.txt two\n!push First step');
    expect(first.pushes).toEqual([
      { ref: 'muster/root-kid', commits: [git('rev-parse', 'HEAD')], files: ['a.txt', 'ü/b.txt'] },
    ]);
    expect(git('branch', '--show-current')).toBe('muster/root-kid');
    expect(git('log', '--format=%s %ae')).toBe('First step agent@muster.invalid');
    const second = await deliver('!run rm a.txt; echo c > c.txt\n!push');
    expect(second.pushes).toEqual([
      { ref: 'muster/root-kid', commits: [git('rev-parse', 'HEAD')], files: ['a.txt', 'c.txt'] },
    ]);
  });

  it('reports that there is nothing to push', async () => {
    const { pushes, items, result } = await deliver('!push');
    expect(pushes).toEqual([]);
    expect(texts(items, 'TOOL_RESULT')).toEqual(['nothing to push']);
    expect(result.type).toBe('done');
  });

  it('in a repository goes to its remote; the gateway reports it', async () => {
    const remote = join(folder, 'app.git');
    await mkdir(remote);
    execFileSync('git', ['-C', remote, 'init', '--quiet', '--bare']);
    git('init', '--quiet', '--initial-branch=muster/root-kid');
    const settings = [
      'user.name=a',
      'user.email=a@example.com',
      'push.default=current',
      `remote.origin.url=${remote}`,
    ];
    for (const setting of settings) git('config', ...setting.split('='));
    git('config', 'remote.origin.fetch', '+refs/heads/*:refs/remotes/origin/*');
    await writeFile(join(workspaceFolder, '.git', 'index.lock'), '');
    const others = { environment: {}, environmentVersion: '', vmProfile: {} };
    const workspace = { document: { repos: [remote] }, ...others };
    const { pushes, items } = await deliver('!write a.txt one\n!push First step\n!push', { workspace });
    const pushed = execFileSync('git', ['-C', remote, 'log', '--format=%H %s', 'muster/root-kid'], {
      encoding: 'utf8',
    });
    expect(pushed).toBe(`${git('rev-parse', 'HEAD')} First step\n`);
    expect(texts(items, 'TOOL_RESULT')).toEqual([
      'wrote a.txt',
      `pushed to ${remote}`,
      `nothing to push to ${remote}`,
    ]);
    expect(pushes).toEqual([]);
  });

  it('warns when git is not installed', async () => {
    vi.stubEnv('PATH', folder);
    const { items, result } = await deliver('!push');
    vi.unstubAllEnvs();
    expect(texts(items, 'WARNING')[0]).toContain('git');
    expect(result.type).toBe('done');
  });
});

describe('a turn without directives', () => {
  it('says what it was asked and completes its open tasks one by one', async () => {
    const calls: string[] = [];
    const tools: Partial<AgentTools> = {
      openTasks: async () => [
        { id: '1', subject: 'One', description: '', dedupKey: '', ephemeral: false },
        { id: '2', subject: 'Two', description: '> decline: no', dedupKey: '', ephemeral: false },
      ],
      startTask: async (id) => void calls.push(`start ${id}`),
      completeTask: async (id) => void calls.push(`done ${id}`),
    };
    const { result, items } = await deliver('Please tidy\nthe kitchen', {}, tools);
    expect(calls).toEqual(['start 1', 'done 1', 'start 2', 'done 2']);
    expect(texts(items, 'MESSAGE')[0]).toContain('Please tidy the kitchen');
    expect(result).toMatchObject({ type: 'done', response: 'Rehearsed: One, Two.' });
  });

  it('can be interrupted', async () => {
    const { session } = await open({}, {}, 600_000);
    const turn = session.deliver(message('Anything'));
    session.interrupt();
    expect(await turn).toMatchObject({ type: 'interrupted' });
  });
});

describe('stopping', () => {
  async function working(
    text: string,
  ): Promise<{ session: HarnessSession; turn: ReturnType<HarnessSession['deliver']> }> {
    const { session } = await open();
    const turn = session.deliver(message(text));
    await eventually(() => expect(existsSync(join(workspaceFolder, 'ready'))).toBe(true));
    return { session, turn };
  }

  it('ends a sleep, and keeps the response', async () => {
    const { session, turn } = await working('!say so far\n!run touch ready\n!sleep 600\n!say never');
    session.interrupt();
    expect(await turn).toEqual({ type: 'interrupted', response: 'so far' });
    expect(await session.deliver(message('more'))).toMatchObject({ type: 'interrupted' });
  });

  it.each([
    ['interrupt', 'sleep 600 & echo $! > pid; touch ready; wait'],
    ['interrupt', 'trap "" TERM; sleep 600 & echo $! > pid; touch ready; while :; do wait; done'],
    ['interrupt', 'trap "echo bye > bye; exit" TERM; sleep 600 & echo $! > pid; touch ready; wait'],
    ['kill', 'sleep 600 & echo $! > pid; touch ready; wait'],
  ] as const)('by %s ends the whole process group of: %s', async (how, command) => {
    const { session, turn } = await working(`!run ${command}\n!say never`);
    const pid = pidIn('pid');
    expect(isAlive(pid)).toBe(true);
    await session[how]();
    expect(await turn).toMatchObject({ type: 'interrupted' });
    expect(isAlive(pid)).toBe(false);
    if (command.includes('bye')) expect(existsSync(join(workspaceFolder, 'bye'))).toBe(true);
  });

  it('works before the turn has started', async () => {
    const { session, items } = await open();
    session.interrupt();
    expect(await session.deliver(message('!say x\n!run touch made'))).toEqual({
      type: 'interrupted',
      response: '',
    });
    expect(items).toEqual([]);
  });
});

const pidIn = (file: string): number => Number(readFileSync(join(workspaceFolder, file), 'utf8'));

/** Zombies count as dead. */
function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return (
      !existsSync('/proc/self/stat') || !/^\d+ \(.*\) Z/s.test(readFileSync(`/proc/${pid}/stat`, 'utf8'))
    );
  } catch {
    return false;
  }
}

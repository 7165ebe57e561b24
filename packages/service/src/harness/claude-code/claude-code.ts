import { randomUUID } from 'node:crypto';
import { lstatSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { EffortLevel, Options, SpawnedProcess, SpawnOptions } from '@anthropic-ai/claude-agent-sdk';
import { type AgentProcess, type Harness, modelsOf, readsProject, type Work } from '../harness.ts';
import { BoundedLines } from './bounded-lines.ts';
import { claudeEnvironment, tokenVariable } from './environment.ts';
import type { ClaudeCode } from './find.ts';
import { Input } from './input.ts';
import { Items } from './items.ts';
import { harnessModel, wireModel } from './models.ts';
import { type Output, outputOf } from './output-format.ts';
import { ClaudeSession } from './session.ts';

export { type ClaudeCode, findClaudeCode } from './find.ts';

const complaintLength = 2000;

/** Claude Code, by its SDK: one process per run, which is given its messages one at a time. */
export function claudeCodeHarness({ executable }: ClaudeCode, helperModel: string): Harness {
  // Loaded before there is a lease to keep: nothing else runs in this process meanwhile.
  const loading = import('@anthropic-ai/claude-agent-sdk');
  loading.catch(() => {});
  return {
    sessionFiles: (session) => [`.claude/projects/*/${session}.jsonl`, `.claude/projects/*/${session}`],
    providerOf: (claim) => ({
      name: 'anthropic',
      models: [...modelsOf(claim), helperModel].map(wireModel),
    }),
    open: async (work, listener) => {
      const { query } = await loading;
      work.signal.throwIfAborted();
      const session = work.resumes ? work.claim.session : randomUUID();
      listener.action('Starting Claude Code');
      listener.session(session);
      const program = new Program(work, executable);
      const input = new Input();
      const output = outputOf(work.claim.outputSchema);
      const options = {
        ...optionsOf(work, output, helperModel),
        ...(work.resumes ? { resume: session } : { sessionId: session }),
        pathToClaudeCodeExecutable: executable,
        spawnClaudeCodeProcess: (asked: SpawnOptions) => program.start(asked),
      };
      return new ClaudeSession({
        query: query({ prompt: input, options }),
        input,
        items: new Items(listener, work.workspaceFolder),
        output,
        process: () => program.process,
        complaint: () => program.complaint,
      });
    },
  };
}

function optionsOf(work: Work, output: Output | undefined, helperModel: string): Options {
  const { claim, endpoint } = work;
  const hasProject = readsProject(claim);
  const has = (...names: string[]) => hasProject && names.some((name) => isOwnFolder(work, '.claude', name));
  return {
    cwd: work.workspaceFolder,
    env: claudeEnvironment(work, helperModel),
    model: harnessModel(claim.model),
    ...(claim.reasoningEffort ? { effort: claim.reasoningEffort as EffortLevel } : {}),
    settings: {
      fastMode: claim.fastMode,
      cleanupPeriodDays: 36_500,
      ...(hasProject && { enableAllProjectMcpServers: true }),
    },
    permissionMode: 'bypassPermissions',
    allowDangerouslySkipPermissions: true,
    // Without `snapshot: false` a resumed session keeps the instructions that it began with.
    systemPrompt: { type: 'preset', preset: 'claude_code', append: work.instructions, snapshot: false },
    settingSources: hasProject ? ['project'] : [],
    tools: [
      ...['Bash', 'Read', 'Write', 'Edit', 'NotebookEdit', 'Glob', 'Grep'],
      ...(has('skills', 'commands') ? ['Skill'] : []),
      // Agents of its own are not seen from outside: only those that the repository defines.
      ...(has('agents') ? ['Agent'] : []),
    ],
    skills: hasProject ? 'all' : [],
    strictMcpConfig: !hasProject,
    mcpServers: {
      muster: {
        type: 'http',
        url: `${endpoint.url}/mcp`,
        // By its name, since this text becomes an argument of the process and can be seen by others.
        headers: { Authorization: `Bearer $\{${tokenVariable}}` },
        alwaysLoad: true,
      },
    },
    // A message is never a command of the harness, whatever it begins with.
    verbatimPrompts: true,
    ...(output ? { outputFormat: output.format } : {}),
  };
}

/** The agent may put links there, which must not tell it what is where on this machine. */
function isOwnFolder({ workspaceFolder }: Work, ...path: readonly string[]): boolean {
  return path.every((_, i) =>
    lstatSync(join(workspaceFolder, ...path.slice(0, i + 1)), { throwIfNoEntry: false })?.isDirectory(),
  );
}

/** The native program, started as one of the agent's own processes. */
class Program {
  readonly #work: Work;
  readonly #executable: string;
  process: AgentProcess | undefined;
  complaint = '';

  constructor(work: Work, executable: string) {
    this.#work = work;
    this.#executable = executable;
  }

  start({ command, args, env }: SpawnOptions): SpawnedProcess {
    const environment = Object.fromEntries(
      Object.entries(env).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
    );
    const started = this.#work.processes.start([...inItsFolders, command, ...args], {
      environment,
      reads: [dirname(this.#executable)],
    });
    this.process = started;
    const { child } = started;
    // A pipe whose reader has died is told by its exit, and must not bring the runner down.
    child.stdin.on('error', () => {});
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      this.complaint = `${this.complaint}${text}`.slice(-complaintLength);
    });
    const lines = new BoundedLines(() => void started.kill());
    child.stdout.once('close', () => lines.end()).pipe(lines);
    child.stdout = lines;
    return child;
  }
}

/** What is in the agent's home is the agent's: its folders are made from within its sandbox, not by the runner. */
const inItsFolders = [
  '/bin/sh',
  '-c',
  'mkdir -p "$TMPDIR" && mkdir -p -m 700 "$XDG_RUNTIME_DIR"; exec "$0" "$@"',
];

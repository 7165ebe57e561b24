import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type { ReportItem } from '@muster/sdk/contract';
import { messageOf } from '../../lib/message-of.ts';
import { type Repository, readRepos } from '../../lib/repositories.ts';
import type { HarnessListener, TurnResult, Work } from '../harness.ts';
import { sampleOutput } from '../output-schema.ts';
import type { Finished } from './command.ts';
import { type Directive, parseDirectives } from './directives.ts';
import { type PushOutcome, pushLocally } from './local-push.ts';
import { pushRepository } from './repository-push.ts';
import { writeWorkspaceFile } from './workspace-file.ts';

/** What a turn may do: the work, whom it tells, and the processes that its session watches over. */
export interface Stage {
  readonly work: Work;
  readonly listener: HarnessListener;
  readonly turnMs: number;
  readonly stopped: AbortSignal;
  readonly run: (argv: readonly string[], keepBytes: number) => Promise<Finished>;
}

const shownOutputBytes = 64 * 1024;
const gitOutputBytes = 8 * 1024 * 1024;

/** One turn of the rehearsal agent: it follows the directives in order, or without any rehearses its checklist. */
export class Turn {
  readonly #stage: Stage;
  #response = '';
  #finished = false;
  #output: unknown;
  #limitsSeen = 0;

  constructor(stage: Stage) {
    this.#stage = stage;
  }

  async perform(text: string): Promise<TurnResult> {
    const directives = parseDirectives(text);
    const isProse = directives.every(({ type }) => type === 'unknown');
    for (const directive of directives) {
      if (this.#stopped()) break;
      const end = await this.#follow(directive);
      if (end) return end;
    }
    if (isProse && !this.#stopped()) await this.#rehearse(text);
    if (this.#stopped()) return { type: 'interrupted', response: this.#response };
    if (this.#output === undefined) this.#output = await this.#smallestOutput();
    return {
      type: 'done',
      response: this.#response,
      structuredOutput: this.#output ?? null,
      finished: this.#finished,
    };
  }

  /** A result ends the turn; the lines behind it are not done. */
  async #follow(directive: Directive): Promise<TurnResult | undefined> {
    switch (directive.type) {
      case 'say':
        return this.#say(directive.text);
      case 'sleep':
        this.#stage.listener.action(`Sleeping ${directive.ms / 1000} s`);
        return this.#sleep(directive.ms);
      case 'run':
        return this.#run(directive.command);
      case 'write':
        return this.#write(directive.path, directive.text);
      case 'push':
        return this.#push(directive.message);
      case 'add-task':
        return this.#use('task', `add ${directive.subject}`, (t) => t.addTask(directive.subject));
      case 'complete-task':
        return this.#use('task', `done ${directive.task}`, (t) => t.completeTask(directive.task));
      case 'spawn':
        return this.#use('spawn', directive.name, (t) => t.spawnChild(directive.name, directive.description));
      case 'ask':
        return { type: 'done', response: this.#response || directive.question, question: directive.question };
      case 'finish':
        this.#finished = true;
        return directive.text ? this.#say(directive.text) : undefined;
      case 'output':
        this.#output = directive.value;
        return undefined;
      case 'usage':
        this.#stage.listener.usage(directive.usage);
        return undefined;
      case 'limit':
        return this.#limit(directive.ms);
      case 'fail':
        return { type: 'failed', code: 'REHEARSED_FAILURE', message: directive.message };
      case 'unknown':
        this.#stage.listener.item({ type: 'WARNING', text: directive.message });
        return undefined;
      case 'invalid':
        return { type: 'failed', code: 'INVALID_DIRECTIVE', message: directive.message };
    }
  }

  #say(text: string): undefined {
    this.#response = text;
    this.#stage.listener.item({ type: 'MESSAGE', text });
  }

  async #sleep(ms: number): Promise<undefined> {
    await pause(ms, undefined, { signal: this.#stage.stopped }).catch(() => {});
  }

  async #run(command: string): Promise<TurnResult | undefined> {
    const { listener } = this.#stage;
    listener.action(`Running ${command}`);
    listener.item({ type: 'TOOL_CALL', text: command, data: { tool: 'shell' } });
    try {
      const { output, exitCode, signal } = await this.#stage.run(
        ['/bin/sh', '-c', command],
        shownOutputBytes,
      );
      listener.item({ type: 'TOOL_RESULT', text: output, data: { tool: 'shell', exitCode, signal } });
    } catch (error) {
      listener.item({ type: 'TOOL_RESULT', text: messageOf(error), data: { tool: 'shell', error: true } });
    }
    return undefined;
  }

  async #write(path: string, text: string): Promise<TurnResult | undefined> {
    const { listener, work } = this.#stage;
    listener.item({ type: 'TOOL_CALL', text: path, data: { tool: 'write' } });
    try {
      await writeWorkspaceFile(work.workspaceFolder, path, `${text}\n`);
    } catch (error) {
      return { type: 'failed', code: 'INVALID_DIRECTIVE', message: `!write: ${messageOf(error)}` };
    }
    listener.item({ type: 'TOOL_RESULT', text: `wrote ${path}`, data: { tool: 'write' } });
    return undefined;
  }

  async #push(message: string): Promise<undefined> {
    const { listener, work } = this.#stage;
    const { agentId, branch, workspace } = work.claim;
    const whole = message || `Work of ${agentId.agent.join('/')}`;
    listener.action('Pushing');
    listener.item({ type: 'TOOL_CALL', text: message, data: { tool: 'push', branch } });
    try {
      const repos = readRepos(workspace.document);
      for (const repo of repos) await this.#pushRepository(repo, whole);
      if (repos.length === 0) await this.#pushLocally(whole);
    } catch (error) {
      if (!this.#stopped())
        listener.item({ type: 'WARNING', text: `Nothing was pushed: ${messageOf(error)}` });
    }
  }

  async #pushRepository({ path, shownUrl }: Repository, message: string): Promise<void> {
    const { listener, work, run } = this.#stage;
    const outcome = await pushRepository(
      { folder: join(work.workspaceFolder, path), run: (argv) => run(argv, gitOutputBytes) },
      message,
    );
    const text = outcome === 'pushed' ? `pushed to ${shownUrl}` : `nothing to push to ${shownUrl}`;
    listener.item({ type: 'TOOL_RESULT', text, data: { tool: 'push' } });
  }

  async #pushLocally(message: string): Promise<void> {
    const { listener, work, run } = this.#stage;
    const outcome = await pushLocally(
      {
        workspaceFolder: work.workspaceFolder,
        branch: work.claim.branch,
        run: (argv) => run(argv, gitOutputBytes),
      },
      message,
    );
    if (outcome.type === 'pushed') listener.push(outcome.push);
    listener.item(outcome.type === 'no-git' ? { type: 'WARNING', text: noGit } : pushResult(outcome));
  }

  /** A refused tool is something an agent is told, and goes on from; a batch tried twice spawns no child twice. */
  async #use(tool: string, text: string, call: (tools: Work['tools']) => Promise<void>): Promise<undefined> {
    const { listener, work } = this.#stage;
    listener.item({ type: 'TOOL_CALL', text, data: { tool } });
    try {
      await call(work.tools);
      listener.item({ type: 'TOOL_RESULT', text: 'done', data: { tool } });
    } catch (error) {
      listener.item({ type: 'TOOL_RESULT', text: messageOf(error), data: { tool, error: true } });
    }
  }

  /** The same batch comes again when the limit is over: its nth try finds n - 1 limits behind it. */
  #limit(ms: number): TurnResult | undefined {
    this.#limitsSeen += 1;
    if (this.#limitsSeen < this.#stage.work.claim.attempt) return undefined;
    return {
      type: 'parked',
      until: new Date(Date.now() + ms),
      message: `The provider refuses for ${ms / 1000} s.`,
    };
  }

  async #rehearse(text: string): Promise<void> {
    const { turnMs, work, listener } = this.#stage;
    this.#say(
      `Rehearsal: no model is behind this agent. I was asked: ${shorten(text) || 'nothing in particular'}`,
    );
    const tasks = await work.tools.openTasks().catch((error: unknown) => {
      listener.item({ type: 'WARNING', text: `The checklist could not be read: ${messageOf(error)}` });
      return [];
    });
    const stepMs = turnMs / (tasks.length + 1);
    for (const task of tasks) {
      if (this.#stopped()) return;
      listener.action(`Working on ${task.subject}`);
      await this.#use('task', `start ${task.subject}`, (t) => t.startTask(task.id));
      await this.#sleep(stepMs);
      if (this.#stopped()) return;
      await this.#use('task', `done ${task.subject}`, (t) => t.completeTask(task.id));
    }
    await this.#sleep(stepMs);
    if (this.#stopped()) return;
    this.#say(
      tasks.length > 0
        ? `Rehearsed: ${tasks.map((t) => t.subject).join(', ')}.`
        : 'Rehearsed. Nothing was on the checklist.',
    );
  }

  async #smallestOutput(): Promise<unknown> {
    const { work, listener } = this.#stage;
    if (work.claim.outputSchema === '') return null;
    const made = await sampleOutput(work.claim);
    if ('sample' in made) return JSON.parse(made.sample);
    listener.item({ type: 'WARNING', text: `No output was made for the schema: ${made.problem}` });
    return null;
  }

  #stopped(): boolean {
    return this.#stage.stopped.aborted;
  }
}

const noGit = 'Nothing was pushed: git is not installed where this agent runs.';

function pushResult(outcome: Exclude<PushOutcome, { type: 'no-git' }>): ReportItem {
  const text = outcome.type === 'pushed' ? `pushed ${outcome.push.commits.join(' ')}` : 'nothing to push';
  return { type: 'TOOL_RESULT', text, data: { tool: 'push' } };
}

function shorten(text: string): string {
  const line = text.replace(/\s+/g, ' ').trim();
  return line.length > 200 ? `${line.slice(0, 199)}…` : line;
}

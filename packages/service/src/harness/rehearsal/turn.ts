import { isAbsolute, join } from 'node:path';
import { setImmediate as nextTurn, setTimeout as pause } from 'node:timers/promises';
import { isThreadTask, type ReportItem } from '@muster/sdk/contract';
import { messageOf } from '../../lib/errors.ts';
import { sampleOutput } from '../../lib/output-schema/schema-worker.ts';
import { type Repository, readRepos } from '../../lib/repositories.ts';
import type { HarnessListener, OpenTask, StartOptions, TurnResult, Usage, Work } from '../harness.ts';
import { oneLine } from '../harness-text.ts';
import { PlanReporter, reportCompaction } from '../plan.ts';
import { type Directive, parseDirectives } from './directives.ts';
import { type CommandResult, pushLocally, pushRepository } from './push.ts';

export interface TurnOptions {
  readonly work: Work;
  readonly listener: HarnessListener;
  readonly turnMs: number;
  readonly stopped: AbortSignal;
  readonly run: (argv: readonly string[], options: CommandOptions) => Promise<CommandResult>;
}

export interface CommandOptions extends Pick<StartOptions, 'gateway'> {
  /** Of the output that is kept. */
  readonly mostBytes: number;
  /** What it reads; nothing if absent. */
  readonly input?: string;
  /** Gets what the command prints as it does. */
  readonly onOutput?: (text: string) => void;
}

const shownOutputBytes = 64 * 1024;
const gitOutputBytes = 8 * 1024 * 1024;

const linkExitCode = 3;

/**
 * Writes its input to a file, and makes the folders above it. Another process of the agent may replace a folder by a link
 * after the check for links, so the sandbox is what keeps this process inside.
 */
const writeScript = `set -f; IFS=/
for name in $1; do
  at=\${at:-.}/$name
  [ ! -L "$at" ] || exit ${linkExitCode}
done
file=./$1
mkdir -p "\${file%/*}" || exit 1
[ ! -e "$file" ] || [ -f "$file" ] || { echo 'it is not a file'; exit 1; }
exec cat > "$file"`;

/** One turn of the rehearsal agent: it follows the directives in order; without any it completes its tasks. */
export class Turn {
  readonly #options: TurnOptions;
  readonly #plan: PlanReporter;
  #response = '';
  #finished = false;
  #output: unknown;
  #limits = 0;
  #commands = 0;
  /** Messages that came during the turn; undefined when it does not run. */
  #steers: { readonly text: string; readonly resolve: (isTaken: boolean) => void }[] | undefined;

  constructor(options: TurnOptions) {
    this.#options = options;
    this.#plan = new PlanReporter(options.listener);
  }

  async perform(text: string): Promise<TurnResult> {
    this.#steers = [];
    try {
      const end = (await this.#followMessage(text)) ?? (await this.#followSteers());
      if (end) return end;
    } finally {
      for (const { resolve } of this.#steers) resolve(false);
      this.#steers = undefined;
    }
    if (this.#stopped()) return { type: 'interrupted', response: this.#response };
    if (this.#output === undefined) this.#output = await this.#smallestOutput();
    return {
      type: 'done',
      response: this.#response,
      structuredOutput: this.#output ?? null,
      finished: this.#finished,
    };
  }

  /** Resolves to true when the agent begins to follow the message, after what it was asked before. */
  async steer(text: string): Promise<boolean> {
    return new Promise((resolve) => {
      if (this.#steers === undefined) resolve(false);
      else this.#steers.push({ text, resolve });
    });
  }

  async #followMessage(text: string): Promise<TurnResult | undefined> {
    const directives = parseDirectives(text);
    const isProse = directives.every(({ type }) => type === 'unknown');
    const end = await this.#followAll(directives, this.#skippable(directives.length));
    if (!end && isProse && !this.#stopped()) await this.#rehearse(text);
    return end;
  }

  async #followSteers(): Promise<TurnResult | undefined> {
    while (!this.#stopped()) {
      const steer = this.#steers?.shift();
      if (steer === undefined) return undefined;
      steer.resolve(true);
      // The runner reports that the message was taken: with that its tasks join the checklist.
      await nextTurn();
      const directives = parseDirectives(steer.text);
      if (directives.length === 0) this.#say(`Rehearsal: I was also told: ${oneLine(steer.text)}`);
      const end = await this.#followAll(directives);
      if (end) return end;
    }
    return undefined;
  }

  /**
   * How many of these directives are skipped if they are invalid: an agent that was blocked by one continues after a retry,
   * and after another message.
   */
  #skippable(count: number): number {
    const { attempt, messages } = this.#options.work.claim;
    const earlier = messages.slice(0, -1).flatMap(({ text }) => parseDirectives(text));
    return attempt > 1 ? count : earlier.length;
  }

  async #followAll(directives: readonly Directive[], skippable = 0): Promise<TurnResult | undefined> {
    for (const [index, directive] of directives.entries()) {
      if (this.#stopped()) return undefined;
      const end = await this.#follow(directive);
      const isInvalid = end?.type === 'failed' && end.code === 'INVALID_DIRECTIVE';
      if (isInvalid && index < skippable) this.#item('WARNING', `${end.message} (skipped)`);
      else if (end) return end;
    }
    return undefined;
  }

  /** A result ends the turn; the directives after it are skipped. */
  async #follow(directive: Directive): Promise<TurnResult | undefined> {
    switch (directive.type) {
      case 'say':
        return this.#say(directive.text);
      case 'sleep':
        this.#options.listener.action(`Sleeping ${directive.ms / 1000} s`);
        return this.#sleep(directive.ms);
      case 'run':
        return this.#run(directive.text);
      case 'write':
        return this.#write(directive.path, directive.text);
      case 'push':
        return this.#push(directive.text);
      case 'add-task':
        return this.#use('task', `add ${directive.text}`, (t) => t.addTask(directive.text));
      case 'complete-task':
        return this.#use('task', `done ${directive.text}`, (t) => t.completeTask(directive.text));
      case 'spawn':
        return this.#use('spawn', directive.name, (t) => t.spawnChild(directive.name, directive.description));
      case 'ask':
        return { type: 'done', response: this.#response || directive.text, question: directive.text };
      case 'finish':
        this.#finished = true;
        return directive.text ? this.#say(directive.text) : undefined;
      case 'output':
        this.#output = directive.value;
        return undefined;
      case 'usage':
        return this.#spend(directive.usage);
      case 'plan':
        this.#plan.update(directive.steps);
        return undefined;
      case 'compact':
        reportCompaction(this.#options.listener, directive.beforeTokens, directive.afterTokens);
        this.#options.listener.context({ usedTokens: directive.afterTokens, windowTokens: 0 });
        return undefined;
      case 'context':
        this.#options.listener.context(directive.context);
        return undefined;
      case 'limit':
        return this.#limit(directive.ms);
      case 'fail':
        return { type: 'failed', code: 'REHEARSED_FAILURE', message: directive.text };
      case 'unknown':
        return this.#item('WARNING', directive.text);
      case 'invalid':
        return { type: 'failed', code: 'INVALID_DIRECTIVE', message: directive.text };
    }
  }

  #say(text: string): undefined {
    this.#response = text;
    this.#item('MESSAGE', text);
  }

  #item(type: ReportItem['type'], text: string, data?: ReportItem['data']): undefined {
    this.#options.listener.item({ type, text, data });
  }

  async #sleep(ms: number): Promise<undefined> {
    await pause(ms, undefined, { signal: this.#options.stopped }).catch(() => {});
  }

  async #run(command: string): Promise<undefined> {
    const { listener, run } = this.#options;
    listener.action(`Running ${command}`);
    this.#commands += 1;
    const key = `${this.#options.work.claim.runId}/${this.#commands}`;
    this.#item('TOOL_CALL', command, { tool: 'shell', id: key });
    const data = { tool: 'shell', id: key, key };
    const onOutput = (text: string) => listener.partial({ key, type: 'TOOL_RESULT', text });
    try {
      const options = { mostBytes: shownOutputBytes, onOutput };
      const { output, exitCode, signal } = await run(['/bin/sh', '-c', command], options);
      this.#item('TOOL_RESULT', output, { ...data, exitCode, signal });
    } catch (error) {
      this.#item('TOOL_RESULT', messageOf(error), { ...data, error: true });
    }
  }

  async #write(path: string, text: string): Promise<TurnResult | undefined> {
    this.#item('TOOL_CALL', path, { tool: 'write' });
    const problem = await this.#writeFile(path, `${text}\n`).catch(messageOf);
    if (this.#stopped()) return undefined;
    if (problem) return { type: 'failed', code: 'INVALID_DIRECTIVE', message: `!write: ${problem}` };
    return this.#item('TOOL_RESULT', `wrote ${path}`, { tool: 'write' });
  }

  /** Returns why it could not be written; empty if it was. */
  async #writeFile(path: string, input: string): Promise<string> {
    const outside = `"${path}" is not a path inside the workspace`;
    if (isAbsolute(path) || path.split('/').includes('..') || path.includes('\0')) return outside;
    const options = { mostBytes: shownOutputBytes, input, gateway: 'never' } as const;
    const { exitCode, output } = await this.#options.run(['/bin/sh', '-c', writeScript, 'sh', path], options);
    if (exitCode === linkExitCode) return outside;
    return exitCode === 0 ? '' : `"${path}" could not be written: ${oneLine(output)}`;
  }

  async #push(message: string): Promise<undefined> {
    const { listener, work } = this.#options;
    const { agentId, branch, workspace } = work.claim;
    const commitMessage = message || `Work of ${agentId.agent.join('/')}`;
    listener.action('Pushing');
    this.#item('TOOL_CALL', message, { tool: 'push', branch });
    try {
      const repos = readRepos(workspace.document);
      for (const repo of repos) await this.#pushRepository(repo, commitMessage);
      if (repos.length === 0) await this.#pushLocally(commitMessage);
    } catch (error) {
      if (!this.#stopped()) this.#item('WARNING', `Nothing was pushed: ${messageOf(error)}`);
    }
  }

  async #pushRepository({ path, shownUrl }: Repository, message: string): Promise<void> {
    const folder = join(this.#options.work.workspaceFolder, path);
    const outcome = await pushRepository(this.#runGit, folder, message);
    const text = outcome === 'pushed' ? `pushed to ${shownUrl}` : `nothing to push to ${shownUrl}`;
    this.#item('TOOL_RESULT', text, { tool: 'push' });
  }

  async #pushLocally(message: string): Promise<void> {
    const { listener, work } = this.#options;
    if ((await this.#runGit(['git', '--version'])).exitCode !== 0)
      return this.#item('WARNING', 'Nothing was pushed: git is not installed.');
    const { workspaceFolder, claim } = work;
    const pushed = await pushLocally(this.#runGit, { workspaceFolder, branch: claim.branch }, message);
    if (pushed) {
      listener.push(pushed.push);
      listener.diff(pushed.diff);
    }
    const text = pushed ? `pushed ${pushed.push.commits.join(' ')}` : 'nothing to push';
    this.#item('TOOL_RESULT', text, { tool: 'push' });
  }

  readonly #runGit = (argv: readonly string[]): Promise<CommandResult> =>
    this.#options.run(argv, { mostBytes: gitOutputBytes });

  /** An error of a tool does not end the turn: when a batch is retried, its children exist already. */
  async #use(tool: string, text: string, call: (tools: Work['tools']) => Promise<void>): Promise<undefined> {
    this.#item('TOOL_CALL', text, { tool });
    try {
      await call(this.#options.work.tools);
      this.#item('TOOL_RESULT', 'done', { tool });
    } catch (error) {
      this.#item('TOOL_RESULT', messageOf(error), { tool, error: true });
    }
  }

  /** The batch is retried after the limit: the nth attempt skips the first n - 1 limits. */
  #limit(ms: number): TurnResult | undefined {
    this.#limits += 1;
    if (this.#limits < this.#options.work.claim.attempt) return undefined;
    return {
      type: 'parked',
      until: new Date(Date.now() + ms),
      message: `The provider refuses requests for ${secondsText(ms / 1000)}.`,
    };
  }

  /** As a request to a model is reserved and settled. */
  async #spend(usage: Usage): Promise<TurnResult | undefined> {
    const { work, listener, stopped } = this.#options;
    const reserved = await work.credit.reserve(usage.costUsd, '', stopped);
    if (!reserved) return undefined;
    if ('refusal' in reserved)
      return { type: 'parked', until: new Date(), message: reserved.refusal, isBudget: true };
    listener.usage(usage);
    reserved.settle(usage.costUsd);
    return undefined;
  }

  async #rehearse(text: string): Promise<void> {
    const { turnMs, work, listener } = this.#options;
    this.#say(`Rehearsal: this agent has no model. I was asked: ${oneLine(text) || 'nothing in particular'}`);
    const tasks = await work.tools.openTasks().catch((error: unknown) => {
      this.#item('WARNING', `The checklist could not be read: ${messageOf(error)}`);
      return [];
    });
    const stepMs = turnMs / (tasks.length + 1);
    for (const task of tasks) {
      if (this.#stopped()) return;
      listener.action(`Working on ${task.subject}`);
      await this.#use('task', `start ${task.subject}`, (t) => t.startTask(task.id));
      await this.#sleep(stepMs);
      if (this.#stopped()) return;
      const reason = declineReason(task);
      if (reason) await this.#use('task', `decline ${task.subject}`, (t) => t.declineTask(task.id, reason));
      else await this.#use('task', `done ${task.subject}`, (t) => t.completeTask(task.id));
    }
    await this.#sleep(stepMs);
    if (this.#stopped()) return;
    this.#say(
      tasks.length > 0
        ? `Rehearsed: ${tasks.map((t) => t.subject).join(', ')}.`
        : 'Rehearsed. The checklist has no open tasks.',
    );
  }

  async #smallestOutput(): Promise<unknown> {
    const { claim } = this.#options.work;
    if (claim.outputSchema === '') return null;
    const sampled = await sampleOutput(claim);
    if ('sample' in sampled) return JSON.parse(sampled.sample);
    this.#item('WARNING', `No output for the schema: ${sampled.problem}`);
    return null;
  }

  #stopped(): boolean {
    return this.#options.stopped.aborted;
  }
}

/** The last comment of a review thread may ask for a refusal: `decline: REASON` in a separate line. */
function declineReason(task: OpenTask): string {
  if (!isThreadTask(task)) return '';
  const lastComment = task.description.split(/\n(?!>)/).at(-1) ?? '';
  return /^> decline: *(\S.*)$/m.exec(lastComment)?.[1] ?? '';
}

/** `90 seconds`, `47 minutes`, `3 hours`. */
function secondsText(seconds: number): string {
  const [size, name] = seconds >= 7200 ? [3600, 'hours'] : seconds >= 120 ? [60, 'minutes'] : [1, 'seconds'];
  return `${Math.round(seconds / size)} ${name}`;
}

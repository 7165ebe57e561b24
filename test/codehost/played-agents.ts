import { type Claim, isOpenTask, isThreadTask, type Task } from '@muster/sdk/contract';
import { parseDirectives } from '../../packages/service/src/harness/rehearsal/directives.ts';
import type { Api } from '../support/api.ts';
import { type FakeRunner, newFakeRunner } from '../support/fake-runner.ts';
import type { FakeGithub } from './github.ts';

/**
 * Plays the turns of a tenant's agents as the rehearsal harness does, by the runner protocol. A real runner starts dozens
 * of processes for each turn; tests of what the service makes of a push or an answer do not need them.
 */
export class PlayedAgents {
  readonly #host: FakeGithub;
  readonly #api: Api;
  readonly #runner: FakeRunner;
  #isStopped = false;
  /** The URL of the repository in the workspace. */
  gitUrl: string;
  /** What happens before the next turn ends. */
  beforeEnd: (() => Promise<void>) | undefined;

  private constructor(host: FakeGithub, api: Api, runner: FakeRunner) {
    this.#host = host;
    this.gitUrl = host.gitUrl;
    this.#api = api;
    this.#runner = runner;
  }

  static async start(host: FakeGithub, api: Api): Promise<PlayedAgents> {
    const agents = new PlayedAgents(host, api, await newFakeRunner(api));
    agents.#playAll().catch((error: unknown) => {
      if (!agents.#isStopped) throw error;
    });
    return agents;
  }

  /** From now on, turns do not end. */
  stop(): void {
    this.#isStopped = true;
  }

  async #playAll(): Promise<void> {
    while (!this.#isStopped) {
      const { body } = await this.#runner.poll({ waitMs: 20_000 });
      for (const claim of body.claims) if (!this.#isStopped) await this.#play(claim);
    }
  }

  async #play(claim: Claim): Promise<void> {
    await this.#runner.started(claim);
    const directives = parseDirectives(claim.messages.map(({ text }) => text).join('\n'));
    const files: Record<string, string> = {};
    let response = '';
    for (const directive of directives) {
      if (directive.type === 'write') files[directive.path] = `${directive.text}\n`;
      else if (directive.type === 'push') await this.#push(claim, files);
      else if (directive.type === 'say' || directive.type === 'finish') response = directive.text;
      else throw new Error(`${directive.type} can't be played`);
    }
    if (directives.length === 0) await this.#work(claim);
    await this.beforeEnd?.();
    this.beforeEnd = undefined;
    const finished = directives.some(({ type }) => type === 'finish');
    await this.#runner.end(claim, 'COMPLETED', { response, finished });
  }

  async #push(claim: Claim, files: Readonly<Record<string, string>>): Promise<void> {
    const { remote, server, token } = this.#host;
    const from = remote.refs().includes(claim.branch) ? claim.branch : 'main';
    const commit = remote.commit(claim.branch, files, from);
    await server.mirror(token);
    const push = {
      repo: this.gitUrl,
      ref: claim.branch,
      tip: commit,
      commits: [commit],
      files: Object.keys(files),
    };
    await this.#runner.report(claim, { pushes: [push] });
  }

  /** Completes the tasks, and declines those whose last comment asks for that. */
  async #work({ agentId, token }: Claim): Promise<void> {
    const api = this.#api.as(token);
    const { body } = await api.post<{ tasks: Task[] }>('/v1/agent/tasks', { agentId });
    for (const task of body.tasks.filter(isOpenTask)) {
      const note = isThreadTask(task) ? /^> decline: *(\S.*)$/m.exec(lastCommentOf(task))?.[1] : undefined;
      const change = note ? { status: 'TASK_STATUS_DELETED', note } : { status: 'TASK_STATUS_COMPLETED' };
      await api.post('/v1/agent/tasks/update', { agentId, id: task.id, ...change });
    }
  }
}

const lastCommentOf = ({ description }: Task): string => description.split(/\n(?!>)/).at(-1) ?? '';

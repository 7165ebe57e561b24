import type {
  AgentId,
  AgentStatus,
  EntryType,
  ReplyOf,
  Run,
  SpawnReply,
  Task,
  TimelineEntry,
} from '@muster/sdk/contract';
import type { Answer, Api } from './api.ts';

export type Fields = Record<string, unknown>;

/** The agents of one workspace, by `root/child` paths. Every method but `send` expects the request to be accepted. */
export class Agents {
  readonly api: Api;
  readonly workspace: string;

  constructor(api: Api, workspace: string) {
    this.api = api;
    this.workspace = workspace;
  }

  id(path: string) {
    return { workspace: this.workspace, agent: path.split('/') };
  }

  /** Any agent-scoped route: `t.send('agent/kill', 'root')`. */
  send<T = Fields>(route: string, path: string, more: Fields = {}): Promise<Answer<T>> {
    return this.api.post<T>(`/v1/${route}`, { agentId: this.id(path), ...more });
  }

  async #sent<T>(route: string, path: string, more: Fields = {}): Promise<T> {
    return accepted(`${route} of ${path}`, await this.send<T>(route, path, more));
  }

  spawn(path: string, more: Fields = {}): Promise<SpawnReply> {
    return this.#sent('agent/spawn', path, { description: 'work', model: 'rehearsal-a', ...more });
  }

  /** Queues a follow-up; a string is its description. */
  async queue(path: string, message: string | Fields): Promise<string> {
    const fields = typeof message === 'string' ? { description: message } : message;
    return (await this.#sent<{ followUpId: string }>('agent/queue', path, fields)).followUpId;
  }

  async remove(path: string, followUpId: string): Promise<boolean> {
    return (await this.#sent<{ removed: boolean }>('agent/queue/remove', path, { followUpId })).removed;
  }

  async clear(path: string): Promise<number> {
    return (await this.#sent<{ cleared: number }>('agent/clear-follow-ups', path)).cleared;
  }

  async kill(path: string): Promise<void> {
    await this.#sent('agent/kill', path);
  }

  async stop(path: string, runId: number | string, mode = 'INTERRUPT'): Promise<void> {
    await this.#sent('agent/stop-turn', path, { runId, mode: `STOP_TURN_MODE_${mode}` });
  }

  status(path: string): Promise<AgentStatus> {
    return this.#sent('agent/status', path);
  }

  /** Blocks until the agent needs attention. */
  wait(path: string): Promise<AgentStatus> {
    return this.#sent('agent/wait', path);
  }

  /** Phase and reason in one word: `WAITING_FOR_INPUT/RESTING`. */
  async phase(path: string): Promise<string> {
    const { phase, phaseReason } = await this.status(path);
    return `${phase.slice('PHASE_'.length)}/${phaseReason}`;
  }

  async tasks(path: string): Promise<Task[]> {
    return (await this.#sent<{ tasks: Task[] }>('agent/tasks', path)).tasks;
  }

  async addTasks(path: string, ...tasks: Fields[]): Promise<Task[]> {
    return (await this.#sent<{ tasks: Task[] }>('agent/tasks/create', path, { tasks })).tasks;
  }

  /** Newest first. */
  async runs(path: string): Promise<Run[]> {
    return (await this.#sent<{ runs: Run[] }>('agent/runs', path)).runs;
  }

  /** The whole timeline, or the entries of these types. */
  async timeline(path: string, ...types: EntryType[]): Promise<TimelineEntry[]> {
    const all: TimelineEntry[] = [];
    for (;;) {
      const { entries, more } = await this.#sent<ReplyOf<'timeline'>>('agent/timeline', path, {
        afterSequence: all.at(-1)?.sequence ?? '0',
        limit: 1000,
      });
      all.push(...entries);
      if (!more) break;
    }
    return types.length === 0 ? all : all.filter(({ type }) => types.includes(type));
  }
}

export function accepted<T>(what: string, answer: Answer<T>): T {
  if (answer.status !== 200) throw new Error(`${what}: ${answer.status} ${JSON.stringify(answer.body)}`);
  return answer.body;
}

export const inMs = (ms: number): string => new Date(Date.now() + ms).toISOString();
export const inAnHour = (): string => inMs(3_600_000);

/** Requests that name their agent by an id that may be incomplete; `spawned` expects success. */
export function requestsById(api: Api) {
  const spawn = (agentId: Fields, by = api) =>
    by.post<SpawnReply>('/v1/agent/spawn', { agentId, description: 'x' });
  return {
    spawn,
    status: (agentId: Fields, by = api) => by.post<AgentStatus>('/v1/agent/status', { agentId }),
    kill: (agentId: Fields) => api.post('/v1/agent/kill', { agentId }),
    spawned: async (agentId: Fields, by = api): Promise<AgentId> =>
      accepted('spawn', await spawn(agentId, by)).agentId,
  };
}

import type { ChangeRequest, Thread, TimelineEntry } from '@muster/sdk/contract';
import type { FakeGithub } from './github.ts';
import { until } from './patience.ts';
import type { PlayedAgents } from './played-agents.ts';
import type { Scenario } from './scenario.ts';

/** An agent that an issue has triggered, and what people do with it. */
export class TriggeredAgent {
  readonly host: FakeGithub;
  readonly scenario: Scenario;
  readonly played: PlayedAgents;

  constructor(host: FakeGithub, scenario: Scenario, played: PlayedAgents) {
    this.host = host;
    this.scenario = scenario;
    this.played = played;
  }

  static async start(host: FakeGithub, scenario: Scenario, played: PlayedAgents): Promise<TriggeredAgent> {
    await scenario.steps[0]?.[1]();
    return new TriggeredAgent(host, scenario, played);
  }

  push(text: string): Promise<void> {
    return this.scenario.tell(`!write a.txt ${text}\n!push Write ${text}\n!say Wrote ${text}.`);
  }

  opened(): Promise<ChangeRequest> {
    return this.scenario.untilRequest('an open one', ({ state }) => state === 'OPEN');
  }

  atRest() {
    return this.scenario.untilAgent('rest', ({ phase }) => phase === 'PHASE_WAITING_FOR_INPUT');
  }

  async messages(): Promise<string[]> {
    const { body } = await this.scenario.api.post<{ entries: TimelineEntry[] }>('/v1/agent/timeline', {
      agentId: this.scenario.agentId,
      types: ['FOLLOW_UP_QUEUED'],
    });
    return body.entries.map(({ text }) => text);
  }

  /** Has its change request compared with the host, and waits for it. */
  async compare(): Promise<ChangeRequest> {
    const { scenario } = this;
    const before = await scenario.untilRequest('a change request', () => true);
    await until(
      'a comparison on demand',
      () => scenario.api.post('/v1/change-requests/sync', { name: before.name }),
      ({ status }) => status === 200,
    );
    return scenario.untilRequest('a comparison', ({ updatedAt }) => updatedAt > before.updatedAt);
  }

  async warnings(): Promise<string[]> {
    const { body } = await this.scenario.api.post<{ entries: TimelineEntry[] }>('/v1/agent/timeline', {
      agentId: this.scenario.agentId,
      types: ['WARNING'],
    });
    return body.entries.map(({ text }) => text);
  }

  async threads(): Promise<Thread[]> {
    const { body } = await this.scenario.api.post<{ threads: Thread[] }>('/v1/agent/threads', {
      agentId: this.scenario.agentId,
      pageSize: 100,
    });
    return body.threads;
  }

  untilTold(text: RegExp, times = 1): Promise<string[]> {
    return until(
      `${times} messages with ${text}`,
      async () => (await this.messages()).filter((message) => text.test(message)),
      (found) => found.length >= times,
    );
  }

  open(more: Record<string, unknown> = {}) {
    return this.scenario.api.post<{ changeRequest: ChangeRequest }>('/v1/agent/change-request', {
      agentId: this.scenario.agentId,
      ...more,
    });
  }
}

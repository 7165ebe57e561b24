import { afterAll, beforeAll, it, type TestContext } from 'vitest';
import { type Server, startServer } from '../support/server.ts';
import { FakeGithub } from './github.ts';
import { longTestMs } from './patience.ts';
import { PlayedAgents } from './played-agents.ts';
import { envFor, type IntegrationFields, Scenario } from './scenario.ts';
import { TriggeredAgent } from './triggered-agent.ts';

type OnTestFinished = TestContext['onTestFinished'];

/** Tests of a file with one service: all run at the same time, each with an agent and a host of its own. */
export class LifeTests {
  readonly #free: FakeGithub[] = [];
  #server: Server | undefined;

  constructor(tests: number, env: Readonly<Record<string, string>> = {}) {
    beforeAll(async () => {
      for (let i = 0; i < tests; i++) this.#free.push(await FakeGithub.start());
      this.#server = await startServer({ env: { ...envFor(...this.#free), ...env }, runner: false });
    }, longTestMs);
    afterAll(async () => {
      await this.#server?.close();
      for (const host of this.#free) await host.stop();
    });
  }

  readonly test = (name: string, run: (context: TestContext) => Promise<void>): void =>
    it.concurrent(name, run, longTestMs);

  /** A host, an integration with it, and a runner that plays its agents. */
  async start(
    onTestFinished: OnTestFinished,
    fields: IntegrationFields = {},
  ): Promise<{ host: FakeGithub; scenario: Scenario; played: PlayedAgents }> {
    const host = this.#free.pop();
    if (!host) throw new Error('more tests than hosts');
    const scenario = await Scenario.start(host, fields, this.#server);
    const played = await PlayedAgents.start(host, scenario.api);
    onTestFinished(async () => {
      played.stop();
      await scenario.close();
    });
    return { host, scenario, played };
  }

  async triggeredAgent(onTestFinished: OnTestFinished, fields?: IntegrationFields): Promise<TriggeredAgent> {
    const { host, scenario, played } = await this.start(onTestFinished, fields);
    return TriggeredAgent.start(host, scenario, played);
  }

  /** An agent with an open change request. */
  async openRequest(onTestFinished: OnTestFinished): Promise<{ agent: TriggeredAgent; number: number }> {
    const agent = await this.triggeredAgent(onTestFinished);
    await agent.push('hello');
    const { number } = await agent.opened();
    await agent.atRest();
    return { agent, number };
  }
}

import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Claim } from '@muster/sdk/contract';
import type { Usage } from '../../packages/service/src/harness/harness.ts';
import type { OpenEndpoint } from '../../packages/service/src/runner/gateway/gateway.ts';
import { RunCredit } from '../../packages/service/src/runner/gateway/run-credit.ts';
import { accepted } from '../support/agents.ts';
import { until } from '../support/async.ts';
import type { FakeRunner } from '../support/fake-runner.ts';
import { ask, ended, eventStream, started, stream, type testGateway } from '../support/test-gateway.ts';

const model = 'claude-opus-4-8';
const maxTokens = 20_000;
const usdPerToken = { input: 5e-6, cachedInput: 0.5e-6, output: 25e-6 };

/** What an answer of the provider costs; see `started`. */
const costOf = (outputTokens: number): number =>
  100 * usdPerToken.input + 900 * usdPerToken.cachedInput + outputTokens * usdPerToken.output;
/** What is reserved for a request, roughly. */
export const requestUsd = costOf(maxTokens);

/** A provider that counts what each agent has spent, by the text of its messages. */
export class CountingProvider {
  readonly spentUsd = new Map<string, number>();
  readonly #outputTokens: () => number;

  /** `outputFactor`: how much of the limit of a request an answer has. */
  constructor(outputFactor: () => number) {
    this.#outputTokens = () => Math.round(maxTokens * outputFactor());
  }

  answer(body: string, response: ServerResponse): void {
    const { messages } = JSON.parse(body) as { messages: { content: string }[] };
    const by = messages[0]?.content ?? '';
    const tokens = this.#outputTokens();
    this.spentUsd.set(by, (this.spentUsd.get(by) ?? 0) + costOf(tokens));
    const [delta, stop] = ended;
    const used = { ...delta, type: 'message_delta', usage: { output_tokens: tokens } };
    response.writeHead(200, eventStream);
    response.end(stream(started(model), used, stop ?? { type: 'message_stop' }));
  }

  /** Of all agents whose text begins with this. */
  totalOf(prefix: string): number {
    return [...this.spentUsd].reduce((sum, [by, usd]) => (by.startsWith(prefix) ? sum + usd : sum), 0);
  }
}

/** The text of each request is kept for the provider of its prefix: races run at the same time. */
export const answerBy =
  (
    providers: ReadonlyMap<string, CountingProvider>,
    seen: readonly { request: IncomingMessage; body: string }[],
  ) =>
  (request: IncomingMessage, response: ServerResponse): void => {
    const body = seen.findLast((one) => one.request === request)?.body ?? '';
    for (const [prefix, provider] of providers)
      if (body.includes(`"${prefix}`)) return provider.answer(body, response);
    response.writeHead(500).end();
  };

/** A live run whose model requests go through a real gateway, with its credit of the service. */
export class SpendingRun {
  readonly claim: Claim;
  readonly #runner: FakeRunner;
  readonly #text: string;
  #endpoint: OpenEndpoint | undefined;
  #reports: Promise<unknown> = Promise.resolve();
  #reported = 0;
  isRefused = false;

  private constructor(runner: FakeRunner, claim: Claim, text: string) {
    this.#runner = runner;
    this.claim = claim;
    this.#text = text;
  }

  static async open(
    gateway: Pick<ReturnType<typeof testGateway>, 'open'>,
    runner: FakeRunner,
    claim: Claim,
    text: string,
  ): Promise<SpendingRun> {
    const run = new SpendingRun(runner, claim, text);
    const credit = new RunCredit(async ({ upToUsd, ...more }) =>
      accepted('credit', await runner.credit(claim, upToUsd, more)),
    );
    const listener = {
      usage: (usage: Usage) => run.#report({ usage: sent(usage) }),
      item: () => {},
      action: () => {},
    };
    run.#endpoint = await gateway.open({ credit, listener });
    run.#report({ started: true });
    return run;
  }

  /** As a runner does, it repeats a report until it is answered. */
  #report(fields: Record<string, unknown>): void {
    this.#reported += 1;
    const number = this.#reported;
    this.#reports = this.#reports.then(() =>
      until(
        `the reply to report ${number} of ${this.#text}`,
        () => this.#runner.report(this.claim, fields, number).catch(() => undefined),
        (answer) => answer?.status === 200,
      ),
    );
  }

  /** Sends this many requests, `width` at a time, until one is refused. */
  async work(requests: number, width: number): Promise<void> {
    const endpoint = this.#endpoint as OpenEndpoint;
    const body = JSON.stringify({
      ...{ model, max_tokens: maxTokens, stream: true },
      messages: [{ role: 'user', content: this.#text }],
    });
    let left = requests;
    const worker = async () => {
      while (left > 0 && !this.isRefused) {
        left -= 1;
        const answer = await ask(endpoint, '/anthropic/v1/messages', { body });
        await answer.text();
        this.isRefused ||= !answer.ok;
      }
    };
    await Promise.all(Array.from({ length: width }, worker));
  }

  /** Resolves when all that was used is known to the service. */
  async reported(): Promise<void> {
    await this.#reports;
  }

  async end(): Promise<void> {
    this.#report({
      end: this.isRefused
        ? { outcome: 'PARKED', limitUntil: new Date().toISOString() }
        : { outcome: 'COMPLETED' },
    });
    await this.#reports;
  }
}

const sent = ({ costUsd, inputTokens, cachedInputTokens, outputTokens }: Usage) => ({
  ...{ costUsd, inputTokens, cachedInputTokens, outputTokens },
});

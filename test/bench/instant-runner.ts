import { randomUUID } from 'node:crypto';
import { post, type Service } from './tools.ts';

interface Claim {
  agentKey: string;
  runId: number;
  agentId: { agent: string[] };
}

/** A runner that ends every run immediately and records when it was claimed. */
export class InstantRunner {
  readonly claimedAt = new Map<string, number>();
  readonly #service: Pick<Service, 'url' | 'key'>;
  readonly #runnerId = randomUUID();
  #isOn = true;
  #polls = 0;
  #runs: { agentKey: string; runId: number }[] = [];

  constructor(service: Pick<Service, 'url' | 'key'>) {
    this.#service = service;
  }

  async run(): Promise<void> {
    while (this.#isOn) await this.poll({ real: 8, rehearsed: 256 }, 1_000);
  }

  /** Polls once and ends what it got. */
  async poll(
    free: { real: number; rehearsed: number },
    waitMs: number,
  ): Promise<{ claims: number; tookMs: number }> {
    this.#polls += 1;
    const sentAt = performance.now();
    const { claims } = await post<{ claims: Claim[] }>(this.#service, '/v1/runner/poll', {
      runnerId: this.#runnerId,
      name: 'bench',
      poll: this.#polls,
      capabilities: ['deferral', 'sandbox'],
      backends: ['BACKEND_A', 'BACKEND_B'],
      rehearses: true,
      free,
      runs: this.#runs,
      waitMs,
    });
    const now = performance.now();
    for (const claim of claims) this.claimedAt.set(claim.agentId.agent.join('/'), now);
    this.#runs = claims.map(({ agentKey, runId }) => ({ agentKey, runId }));
    await Promise.all(this.#runs.map((run) => this.#end(run)));
    return { claims: claims.length, tookMs: now - sentAt };
  }

  stop(): void {
    this.#isOn = false;
  }

  #end(run: { agentKey: string; runId: number }): Promise<unknown> {
    const report = {
      runnerId: this.#runnerId,
      ...run,
      report: 1,
      started: true,
      end: { outcome: 'COMPLETED' },
    };
    return post(this.#service, '/v1/runner/report', report);
  }
}

export async function runnerKey(service: Service): Promise<string> {
  const payload = Buffer.from(JSON.stringify({ role: 'runner', pool: 'default' })).toString('base64');
  const reply = await post<{ payload: string }>(service, `/v1/catalog/token/bench-${randomUUID()}`, {
    payload,
  });
  return (JSON.parse(Buffer.from(reply.payload, 'base64').toString()) as { key: string }).key;
}

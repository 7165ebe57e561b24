import { randomUUID } from 'node:crypto';
import { post, type Service } from './tools.ts';

interface Claim {
  agentKey: string;
  runId: number;
  agentId: { agent: string[] };
}

/** A runner that ends every run immediately. Like a real one it polls while runs end. */
export class InstantRunner {
  readonly #awaited = new Map<string, (claimedAt: number) => void>();
  readonly #service: Pick<Service, 'url' | 'key'>;
  readonly #runnerId = randomUUID();
  readonly #runs = new Map<string, { agentKey: string; runId: number }>();
  #isOn = true;
  #polls = 0;

  constructor(service: Pick<Service, 'url' | 'key'>) {
    this.#service = service;
  }

  /** When the next run of this agent is claimed. */
  nextClaim(name: string): Promise<number> {
    return new Promise((resolve) => this.#awaited.set(name, resolve));
  }

  async run(): Promise<void> {
    const ending = new Set<Promise<void>>();
    while (this.#isOn) {
      const { claims } = await this.#poll({ real: 64, rehearsed: 256 }, 1_000);
      for (const claim of claims) {
        const end = this.#end(claim).finally(() => ending.delete(end));
        ending.add(end);
      }
    }
    await Promise.all(ending);
  }

  /** Polls once and ends what it got. */
  async poll(
    free: { real: number; rehearsed: number },
    waitMs: number,
  ): Promise<{ claims: number; tookMs: number }> {
    const { claims, tookMs } = await this.#poll(free, waitMs);
    await Promise.all(claims.map((claim) => this.#end(claim)));
    return { claims: claims.length, tookMs };
  }

  async #poll(free: { real: number; rehearsed: number }, waitMs: number) {
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
      runs: [...this.#runs.values()],
      waitMs,
    });
    const now = performance.now();
    for (const { agentKey, runId, agentId } of claims) {
      this.#awaited.get(agentId.agent.join('/'))?.(now);
      this.#runs.set(agentKey, { agentKey, runId });
    }
    return { claims, tookMs: now - sentAt };
  }

  stop(): void {
    this.#isOn = false;
  }

  async #end({ agentKey, runId }: Claim): Promise<void> {
    await post(this.#service, '/v1/runner/report', {
      runnerId: this.#runnerId,
      agentKey,
      runId,
      report: 1,
      started: true,
      end: { outcome: 'COMPLETED' },
    });
    if (this.#runs.get(agentKey)?.runId === runId) this.#runs.delete(agentKey);
  }
}

export async function runnerKey(service: Service): Promise<string> {
  const payload = Buffer.from(JSON.stringify({ role: 'runner', pool: 'default' })).toString('base64');
  const reply = await post<{ payload: string }>(service, `/v1/catalog/token/bench-${randomUUID()}`, {
    payload,
  });
  return (JSON.parse(Buffer.from(reply.payload, 'base64').toString()) as { key: string }).key;
}

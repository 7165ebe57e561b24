import { randomUUID } from 'node:crypto';
import {
  type Attachment,
  type Claim,
  type CreditReply,
  limits,
  type PollReply,
  type ReplyOf,
  type ReportReply,
} from '@muster/sdk/contract';
import { version } from '../../packages/service/src/lib/version.ts';
import { accepted } from './agents.ts';
import { type Answer, type Api, uploadOf } from './api.ts';

type RunRef = Pick<Claim, 'agentKey' | 'runId'>;

/**
 * Speaks the runner protocol for a test: it claims and reports exactly when the test tells it to.
 * `api` must carry a key of role `runner`.
 */
export class FakeRunner {
  readonly runnerId: string;
  readonly name: string;
  readonly #api: Api;
  readonly #description: Record<string, unknown>;
  readonly #reports = new Map<string, number>();
  #poll = 0;
  runs: { agentKey: string; runId: number; steers?: number[] }[] = [];

  /** `description`: fields of each poll that differ from the defaults. */
  constructor(
    api: Api,
    name = `fake-${randomUUID().slice(0, 8)}`,
    runnerId: string = randomUUID(),
    description: Record<string, unknown> = {},
  ) {
    this.#api = api;
    this.#description = description;
    this.name = name;
    this.runnerId = runnerId;
  }

  /** Another process with the same key, as after a restart. */
  restarted(name = this.name): FakeRunner {
    return new FakeRunner(this.#api, name);
  }

  get key(): string {
    return this.#api.key;
  }

  /** One poll. Claims it gets are added to `runs`. */
  async poll(overrides: Record<string, unknown> = {}): Promise<Answer<PollReply>> {
    this.#poll += 1;
    const answer = await this.#api.post<PollReply>('/v1/runner/poll', {
      runnerId: this.runnerId,
      name: this.name,
      poll: this.#poll,
      build: version,
      capabilities: ['deferral', 'sandbox', 'steer'],
      backends: ['BACKEND_A', 'BACKEND_B'],
      rehearses: true,
      free: { real: 8, rehearsed: 256 },
      runs: this.runs,
      waitMs: 0,
      ...this.#description,
      ...overrides,
    });
    if (answer.status === 200) {
      for (const { agentKey, runId } of answer.body.claims) this.runs.push({ agentKey, runId });
    }
    return answer;
  }

  /** Polls until it has claimed one run. */
  async claim(overrides: Record<string, unknown> = {}): Promise<Claim> {
    for (let tries = 0; tries < 40; tries += 1) {
      const answer = await this.poll({ waitMs: 500, ...overrides });
      if (answer.status !== 200) throw new Error(`poll: ${answer.status} ${JSON.stringify(answer.body)}`);
      const claim = answer.body.claims[0];
      if (claim) return claim;
    }
    throw new Error('nothing to claim');
  }

  report(claim: RunRef, report: Record<string, unknown>, number?: number): Promise<Answer<ReportReply>> {
    const key = `${claim.agentKey}/${claim.runId}`;
    const next = number ?? (this.#reports.get(key) ?? 0) + 1;
    this.#reports.set(key, next);
    if (report.end || report.gone) {
      this.runs = this.runs.filter((r) => r.agentKey !== claim.agentKey || r.runId !== claim.runId);
    }
    return this.#api.post<ReportReply>('/v1/runner/report', {
      runnerId: this.runnerId,
      agentKey: claim.agentKey,
      runId: claim.runId,
      report: next,
      ...report,
    });
  }

  /** Asks for money: up to what cost the run is covered, or why not. */
  credit(claim: RunRef, upToUsd: number, more: Record<string, unknown> = {}): Promise<Answer<CreditReply>> {
    return this.#api.post('/v1/runner/credit', { ...this.#runRef(claim), upToUsd, ...more });
  }

  started(claim: Claim): Promise<Answer<ReportReply>> {
    return this.report(claim, { started: true });
  }

  end(claim: Claim, outcome = 'COMPLETED', more: Record<string, unknown> = {}): Promise<Answer<ReportReply>> {
    return this.report(claim, { end: { outcome, ...more } });
  }

  /** Polls until this agent is watched, by a reader that came after `since`. */
  async watched({ agentKey }: RunRef, since = 0): Promise<number> {
    let known: PollReply['watched'] = [];
    for (let tries = 0; tries < 40; tries += 1) {
      const { watched } = accepted('poll', await this.poll({ waitMs: 1000, watched: known }));
      const found = watched.find((agent) => agent.agentKey === agentKey);
      if (found && found.since > since) return found.since;
      known = watched;
    }
    throw new Error('nobody watches the agent');
  }

  /** Sends a piece of a text that the run is producing. */
  say({ agentKey, runId }: RunRef, text: string, more: Record<string, unknown> = {}): Promise<Answer> {
    const partial = { agentKey, runId, key: 'k', type: 'MESSAGE', offset: 0, text, ...more };
    return this.#api.post('/v1/runner/partials', { runnerId: this.runnerId, partials: [partial] });
  }

  savePart(claim: RunRef, checkpointId: string, part: number, content: Buffer): Promise<Answer> {
    return this.#upload(claim, 'checkpoint/save', { checkpointId, part, content });
  }

  saveAttachment(claim: RunRef, content: Buffer): Promise<Answer<Attachment>> {
    return this.#upload(claim, 'attachments', { content });
  }

  #upload<T>(claim: RunRef, route: string, fields: Readonly<Record<string, unknown>>): Promise<Answer<T>> {
    const { path, body, headers } = uploadOf(`/v1/runner/${route}`, { ...this.#runRef(claim), ...fields });
    return this.#api.post(path, body, headers);
  }

  completeCheckpoint(claim: RunRef, checkpointId: string, parts: number, final = false): Promise<Answer> {
    const body = { ...this.#runRef(claim), checkpointId, parts, final };
    return this.#api.post('/v1/runner/checkpoint/complete', body);
  }

  checkpoints(claim: RunRef): Promise<Answer<ReplyOf<'runnerCheckpoints'>>> {
    return this.#api.post('/v1/runner/checkpoints', this.#runRef(claim));
  }

  loadPart(claim: RunRef, checkpointId: string, part: number): Promise<Answer<{ content: string }>> {
    return this.#api.post('/v1/runner/checkpoint/load', { ...this.#runRef(claim), checkpointId, part });
  }

  /** Saves a checkpoint and completes it: its id. */
  async saveCheckpoint(claim: RunRef, archive: Buffer, final = false): Promise<string> {
    const checkpointId = randomUUID();
    const parts = Math.ceil(archive.length / limits.checkpointPartBytes);
    for (let part = 0; part < parts; part += 1) {
      const from = part * limits.checkpointPartBytes;
      const content = archive.subarray(from, from + limits.checkpointPartBytes);
      accepted('save', await this.savePart(claim, checkpointId, part, content));
    }
    accepted('complete', await this.completeCheckpoint(claim, checkpointId, parts, final));
    return checkpointId;
  }

  /** The newest checkpoint; undefined when there is none. */
  async loadCheckpoint(claim: RunRef): Promise<Buffer | undefined> {
    const [newest] = accepted('list', await this.checkpoints(claim)).checkpoints;
    if (!newest) return undefined;
    const parts: Buffer[] = [];
    for (let part = 0; part < newest.parts; part += 1) {
      const { content } = accepted('load', await this.loadPart(claim, newest.checkpointId, part));
      parts.push(Buffer.from(content, 'base64'));
    }
    return Buffer.concat(parts);
  }

  /** Which of these agents have ended. */
  ended(agentKeys: readonly string[]): Promise<Answer<{ ended: string[] }>> {
    return this.#api.post('/v1/runner/agents/ended', { runnerId: this.runnerId, agentKeys });
  }

  #runRef = ({ agentKey, runId }: RunRef) => ({ runnerId: this.runnerId, agentKey, runId });
}

/** Creates a runner key for the pool and a fake runner that uses it. */
export async function newFakeRunner(
  admin: Api,
  pool = 'default',
  description: Record<string, unknown> = {},
): Promise<FakeRunner> {
  const { body } = await admin.post<{ payload: string }>(
    `/v1/catalog/token/runner-${randomUUID().slice(0, 8)}`,
    {
      payload: Buffer.from(JSON.stringify({ role: 'runner', pool })).toString('base64'),
    },
  );
  const { key } = JSON.parse(Buffer.from(body.payload, 'base64').toString()) as { key: string };
  return new FakeRunner(admin.as(key), undefined, undefined, description);
}

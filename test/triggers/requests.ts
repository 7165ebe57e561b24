import { createHmac, randomUUID } from 'node:crypto';
import { request as requestHttp } from 'node:http';
import type { AgentId, AgentStatus, TriggerDelivery } from '@muster/sdk/contract';
import { Webhook } from 'standardwebhooks';
import type { Api } from '../support/api.ts';
import { until } from '../support/async.ts';
import { uniqueName, writeResource } from '../support/catalog.ts';

export type Fields = Readonly<Record<string, unknown>>;
type Headers = Readonly<Record<string, string>>;

export interface Sending {
  /** By default signed with the trigger's secret. */
  readonly headers?: Headers;
  readonly id?: string;
  readonly query?: string;
  readonly contentType?: string;
}

/** A trigger, and what another system does with it. */
export class TestTrigger {
  readonly api: Api;
  readonly name: string;
  readonly url: string;
  readonly secret: string;

  private constructor(api: Api, name: string, { url, secret }: { url: string; secret: string }) {
    this.api = api;
    this.name = name;
    this.url = url;
    this.secret = secret;
  }

  static async create(api: Api, document: Fields, name = uniqueName('trigger')): Promise<TestTrigger> {
    const written = await writeResource(api, 'trigger', name, document);
    return new TestTrigger(api, name, { url: String(written.url), secret: String(written.secret) });
  }

  change(fields: Fields): Promise<Fields> {
    return writeResource(this.api, 'trigger', this.name, fields, { updateMask: Object.keys(fields).join() });
  }

  /** As the library of Standard Webhooks signs. */
  signed(body: string, id = `msg_${randomUUID()}`, at = new Date(), secret = this.secret): Headers {
    return {
      'webhook-id': id,
      'webhook-timestamp': String(Math.floor(at.getTime() / 1000)),
      'webhook-signature': new Webhook(secret).sign(id, at, body),
    };
  }

  /** Returns the status of the answer. */
  post(body: string | Fields, { headers, id, query = '', contentType }: Sending = {}): Promise<number> {
    const text = typeof body === 'string' ? body : JSON.stringify(body);
    return postTo(`${this.url}${query}`, text, {
      'content-type': contentType ?? 'application/json',
      ...(headers ?? this.signed(text, id)),
    });
  }

  async deliveries(): Promise<TriggerDelivery[]> {
    const { status, body } = await this.api.post<{ entries: TriggerDelivery[] }>('/v1/trigger/deliveries', {
      name: this.name,
    });
    if (status !== 200) throw new Error(`deliveries: ${status} ${JSON.stringify(body)}`);
    return body.entries;
  }

  async delivery(id: string): Promise<TriggerDelivery> {
    const settled = await until(
      `a settled delivery ${id}`,
      async () => (await this.deliveries()).find(({ deliveryId }) => deliveryId === id),
      (found) => found !== undefined && found.state !== 'RECEIVED',
    );
    return settled as TriggerDelivery;
  }

  /** Sends a request and waits until it is processed. */
  async take(body: string | Fields, sending: Sending = {}): Promise<TriggerDelivery> {
    const id = sending.id ?? `msg_${randomUUID()}`;
    const status = await this.post(body, { ...sending, id });
    if (status !== 202) throw new Error(`the request was answered with ${status}`);
    return this.delivery(id);
  }

  /** The agent that a request has spawned. */
  async spawned(body: string | Fields, sending: Sending = {}): Promise<AgentStatus> {
    const delivery = await this.take(body, sending);
    if (delivery.state !== 'DONE' || !delivery.agentId) throw new Error(JSON.stringify(delivery));
    return this.status(delivery.agentId);
  }

  async status(agentId: AgentId): Promise<AgentStatus> {
    const { status, body } = await this.api.post<AgentStatus>('/v1/agent/status', { agentId });
    if (status !== 200) throw new Error(`status: ${status} ${JSON.stringify(body)}`);
    return body;
  }
}

export const hmacOf = (body: string, secret: string): string =>
  createHmac('sha256', secret).update(body).digest('hex');

export function postTo(url: string, body: string | Buffer, headers: Headers): Promise<number> {
  return new Promise((resolve) => {
    const sending = requestHttp(url, { method: 'POST', headers, agent: false }, (response) => {
      response.resume();
      response.on('close', () => resolve(response.statusCode ?? 0));
    });
    sending.on('error', () => resolve(0));
    sending.end(body);
  });
}

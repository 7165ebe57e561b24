import { createHmac, randomUUID } from 'node:crypto';
import { type IncomingMessage, request as requestHttp } from 'node:http';
import { writeResource } from '../support/catalog.ts';
import type { Scenario } from './scenario.ts';

export const signatureOf = (body: Buffer | string, key: string): string =>
  `sha256=${createHmac('sha256', key).update(body).digest('hex')}`;

/** Sends a delivery like GitHub; headers that are undefined are left out. */
export function answerToDelivery(
  url: string,
  body: Buffer | string,
  headers: Readonly<Record<string, string | undefined>>,
): Promise<IncomingMessage> {
  const all: Record<string, string | undefined> = {
    'content-type': 'application/json',
    'x-github-event': 'ping',
    'x-github-delivery': randomUUID(),
    ...headers,
  };
  const given = Object.fromEntries(Object.entries(all).filter((entry) => entry[1] !== undefined));
  return new Promise((resolve, reject) => {
    const sending = requestHttp(
      url,
      { method: 'POST', headers: given as Record<string, string> },
      (response) => {
        response.resume();
        response.on('end', () => resolve(response));
      },
    );
    sending.on('error', reject);
    sending.end(body);
  });
}

/** The host sends deliveries to the integration, signed with a new key. */
export async function connectWebhook({ api, host }: Scenario) {
  const rotated = await writeResource(api, 'integration', 'host', { rotate: true }, { updateMask: 'rotate' });
  const [webhookUrl, signingKey] = [String(rotated.webhookUrl), String(rotated.signingKey)];
  await host.deliverTo(webhookUrl, signingKey);
  return { webhookUrl, signingKey };
}

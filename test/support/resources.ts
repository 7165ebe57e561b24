import { randomUUID } from 'node:crypto';
import type { Api } from './api.ts';

export type Document = Record<string, unknown>;

export const encode = (document: unknown): string => Buffer.from(JSON.stringify(document)).toString('base64');
export const decode = (payload: string): Document =>
  JSON.parse(Buffer.from(payload, 'base64').toString()) as Document;

/** Writes a resource that must be accepted; the stored document comes back, with a one-time secret if it has one. */
export async function writeResource(
  api: Api,
  kind: string,
  name: string,
  document: Document,
  more: Document = {},
): Promise<Document> {
  const { status, body } = await api.post<{ payload: string }>(`/v1/catalog/${kind}/${name}`, {
    payload: encode(document),
    ...more,
  });
  if (status !== 200) throw new Error(`write of ${kind}/${name}: ${status} ${JSON.stringify(body)}`);
  return decode(body.payload);
}

/** A new key made by this caller, as an api that uses it. */
export async function withToken(
  api: Api,
  document: Document,
  name = `token-${randomUUID().slice(0, 8)}`,
  more: Document = {},
): Promise<Api> {
  const { key } = await writeResource(api, 'token', name, document, more);
  return api.as(String(key));
}

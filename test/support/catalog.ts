import { randomUUID } from 'node:crypto';
import type { Resource } from '@muster/sdk/contract';
import type { Answer, Api } from './api.ts';

/** Catalog calls that hand back the whole answer, for tests about the catalog itself. */
export const encode = (document: unknown): string => Buffer.from(JSON.stringify(document)).toString('base64');

export const decode = <T = Record<string, unknown>>(payload: string): T =>
  JSON.parse(Buffer.from(payload, 'base64').toString()) as T;

/** A name no other test of the run uses. */
export const unique = (stem: string): string => `${stem}-${randomUUID().slice(0, 8)}`;

export interface Written {
  readonly payload: string;
  readonly generation: string;
}

export const writeResource = (
  api: Api,
  kind: string,
  name: string,
  document: unknown,
  more: Record<string, unknown> = {},
): Promise<Answer<Written>> =>
  api.post<Written>(`/v1/catalog/${kind}/${name}`, { payload: encode(document), ...more });

export const readResource = (api: Api, kind: string, name: string, query = ''): Promise<Answer<Resource>> =>
  api.get<Resource>(`/v1/catalog/${kind}/${name}${query}`);

/** The stored document and its generation; fails when there is none. */
export async function stored(
  api: Api,
  kind: string,
  name: string,
): Promise<{ document: Record<string, unknown>; generation: string }> {
  const { status, body } = await readResource(api, kind, name);
  if (status !== 200) throw new Error(`read ${kind}/${name}: ${status} ${JSON.stringify(body)}`);
  return { document: decode(body.payload), generation: body.generation };
}

/** Makes a token and returns an api that carries its key. */
export async function keyFor(
  maker: Api,
  document: Record<string, unknown>,
  more: Record<string, unknown> = {},
  name: string = unique('key'),
): Promise<{ name: string; key: string; api: Api }> {
  const { status, body } = await writeResource(maker, 'token', name, document, more);
  if (status !== 200) throw new Error(`token ${name}: ${status} ${JSON.stringify(body)}`);
  const { key } = decode<{ key: string }>(body.payload);
  return { name, key, api: maker.as(key) };
}

/** The bearer in a share link: the secret stands in the fragment of its URL. */
export function bearerOf(url: string): string {
  const fragment = decodeURIComponent(new URL(url).hash.slice(1));
  return /mst_[^&=]+$/.exec(fragment)?.[0] ?? fragment;
}

/** Makes a share link of an agent and returns its URL and an api that carries its secret. */
export async function shareLinkOf(
  maker: Api,
  agentId: Record<string, unknown>,
  more: Record<string, unknown> = {},
): Promise<{ name: string; url: string; api: Api }> {
  const name = unique('link');
  const { status, body } = await writeResource(maker, 'share-link', name, { agentId, ...more });
  if (status !== 200) throw new Error(`share-link ${name}: ${status} ${JSON.stringify(body)}`);
  const { url } = decode<{ url: string }>(body.payload);
  return { name, url, api: maker.as(bearerOf(url)) };
}

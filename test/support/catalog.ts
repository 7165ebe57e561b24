import { randomUUID } from 'node:crypto';
import type { Resource } from '@muster/sdk/contract';
import type { Answer, Api } from './api.ts';

export type Document = Record<string, unknown>;

export const encode = (document: unknown): string => Buffer.from(JSON.stringify(document)).toString('base64');

export const decode = <T = Document>(payload: string): T =>
  JSON.parse(Buffer.from(payload, 'base64').toString()) as T;

/** A name that no other test uses. */
export const uniqueName = (stem: string): string => `${stem}-${randomUUID().slice(0, 8)}`;

export interface WrittenResource {
  readonly payload: string;
  readonly generation: string;
}

/** Returns the whole reply, whether the write was accepted or not. */
export const postResource = (
  api: Api,
  kind: string,
  name: string,
  document: unknown,
  more: Document = {},
): Promise<Answer<WrittenResource>> =>
  api.post<WrittenResource>(`/v1/catalog/${kind}/${name}`, { payload: encode(document), ...more });

/** Writes a resource that must be accepted. Returns the stored document, with its one-time secret if it has one. */
export async function writeResource(
  api: Api,
  kind: string,
  name: string,
  document: Document,
  more: Document = {},
): Promise<Document> {
  const { status, body } = await postResource(api, kind, name, document, more);
  if (status !== 200) throw new Error(`write of ${kind}/${name}: ${status} ${JSON.stringify(body)}`);
  return decode(body.payload);
}

export const deleteResource = (api: Api, kind: string, name: string): Promise<Answer> =>
  api.del(`/v1/catalog/${kind}/${name}`);

export const readResource = (api: Api, kind: string, name: string, query = ''): Promise<Answer<Resource>> =>
  api.get<Resource>(`/v1/catalog/${kind}/${name}${query}`);

/** Reads a document that must exist, and its generation. */
export async function readDocument(
  api: Api,
  kind: string,
  name: string,
): Promise<{ document: Document; generation: string }> {
  const { status, body } = await readResource(api, kind, name);
  if (status !== 200) throw new Error(`read ${kind}/${name}: ${status} ${JSON.stringify(body)}`);
  return { document: decode(body.payload), generation: body.generation };
}

/** Creates a token and returns its key, and an API that sends it. */
export async function createKey(
  maker: Api,
  document: Document,
  more: Document = {},
  name: string = uniqueName('key'),
): Promise<{ name: string; key: string; api: Api }> {
  const { key } = await writeResource(maker, 'token', name, document, more);
  return { name, key: String(key), api: maker.as(String(key)) };
}

/** An API that sends a new key. */
export const apiWithNewKey = async (
  maker: Api,
  document: Document,
  name?: string,
  more?: Document,
): Promise<Api> => (await createKey(maker, document, more, name)).api;

/** A member with a new account, so that its list is empty. */
export async function newMember(admin: Api): Promise<{ readonly api: Api; readonly account: string }> {
  const account = uniqueName('member');
  return { account, api: await apiWithNewKey(admin, { role: 'member', account }) };
}

/** The secret of a share link, which is in the fragment of its URL. */
export function secretOfLink(url: string): string {
  const fragment = decodeURIComponent(new URL(url).hash.slice(1));
  return /mst_[^&=]+$/.exec(fragment)?.[0] ?? fragment;
}

/** Creates a share link of an agent and returns its URL, and an API that sends its secret. */
export async function createShareLink(
  maker: Api,
  agentId: Document,
  more: Document = {},
): Promise<{ name: string; url: string; api: Api }> {
  const name = uniqueName('link');
  const { url } = await writeResource(maker, 'share-link', name, { agentId, ...more });
  return { name, url: String(url), api: maker.as(secretOfLink(String(url))) };
}

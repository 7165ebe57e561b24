import { Buffer } from 'node:buffer';
import type { Attachment } from '@muster/sdk/contract';
import type { Answer, Api } from './api.ts';

const pixel = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==',
  'base64',
);

/** An image of one pixel, followed by what makes it different from others. */
export const png = (name = ''): Buffer => Buffer.concat([pixel, Buffer.from(name)]);

/** Images of the other types, as far as their first bytes say. */
export const jpeg = Buffer.from('ffd8ffe000104a46494600', 'hex');
export const webp = Buffer.from('RIFF\x08\0\0\0WEBPVP8 ', 'latin1');
/** The beginning of an image that is also a text. */
export const gifText = 'GIF89a 1 1';
export const gif = Buffer.from(gifText);

/** The answer to an upload, also to one that is refused. */
export async function uploadTo(
  api: Api,
  agentId: { readonly workspace?: string; readonly agent: readonly string[] },
  image: Uint8Array,
  type = 'image/png',
): Promise<Answer<Attachment>> {
  const query = new URLSearchParams({ agent: agentId.agent.join('/'), workspace: agentId.workspace ?? '' });
  const response = await fetch(`${api.url}/v1/agent/attachments?${query}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${api.key}`, ...(type && { 'content-type': type }) },
    body: image as BodyInit,
  });
  return {
    status: response.status,
    headers: response.headers,
    body: await response.json(),
  } as Answer<Attachment>;
}

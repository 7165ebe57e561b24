import { agentIdIn } from './identity.ts';
import { limits } from './limits.ts';
import { type Infer, reply, request, text } from './schema.ts';

/** Images that messages have. */
export const imageTypes = ['image/png', 'image/jpeg', 'image/webp', 'image/gif'] as const;
export type ImageType = (typeof imageTypes)[number];

/** The type of an image by its first bytes; null if it is none of them. */
export function imageTypeOf(bytes: Uint8Array): ImageType | null {
  const start = String.fromCharCode(...bytes.subarray(0, 12));
  if (start.startsWith('\x89PNG\r\n\x1a\n')) return 'image/png';
  if (start.startsWith('\xff\xd8\xff')) return 'image/jpeg';
  if (start.startsWith('RIFF') && start.endsWith('WEBP')) return 'image/webp';
  return start.startsWith('GIF87a') || start.startsWith('GIF89a') ? 'image/gif' : null;
}

const attachmentId = {
  type: 'string',
  maxLength: limits.idLength,
  expected: 'the id that uploading the image returned',
} as const;

export const attachmentIdsIn = {
  type: 'array',
  items: attachmentId,
  maxItems: limits.attachmentsPerMessage,
  description: 'Images for the message, which were uploaded for this agent before.',
} as const;

const attachmentFields = {
  attachmentId: text,
  mediaType: { type: 'string', enum: imageTypes },
  bytes: { type: 'integer' },
} as const;

export const attachment = reply('StoredAttachment', attachmentFields);
export type Attachment = Infer<typeof attachment>;

export const attachmentRequest = request('AttachmentRequest', { agentId: agentIdIn, attachmentId });

export const attachmentContent = reply('AttachmentContent', {
  ...attachmentFields,
  content: { type: 'string', description: 'Base64.' },
});
export type AttachmentContent = Infer<typeof attachmentContent>;

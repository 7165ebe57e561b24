import { imageTypes, limits } from '@muster/sdk/contract';

/** An image that is uploaded when the message is sent. */
export interface DraftImage {
  readonly name: string;
  readonly file: Blob;
  /** Of the preview. */
  readonly url: string;
}

/** Images that can be added to a message, and why the others can't. */
export function addedImages(
  { length }: readonly DraftImage[],
  files: readonly File[],
): { images: DraftImage[]; problem: string } {
  const isImage = ({ type }: File) => (imageTypes as readonly string[]).includes(type);
  const fits = files.filter((file) => isImage(file) && file.size <= limits.attachmentBytes);
  const images = fits.slice(0, limits.attachmentsPerMessage - length).map(drafted);
  if (images.length === files.length) return { images, problem: '' };
  if (!files.every(isImage)) return { images, problem: 'Only PNG, JPEG, WebP and GIF images can be added.' };
  return {
    images,
    problem:
      fits.length < files.length
        ? `An image can have at most ${limits.attachmentBytes / 1024 ** 2} MiB.`
        : `A message can have at most ${limits.attachmentsPerMessage} images.`,
  };
}

const drafted = (file: File): DraftImage => ({ name: file.name, file, url: URL.createObjectURL(file) });

import { imageTypes } from '@muster/sdk/contract';
import { useRef } from 'react';
import { Button } from '../../parts/button.tsx';
import type { DraftImage } from '../model/message-draft.ts';

/** Opens the file picker. Images can also be pasted into the text or dropped on it. */
export function ImageButton({ onAdd }: { readonly onAdd: (files: readonly File[]) => void }) {
  const input = useRef<HTMLInputElement>(null);
  return (
    <>
      <input
        ref={input}
        type="file"
        hidden
        multiple
        accept={imageTypes.join(',')}
        aria-label="Images"
        onChange={(event) => {
          onAdd([...(event.target.files ?? [])]);
          event.target.value = '';
        }}
      />
      <Button look="quiet" onClick={() => input.current?.click()}>
        Add images
      </Button>
    </>
  );
}

/** The images of a message that is not sent yet. */
export function DraftImages({
  images,
  onChange,
}: {
  readonly images: readonly DraftImage[];
  readonly onChange: (images: readonly DraftImage[]) => void;
}) {
  if (images.length === 0) return null;
  return (
    <ul className="message-images wrap" aria-label="Images of the message">
      {images.map((image, i) => (
        <li key={image.url}>
          <img src={image.url} alt={image.name || `Image ${i + 1}`} />
          <Button
            look="quiet"
            aria-label={`Remove image: ${image.name || i + 1}`}
            onClick={() => onChange(images.filter((other) => other !== image))}
          >
            Remove
          </Button>
        </li>
      ))}
    </ul>
  );
}

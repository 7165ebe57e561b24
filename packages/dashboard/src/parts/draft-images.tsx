import { imageTypes } from '@muster/sdk/contract';
import { useRef } from 'react';
import { Button, LineIcon } from './button.tsx';
import type { DraftImage } from './model/images.ts';

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
      <Button
        look="quiet"
        className="image-button"
        aria-label="Add images"
        title="Add images, or paste or drop them"
        onClick={() => input.current?.click()}
      >
        <LineIcon
          d="M2 3.5A1.5 1.5 0 0 1 3.5 2h9A1.5 1.5 0 0 1 14 3.5v9a1.5 1.5 0 0 1-1.5 1.5h-9A1.5 1.5 0 0 1 2 12.5Zm.5 8 3.5-4 3 3.5 2-2 2.5 2.5M9.5 6a1 1 0 1 0 2 0 1 1 0 0 0-2 0Z"
          strokeWidth={1.4}
        />
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

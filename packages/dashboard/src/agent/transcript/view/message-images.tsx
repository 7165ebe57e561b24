import { lazy, Suspense, useState } from 'react';
import { useImageUrl } from './image-url.ts';
import '../tools.css';

const ImageViewer = lazy(async () => ({ default: (await import('./image-viewer.tsx')).ImageViewer }));

/** The images of a delivered message, or of a tool. */
export function MessageImages({ ids, of = '' }: { readonly ids: readonly string[]; readonly of?: string }) {
  const [shown, setShown] = useState<number | null>(null);
  if (ids.length === 0) return null;
  const names = ids.map((_, i) => `Image ${i + 1}${of && `: ${of}`}`);
  return (
    <>
      <ul className="message-images wrap" aria-label="Images">
        {ids.map((id, i) => (
          <li key={id}>
            <MessageImage id={id} name={names[i] ?? ''} onOpen={() => setShown(i)} />
          </li>
        ))}
      </ul>
      {shown !== null && (
        <Suspense>
          <ImageViewer {...{ ids, names, shown }} onShow={setShown} onClose={() => setShown(null)} />
        </Suspense>
      )}
    </>
  );
}

function MessageImage({
  id,
  name,
  onOpen,
}: {
  readonly id: string;
  readonly name: string;
  readonly onOpen: () => void;
}) {
  const { url, isDeleted } = useImageUrl(id);
  if (isDeleted) return <p className="secondary">{name} was deleted.</p>;
  if (url === '') return <p className="secondary">Loading {name} …</p>;
  return (
    <button type="button" className="image-button" onClick={onOpen}>
      <img src={url} alt={name} />
    </button>
  );
}

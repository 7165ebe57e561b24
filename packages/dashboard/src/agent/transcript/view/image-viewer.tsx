import { useEffect } from 'react';
import { Button } from '../../../parts/button.tsx';
import { Dialog } from '../../../parts/dialog.tsx';
import { useImageUrl } from './image-url.ts';

interface ImageViewerProps {
  readonly ids: readonly string[];
  readonly names: readonly string[];
  readonly shown: number;
  readonly onShow: (index: number) => void;
  readonly onClose: () => void;
}

/** The images of a row, one at a time, as large as the window. The arrow keys show the others. */
export function ImageViewer({ ids, names, shown, onShow, onClose }: ImageViewerProps) {
  const name = names[shown] ?? '';
  const { url, isDeleted } = useImageUrl(ids[shown] ?? '');
  const move = (step: number) => {
    if (ids[shown + step] !== undefined) onShow(shown + step);
  };
  // Not on an element: a button that becomes disabled loses the focus.
  useEffect(() => {
    const onKeyDown = ({ key }: KeyboardEvent) => {
      if (key === 'ArrowLeft') move(-1);
      if (key === 'ArrowRight') move(1);
    };
    addEventListener('keydown', onKeyDown);
    return () => removeEventListener('keydown', onKeyDown);
  });
  return (
    <Dialog title={name} onClose={onClose} isWide>
      <div className="image-viewer">
        {url === '' ? (
          <p>{isDeleted ? 'The image was deleted.' : 'Loading …'}</p>
        ) : (
          <img src={url} alt={name} />
        )}
        <div className="wrap">
          {ids.length > 1 && (
            <>
              <Button
                data-autofocus={shown === 0 ? undefined : true}
                disabled={shown === 0}
                onClick={() => move(-1)}
              >
                Previous
              </Button>
              <Button data-autofocus disabled={shown === ids.length - 1} onClick={() => move(1)}>
                Next
              </Button>
              <span className="secondary">
                {shown + 1} of {ids.length}
              </span>
            </>
          )}
          {url !== '' && (
            <a href={url} target="_blank" rel="noreferrer">
              Open in a new tab
            </a>
          )}
        </div>
      </div>
    </Dialog>
  );
}

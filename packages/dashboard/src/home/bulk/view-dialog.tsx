import { type FormEvent, useState } from 'react';
import { Button } from '../../parts/button.tsx';
import { Dialog, DialogActions } from '../../parts/dialog.tsx';
import { TextField } from '../../parts/field.tsx';
import {
  maxNameLength,
  maxViews,
  type SavedViewsControl,
  withoutView,
  withView,
} from '../model/saved-views.ts';

interface ViewDialogProps {
  readonly control: SavedViewsControl;
  /** The view to save; null: only the saved ones are edited. */
  readonly url: string | null;
  readonly onClose: () => void;
}

export function ViewDialog({ control: { views, save }, url, onClose }: ViewDialogProps) {
  const [name, setName] = useState('');
  const [error, setError] = useState<string>();
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const trimmed = name.trim();
    if (trimmed === '') return setError('Enter a name.');
    const next = withView(views, { name: trimmed, url: url ?? '/' });
    if (next.length > maxViews) return setError(`At most ${maxViews} views. Delete one first.`);
    save(next);
    onClose();
  };
  return (
    <Dialog title={url === null ? 'Saved views' : 'Save view'} onClose={onClose}>
      {url !== null && (
        <form id="save-view" onSubmit={submit}>
          <TextField
            label="Name"
            hint="The filters, the grouping and the order are saved in this browser. To share a view, copy its address."
            error={error}
            value={name}
            maxLength={maxNameLength}
            data-autofocus
            onChange={setName}
          />
        </form>
      )}
      {views.length > 0 && (
        <ul className="view-list" aria-label="Saved views">
          {views.map((view) => (
            <li key={view.name} className="wrap">
              <span dir="auto">{view.name}</span>
              <Button
                look="quiet"
                aria-label={`Delete view ${view.name}`}
                onClick={() => save(withoutView(views, view.name))}
              >
                Delete
              </Button>
            </li>
          ))}
        </ul>
      )}
      <DialogActions>
        <Button onClick={onClose}>{url === null ? 'Close' : 'Cancel'}</Button>
        {url !== null && (
          <Button look="primary" type="submit" form="save-view">
            Save
          </Button>
        )}
      </DialogActions>
    </Dialog>
  );
}

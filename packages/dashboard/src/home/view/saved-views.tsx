import { lazy, Suspense, useMemo, useState, useSyncExternalStore } from 'react';
import { Link } from 'wouter';
import { Button } from '../../parts/button.tsx';
import { Listeners } from '../../parts/model/listeners.ts';
import { usePerson } from '../../session/session.ts';
import { type SavedViewsControl, viewsIn } from '../model/saved-views.ts';

const ViewDialog = lazy(async () => ({ default: (await import('../bulk/view-dialog.tsx')).ViewDialog }));

const listeners = new Listeners();

function subscribe(listener: () => void): () => void {
  const unsubscribe = listeners.subscribe(listener);
  // Another tab has changed them.
  addEventListener('storage', listener);
  return () => {
    unsubscribe();
    removeEventListener('storage', listener);
  };
}

/** This browser keeps the views of each person. */
export function useSavedViews(): SavedViewsControl {
  const key = `muster.views ${usePerson()}`;
  const stored = useSyncExternalStore(subscribe, () => localStorage.getItem(key));
  return useMemo(
    () => ({
      views: viewsIn(stored),
      save: (views) => {
        localStorage.setItem(key, JSON.stringify(views));
        listeners.notify();
      },
    }),
    [key, stored],
  );
}

/** Links to the saved views. Every other view than the usual one can be saved. */
export function SavedViews({ url }: { readonly url: string }) {
  const control = useSavedViews();
  const [isOpen, setOpen] = useState(false);
  const isSaved = control.views.some((view) => view.url === url);
  return (
    <>
      {control.views.length > 0 && (
        <nav className="saved-views wrap" aria-label="Saved views">
          {control.views.map((view) => (
            <Link
              key={view.name}
              href={view.url}
              className="saved-view"
              dir="auto"
              {...(view.url === url && { 'aria-current': 'page' })}
            >
              {view.name}
            </Link>
          ))}
        </nav>
      )}
      {(url !== '/' || control.views.length > 0) && (
        <Button look="quiet" className="saved-views-edit" onClick={() => setOpen(true)}>
          {isSaved || url === '/' ? 'Edit views' : 'Save view'}
        </Button>
      )}
      {isOpen && (
        <Suspense>
          <ViewDialog
            control={control}
            url={isSaved || url === '/' ? null : url}
            onClose={() => setOpen(false)}
          />
        </Suspense>
      )}
    </>
  );
}

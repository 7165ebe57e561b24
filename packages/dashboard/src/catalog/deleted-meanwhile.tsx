import { Button } from '../parts/button.tsx';
import { Saves } from './merge-view.tsx';
import type { Conflict } from './use-save.ts';

/** The other edit was the end of it. What was typed here is still there, and can be made anew. */
export const DeletedMeanwhile = ({
  saves,
  isSaving,
  onSave,
  onBack,
  onDiscard,
}: {
  readonly saves: Conflict['saves'];
  readonly isSaving: boolean;
  readonly onSave: () => void;
  readonly onBack: () => void;
  readonly onDiscard: () => void;
}) => (
  <section className="merge-view" aria-labelledby="deleted-meanwhile">
    <header>
      <h2 id="deleted-meanwhile">Somebody deleted this while you were editing</h2>
      <p>Your text is not lost. Save it as a new one, or let it go.</p>
      <Saves saves={saves} />
    </header>
    <footer className="dialog-actions">
      <Button look="quiet" onClick={onBack}>
        Back to my text
      </Button>
      <Button look="danger" onClick={onDiscard}>
        Let it go
      </Button>
      <Button look="primary" disabled={isSaving} onClick={onSave}>
        {isSaving ? 'Saving …' : 'Make it again with my text'}
      </Button>
    </footer>
  </section>
);

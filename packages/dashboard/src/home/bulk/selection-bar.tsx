import { type RefObject, useCallback, useEffect, useRef, useState, useSyncExternalStore } from 'react';
import { useFleet } from '../../live/fleet.ts';
import { Button } from '../../parts/button.tsx';
import { plural } from '../../parts/model/text.ts';
import { useShortcuts } from '../../parts/page.tsx';
import { useSignedIn } from '../../session/session.ts';
import type { Selection } from '../view/use-selection.ts';
import { BulkDialog } from './bulk-dialog.tsx';
import { type BulkAction, planOf, type Target } from './plan.ts';
import './bulk.css';

interface SelectionBarProps {
  readonly selection: Selection;
  readonly onMarkAllSeen: (pages: readonly string[]) => void;
  /** Has the list, which gets the focus back. */
  readonly body: RefObject<HTMLElement | null>;
}

const actions: readonly (readonly [action: BulkAction, title: string])[] = [
  ['message', 'Message'],
  ['stop', 'Stop turns'],
  ['label', 'Label'],
  ['kill', 'Kill'],
];

/** What can be done to the selected agents. */
export function SelectionBar({ selection, onMarkAllSeen, body }: SelectionBarProps) {
  const fleet = useFleet();
  const { caller } = useSignedIn();
  const [action, setAction] = useState<BulkAction | null>(null);
  const first = useRef<HTMLButtonElement>(null);
  // What an action applies to changes with the agents.
  useSyncExternalStore(fleet.subscribe, fleet.view);
  const selected = targetsOf(selection.pages, fleet.agent);
  useShortcuts({ '.': () => first.current?.focus() });
  const onClose = useCallback(
    (done: readonly string[]) => {
      setAction(null);
      selection.setAll(done, false);
    },
    [selection],
  );
  useEffect(() => {
    const list = body.current;
    return () => {
      if (document.activeElement === document.body)
        list?.querySelector<HTMLElement>('li a[tabindex="0"]')?.focus({ preventScroll: true });
    };
  }, [body]);
  return (
    <section className="selection-bar wrap" aria-label="Selection">
      <p role="status">{plural(selected.length, 'agent')} selected</p>
      <Button
        ref={first}
        onClick={() => {
          onMarkAllSeen([...selection.pages]);
          selection.clear();
        }}
      >
        Mark seen
      </Button>
      {actions.map(([name, title]) => {
        const isPossible = planOf(name, selected, [], caller).targets.length > 0;
        return (
          <Button
            key={name}
            look={name === 'kill' ? 'danger' : 'plain'}
            disabled={!isPossible}
            title={isPossible ? undefined : 'Not possible for any of the selected agents'}
            onClick={() => setAction(name)}
          >
            {title}
          </Button>
        );
      })}
      <Button look="quiet" onClick={selection.clear} title="Clear selection (Escape)">
        Clear
      </Button>
      {action && <BulkDialog action={action} selected={selected} onClose={onClose} />}
    </section>
  );
}

/** The selected agents that are still listed. */
const targetsOf = (
  pages: ReadonlySet<string>,
  agent: (page: string) => Target['entry'] | undefined,
): readonly Target[] =>
  [...pages].flatMap((page) => {
    const entry = agent(page);
    return entry ? [{ page, entry }] : [];
  });

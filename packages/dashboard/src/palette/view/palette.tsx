import { type KeyboardEvent, useEffect, useId, useMemo, useRef, useState } from 'react';
import { useLocation } from 'wouter';
import { BulkDialog } from '../../home/bulk/bulk-dialog.tsx';
import type { BulkAction, Target } from '../../home/bulk/plan.ts';
import { Dialog } from '../../parts/dialog.tsx';
import { Problem } from '../../parts/problem.tsx';
import { reportError } from '../../session/session.ts';
import type { Command } from '../model/command.ts';
import { maxQueryLength, rank } from '../model/fuzzy.ts';
import { useCommands } from './use-commands.ts';
import '../palette.css';

const shownCommands = 50;

interface PaletteProps {
  readonly onHelp: () => void;
  readonly onClose: () => void;
}

/** Finds pages, actions, agents and resources by name. An action on an agent is confirmed in its own dialog. */
export function Palette({ onHelp, onClose }: PaletteProps) {
  const [asked, setAsked] = useState<{ readonly action: BulkAction; readonly target: Target } | null>(null);
  if (asked) return <BulkDialog action={asked.action} selected={[asked.target]} onClose={onClose} />;
  return (
    <Dialog title="Search" onClose={onClose}>
      <Search onHelp={onHelp} onClose={onClose} onAsk={(action, target) => setAsked({ action, target })} />
    </Dialog>
  );
}

interface SearchProps extends PaletteProps {
  readonly onAsk: (action: BulkAction, target: Target) => void;
}

function Search({ onHelp, onClose, onAsk }: SearchProps) {
  const [query, setQuery] = useState('');
  const { commands, target } = useCommands(query.trim() !== '', onHelp);
  const { items, total } = useMemo(() => rank(commands, query, shownCommands), [commands, query]);
  const choice = useChoice(items);
  const listId = useId();

  const { error, choose } = useAct(onClose, (action) => target && onAsk(action, target));
  return (
    <div className="palette stack">
      <input
        type="text"
        role="combobox"
        data-autofocus
        aria-label="Search agents, resources and commands"
        aria-expanded="true"
        aria-controls={listId}
        aria-autocomplete="list"
        {...(items.length > 0 && { 'aria-activedescendant': `${listId}-${choice.index}` })}
        autoComplete="off"
        autoCapitalize="none"
        spellCheck={false}
        maxLength={maxQueryLength}
        placeholder="Agent, page, resource or action"
        value={query}
        onChange={(event) => {
          setQuery(event.target.value);
          choice.move(0);
        }}
        onKeyDown={(event) => {
          if (event.key === 'Enter' && !event.nativeEvent.isComposing) {
            event.preventDefault();
            void choose(items[choice.index]);
          } else choice.onKeyDown(event);
        }}
      />
      <Problem error={error} />
      <Results id={listId} items={items} choice={choice} onChoose={choose} />
      <p className="secondary" role="status">
        {total === 0 && 'Nothing found.'}
        {total > items.length &&
          `${items.length} of ${total.toLocaleString()}. Type more to narrow them down.`}
        {total > 0 && total <= items.length && <span className="visually-hidden">{total} results</span>}
      </p>
    </div>
  );
}

/** Does what was chosen and closes the palette; an error leaves it open. */
function useAct(onClose: () => void, ask: (action: BulkAction) => void) {
  const [, navigate] = useLocation();
  const [error, setError] = useState<unknown>(null);
  const choose = async (chosen: Command | undefined): Promise<void> => {
    if (!chosen) return;
    const { act } = chosen;
    if (act.kind === 'bulk') return ask(act.action);
    if (act.kind === 'go') {
      onClose();
      return navigate(act.href);
    }
    try {
      await act.run();
      onClose();
    } catch (thrown) {
      reportError(thrown);
      setError(thrown);
    }
  };
  return { error, choose };
}

interface ResultsProps {
  readonly id: string;
  readonly items: readonly Command[];
  readonly choice: ReturnType<typeof useChoice>;
  readonly onChoose: (item: Command) => unknown;
}

const Results = ({ id, items, choice: { index: chosen, list }, onChoose }: ResultsProps) => (
  <div id={id} role="listbox" aria-label="Results" ref={list}>
    {items.map((item, index) => (
      // biome-ignore lint/a11y/useKeyWithClickEvents: the field has the focus and handles the keys.
      <div
        key={item.id}
        id={`${id}-${index}`}
        role="option"
        tabIndex={-1}
        aria-selected={index === chosen}
        onClick={() => onChoose(item)}
      >
        <span className="palette-title" dir="auto">
          {item.title}
        </span>
        <span className="palette-hint secondary">{item.hint}</span>
        {item.keys && <kbd>{item.keys}</kbd>}
      </div>
    ))}
  </div>
);

/** The arrow keys choose; the focus stays in the field. */
function useChoice(items: readonly Command[]) {
  const [chosen, setChosen] = useState(0);
  const list = useRef<HTMLDivElement>(null);
  const index = Math.min(chosen, Math.max(0, items.length - 1));
  // biome-ignore lint/correctness/useExhaustiveDependencies: another choice is scrolled into view.
  useEffect(() => {
    list.current?.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: 'nearest' });
  }, [index, items]);
  const onKeyDown = (event: KeyboardEvent) => {
    const next = {
      ArrowDown: (index + 1) % Math.max(1, items.length),
      ArrowUp: (index - 1 + items.length) % Math.max(1, items.length),
      PageDown: Math.min(index + 10, items.length - 1),
      PageUp: Math.max(index - 10, 0),
    }[event.key];
    if (next === undefined || items.length === 0) return;
    event.preventDefault();
    setChosen(next);
  };
  return { index, list, move: setChosen, onKeyDown };
}

import { type RefObject, useEffect, useRef, useState } from 'react';
import { flushSync } from 'react-dom';
import './search-field.css';

/** What is typed becomes part of the address when the typing pauses. */
const pauseMs = 150;

/** The search of a list. Escape leaves it, and so do Enter and the arrow down, into the list. */
export function SearchField({
  label = 'Search agents',
  placeholder = 'Search by name, task, question or model',
  text,
  field,
  onSearch,
  onLeave,
}: {
  readonly label?: string;
  readonly placeholder?: string;
  readonly text: string;
  readonly field: RefObject<HTMLInputElement | null>;
  readonly onSearch: (text: string) => void;
  readonly onLeave: () => void;
}) {
  const [typed, setTyped] = useState(text);
  /** What this field has said last: another text in the address came from elsewhere, and is shown here. */
  const said = useRef(text);
  useEffect(() => {
    if (text === said.current) return;
    said.current = text;
    setTyped(text);
  }, [text]);

  const say = () => {
    const next = typed.trim();
    if (next === said.current) return;
    said.current = next;
    onSearch(next);
  };
  const sayNow = useRef(say);
  sayNow.current = say;
  // biome-ignore lint/correctness/useExhaustiveDependencies: each letter begins the pause anew.
  useEffect(() => {
    const timer = setTimeout(() => sayNow.current(), pauseMs);
    return () => clearTimeout(timer);
  }, [typed]);

  return (
    <div className="search-field">
      <input
        ref={field}
        type="search"
        aria-label={label}
        aria-keyshortcuts="/"
        placeholder={placeholder}
        value={typed}
        autoComplete="off"
        spellCheck={false}
        onChange={(event) => setTyped(event.target.value)}
        // Who leaves does not wait, and the list must not change under the next key.
        onBlur={say}
        onKeyDown={(event) => {
          if (event.key === 'Escape') {
            // Chromium would empty the field.
            event.preventDefault();
            field.current?.blur();
          } else if (event.key === 'Enter' || event.key === 'ArrowDown') {
            event.preventDefault();
            // The list that one goes into is the one that was asked for.
            flushSync(say);
            onLeave();
          }
        }}
      />
      <span className="search-field-key" aria-hidden="true">
        <kbd>/</kbd>
      </span>
    </div>
  );
}

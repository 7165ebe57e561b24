import { type KeyboardEvent, useId, useRef, useState } from 'react';
import { Field } from '../../parts/field.tsx';

interface ModelFieldProps {
  readonly models: readonly string[];
  readonly value: string;
  readonly onChange: (value: string) => void;
  /** The model that is used without a choice. */
  readonly placeholder: string;
  readonly hint: string;
  readonly error: string | undefined;
}

/** A choice of the known models, in which other names can be typed, too. */
export function ModelField({ models, value, onChange, placeholder, hint, error }: ModelFieldProps) {
  const listId = useId();
  const input = useRef<HTMLInputElement>(null);
  const [isOpen, setOpen] = useState(false);
  const [active, setActive] = useState(-1);
  // A name that was chosen does not hide the others.
  const isTyping = value !== '' && !models.includes(value);
  const matching = isTyping ? models.filter((model) => model.includes(value.trim())) : models;
  const isShown = isOpen && matching.length > 0;

  const choose = (model: string) => {
    onChange(model);
    setOpen(false);
    input.current?.focus();
  };
  const move = (by: 1 | -1) => {
    setOpen(true);
    setActive((matching.length + (isShown ? active + by : by === 1 ? 0 : -1)) % matching.length);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === 'ArrowDown' || event.key === 'ArrowUp') move(event.key === 'ArrowDown' ? 1 : -1);
    else if (event.key === 'Enter' && isShown && matching[active] && !event.ctrlKey && !event.metaKey)
      choose(matching[active]);
    else if (event.key === 'Escape' && isShown) setOpen(false);
    else return;
    event.preventDefault();
    // The dialog stays open.
    event.stopPropagation();
  };
  return (
    <Field label="Model" hint={hint} error={error}>
      {(attributes) => (
        // biome-ignore lint/a11y/noStaticElementInteractions: the list closes when the focus leaves the field.
        <div className="model-field" onBlur={() => setOpen(false)}>
          <input
            ref={input}
            {...attributes}
            role="combobox"
            aria-expanded={isShown}
            aria-controls={listId}
            aria-autocomplete="list"
            aria-activedescendant={isShown && active >= 0 ? `${listId}-${active}` : undefined}
            autoComplete="off"
            autoCapitalize="none"
            spellCheck={false}
            placeholder={placeholder}
            value={value}
            onChange={(event) => {
              onChange(event.target.value);
              setActive(-1);
              setOpen(true);
            }}
            onClick={() => setOpen(!isShown)}
            onKeyDown={onKeyDown}
          />
          <div id={listId} role="listbox" aria-label="Suggestions" hidden={!isShown}>
            {matching.map((model, at) => (
              // biome-ignore lint/a11y/useKeyWithClickEvents: the field has the keys, and the focus.
              <div
                key={model}
                id={`${listId}-${at}`}
                role="option"
                tabIndex={-1}
                aria-selected={at === active}
                // The field keeps the focus.
                onMouseDown={(event) => event.preventDefault()}
                onClick={() => choose(model)}
              >
                {model}
              </div>
            ))}
          </div>
        </div>
      )}
    </Field>
  );
}

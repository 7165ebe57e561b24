import { limits } from '@muster/sdk/contract';
import { type KeyboardEvent, type ReactNode, type SyntheticEvent, useEffect, useId, useRef } from 'react';
import { Button } from '../../../parts/button.tsx';
import { useReviewContext } from './use-review.ts';

interface TextFormProps {
  readonly label: string;
  readonly placeholder: string;
  readonly text: string;
  readonly onChange: (text: string) => void;
  /** The text of the button. */
  readonly action: string;
  readonly isBusy?: boolean;
  readonly onSubmit: () => void;
  readonly onEscape: () => void;
  /** The form gets the focus if the person has just opened it. */
  readonly formId: string;
  /** Other buttons. */
  readonly children: ReactNode;
}

/** A text of one comment. Ctrl+Enter submits it. */
export function TextForm({
  label,
  placeholder,
  text,
  onChange,
  action,
  isBusy = false,
  onSubmit,
  onEscape,
  formId,
  children,
}: TextFormProps) {
  const id = useId();
  const field = useRef<HTMLTextAreaElement>(null);
  const { opened } = useReviewContext();
  useEffect(() => {
    if (opened.current !== formId) return;
    field.current?.focus();
    // The same form may be in the panel behind the dialog, which can't get the focus.
    if (document.activeElement === field.current) opened.current = '';
  }, [opened, formId]);
  const canSubmit = text.trim() !== '' && !isBusy;
  const submit = (event: SyntheticEvent) => {
    event.preventDefault();
    if (canSubmit) onSubmit();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) submit(event);
    if (event.key !== 'Escape') return;
    // It would close the dialog.
    event.preventDefault();
    onEscape();
  };
  return (
    <form className="text-form stack" onSubmit={submit}>
      <label className="visually-hidden" htmlFor={id}>
        {label}
      </label>
      <textarea
        id={id}
        ref={field}
        dir="auto"
        rows={3}
        value={text}
        placeholder={placeholder}
        maxLength={limits.commentLength}
        onChange={(event) => onChange(event.target.value)}
        onKeyDown={onKeyDown}
      />
      <div className="wrap text-form-actions">
        <Button type="submit" look="primary" disabled={!canSubmit}>
          {action}
        </Button>
        {children}
      </div>
    </form>
  );
}

import { type ComponentProps, useEffect, useState } from 'react';

type Look = 'plain' | 'primary' | 'danger' | 'quiet';

/** `quiet` has no border; `danger` is for actions that can't be undone. */
export function Button({
  look = 'plain',
  type = 'button',
  className = '',
  ...rest
}: ComponentProps<'button'> & { readonly look?: Look }) {
  return <button type={type} className={`button button-${look} ${className}`} {...rest} />;
}

export const LineButton = ({ className = '', ...rest }: ComponentProps<'button'>) => (
  <button type="button" className={`line-button ${className}`} {...rest} />
);

interface LineIconProps {
  readonly d: string;
  readonly size?: number;
  readonly strokeWidth?: number;
}

/** An icon of one line, drawn on 16 × 16. */
export const LineIcon = ({ d, size = 16, strokeWidth = 1.6 }: LineIconProps) => (
  <svg viewBox="0 0 16 16" width={size} height={size} aria-hidden="true">
    <path d={d} fill="none" stroke="currentColor" strokeWidth={strokeWidth} />
  </svg>
);

/** For a button with `aria-expanded`: it turns while that is true. */
export const ExpandIcon = () => (
  <svg className="expand-icon" viewBox="0 0 12 12" width="10" height="10" aria-hidden="true">
    <path d="M3.5 1.5 8.5 6l-5 4.5" fill="none" stroke="currentColor" strokeWidth="1.6" />
  </svg>
);

interface CopyButtonProps {
  readonly text: string;
  readonly label?: string;
  readonly what?: string;
}

/** Copies a text to the clipboard. `what` completes the label for screen readers. */
export function CopyButton({ text, label = 'Copy', what = '' }: CopyButtonProps) {
  const [result, setResult] = useState('');
  useEffect(() => {
    if (result === '') return;
    const timer = setTimeout(() => setResult(''), 2000);
    return () => clearTimeout(timer);
  }, [result]);
  const copy = () =>
    navigator.clipboard.writeText(text).then(
      () => setResult('Copied'),
      () => setResult('Copy failed; select the text and copy it'),
    );
  return (
    <Button onClick={copy}>
      <span aria-live="polite">{result || label}</span>
      {what !== '' && <span className="visually-hidden">{what}</span>}
    </Button>
  );
}

/** Tabs: shows one of several views in the same place. */
export const ViewSwitch = <View extends string>({
  views,
  view,
  label = 'View',
  onChoose,
}: {
  readonly views: readonly (readonly [view: View, title: string])[];
  readonly view: View;
  readonly label?: string;
  readonly onChoose: (view: View) => void;
}) => (
  <fieldset className="view-switch">
    <legend className="visually-hidden">{label}</legend>
    {views.map(([name, title]) => (
      <button key={name} type="button" aria-pressed={view === name} onClick={() => onChoose(name)}>
        {title}
      </button>
    ))}
  </fieldset>
);

import { useEffect, useState } from 'react';
import { Button } from './button.tsx';

/** Puts a text on the clipboard and says that it did. `what` is for those who hear the button and see nothing around it. */
export function CopyButton({
  text,
  label = 'Copy',
  what = '',
}: {
  readonly text: string;
  readonly label?: string;
  readonly what?: string;
}) {
  const [said, setSaid] = useState('');
  useEffect(() => {
    if (said === '') return;
    const timer = setTimeout(() => setSaid(''), 2000);
    return () => clearTimeout(timer);
  }, [said]);
  const copy = () =>
    navigator.clipboard.writeText(text).then(
      () => setSaid('Copied'),
      () => setSaid('Select it and copy by hand'),
    );
  return (
    <Button onClick={copy}>
      <span aria-live="polite">{said || label}</span>
      {what !== '' && <span className="visually-hidden">{what}</span>}
    </Button>
  );
}

import { clock, type TimelineEntry } from '@muster/sdk/contract';
import { useEffect, useState } from 'react';
import { wholeTime } from '../../../parts/times.tsx';
import { systemText } from '../model/entry-text.ts';
import { useTranscript } from './transcript-context.ts';

const copiedMs = 2000;

/** The time of an entry: a link to the entry, which is copied when it is followed. */
export function EntryTime({
  at,
  sequence,
  className,
}: {
  readonly at: string;
  readonly sequence: number | string;
  readonly className?: string;
}) {
  const { isLinked } = useTranscript();
  const [isCopied, setCopied] = useState(false);
  useEffect(() => {
    if (!isCopied) return;
    const timer = setTimeout(() => setCopied(false), copiedMs);
    return () => clearTimeout(timer);
  }, [isCopied]);
  const time = <time dateTime={at}>{clock(at)}</time>;
  if (!isLinked || sequence === 0)
    return (
      <span className={className} title={wholeTime(at)}>
        {time}
      </span>
    );
  const href = `#e${sequence}`;
  const copy = () =>
    void navigator.clipboard?.writeText(new URL(href, location.href).href).then(
      () => setCopied(true),
      // The address bar has the link, too.
      () => {},
    );
  return (
    <a
      className={className}
      href={href}
      title={`${wholeTime(at)} · copy link`}
      data-copied={isCopied}
      onClick={copy}
    >
      <span className="visually-hidden">Entry {sequence}, </span>
      {time}
      <span className="copied" role="status">
        {isCopied && 'Link copied'}
      </span>
    </a>
  );
}

const maxLines = 500;

/** System entries, one line each. */
export const EntryLines = ({ entries }: { readonly entries: readonly TimelineEntry[] }) => (
  <ol className="system-list">
    {entries.slice(-maxLines).map((entry) => (
      <li key={entry.sequence}>
        <EntryTime at={entry.at} sequence={entry.sequence} /> {systemText(entry)}
      </li>
    ))}
  </ol>
);

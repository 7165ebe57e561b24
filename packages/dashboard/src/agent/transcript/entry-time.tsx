import { clock } from '@muster/sdk/contract';
import type { ComponentProps } from 'react';
import { useTranscript } from './transcript-context.ts';

/** When an entry was written, and the way to it: its address can be copied from here. */
export function EntryTime({
  at,
  sequence,
  ...rest
}: { readonly at: string; readonly sequence: number | string } & Omit<
  ComponentProps<'a'>,
  'href' | 'title'
>) {
  const { isLinked } = useTranscript();
  const time = <time dateTime={at}>{clock(at)}</time>;
  const title = new Date(at).toLocaleString();
  if (!isLinked)
    return (
      <span className={rest.className} title={title}>
        {time}
      </span>
    );
  return (
    <a {...rest} title={title} href={`#e${sequence}`}>
      <span className="visually-hidden">Entry {sequence}, </span>
      {time}
    </a>
  );
}

import { Link } from 'wouter';
import { type EndedWindow, endedWindows } from '../live/model/ended-window.ts';
import { addressOf, type Filter } from './filter.ts';
import './ended-note.css';

/** At the end of the list: how far back it goes, and how to see more. */
export const EndedNote = ({ filter }: { readonly filter: Filter }) => (
  <p className="ended-note">
    {filter.ended === 'all'
      ? 'All ended agents are listed.'
      : `Ended agents of the last ${filter.ended === '7d' ? 7 : 30} days are listed.`}{' '}
    {endedWindows
      .filter((window) => window !== filter.ended)
      .map((window) => (
        <Link key={window} href={addressOf({ ...filter, ended: window })}>
          {linkWords[window]}
        </Link>
      ))}
  </p>
);

const linkWords: Readonly<Record<EndedWindow, string>> = {
  '7d': 'Show 7 days',
  '30d': 'Show 30 days',
  all: 'Show all',
};

import { Link } from 'wouter';
import { type EndedWindow, endedWindows, endedWindowWords } from '../live/ended-window.ts';
import { addressOf, type Filter } from './filter.ts';
import './ended-note.css';

/** At the end of the list: how far back it goes, and how to see more. */
export const EndedNote = ({ filter }: { readonly filter: Filter }) => (
  <p className="ended-note">
    {filter.ended === 'all'
      ? 'Every agent that has ended is shown.'
      : `Of those that ended, ${endedWindowWords[filter.ended]} are shown.`}{' '}
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

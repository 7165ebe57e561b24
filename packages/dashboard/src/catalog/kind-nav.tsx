import type { Kind } from '@muster/sdk/contract';
import { Link } from 'wouter';
import { kindGroups, kindWords } from './kind-words.ts';
import { useCounts } from './use-counts.ts';
import './kind-nav.css';

/** The kinds, and how many resources there are of each. */
export function KindNav({ current }: { readonly current: Kind }) {
  const counts = useCounts();
  return (
    <nav className="kind-nav" aria-label="Kinds of the catalog">
      {kindGroups.map(([title, kinds]) => (
        <div key={title}>
          <p>{title}</p>
          <ul>
            {kinds.map((kind) => (
              <li key={kind}>
                <Link
                  href={`/catalog/${kind}`}
                  {...(kind === current && { 'aria-current': 'page' as const })}
                >
                  {kindWords[kind].title}
                  <span className="kind-count">{counts.get(kind)}</span>
                </Link>
              </li>
            ))}
          </ul>
        </div>
      ))}
    </nav>
  );
}

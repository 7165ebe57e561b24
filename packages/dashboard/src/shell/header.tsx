import { Link, useLocation } from 'wouter';
import iconUrl from '../icon.svg';
import { useOutage } from '../live/connection.ts';
import { Button } from '../parts/button.tsx';
import { useSignedIn } from '../session/use-session.ts';
import { maySpawn } from '../spawn/open-spawn.ts';
import { AccountMenu } from './account-menu.tsx';
import './header.css';

export function Header({ onSpawn, onHelp }: { readonly onSpawn: () => void; readonly onHelp: () => void }) {
  const [path] = useLocation();
  const { caller } = useSignedIn();
  const isAway = useOutage() !== null;
  const current = (isIt: boolean) => (isIt ? { 'aria-current': 'page' as const } : {});
  return (
    <header className="header">
      <Link href="/" className="header-brand">
        <img src={iconUrl} alt="" width="24" height="24" />
        Muster
      </Link>
      <nav aria-label="Main">
        <Link href="/" {...current(path === '/' || path.startsWith('/agents'))}>
          Agents
        </Link>
        <Link href="/catalog" {...current(path.startsWith('/catalog'))}>
          Catalog
        </Link>
        <a href="/docs">API</a>
      </nav>
      <span className="header-live" data-away={isAway}>
        {isAway ? 'Away' : 'Live'}
      </span>
      {maySpawn(caller) ? (
        <Button look="primary" onClick={onSpawn} title="New agent (n)">
          <span aria-hidden="true">+</span>
          <span>
            New<span className="header-noun"> agent</span>
          </span>
        </Button>
      ) : (
        <span
          className="header-view-only"
          title="Your key has the role of a viewer: it starts and commands no agent."
        >
          View only
        </span>
      )}
      <Button look="quiet" className="header-help" aria-label="Keyboard help" onClick={onHelp}>
        ?
      </Button>
      <AccountMenu />
    </header>
  );
}

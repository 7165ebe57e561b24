import type { Caller } from '@muster/sdk';
import { type FocusEvent, useCallback, useId, useRef, useState, useSyncExternalStore } from 'react';
import { Link, useLocation } from 'wouter';
import iconUrl from '../icon.svg';
import { useFleet } from '../live/fleet.ts';
import { Button, ExpandIcon, LineIcon } from '../parts/button.tsx';
import { useDismiss } from '../parts/dialog.tsx';
import { ownerKind } from '../parts/model/owner.ts';
import { Problem } from '../parts/problem.tsx';
import { ThemeChoice } from '../parts/theme.tsx';
import { Moment, useNow } from '../parts/times.tsx';
import { useOutage } from '../session/connection.ts';
import { signOut, useSession, useSignedIn } from '../session/session.ts';
import { SessionsDialog } from '../session/session-dialogs.tsx';
import { maySpawn } from '../spawn/open-spawn.ts';
import { pagesFor } from './pages.ts';
import { paletteKey } from './palette-key.ts';
import './shell.css';

interface HeaderProps {
  readonly onSpawn: () => void;
  readonly onHelp: () => void;
  readonly onPalette: () => void;
}

export function Header({ onSpawn, onHelp, onPalette }: HeaderProps) {
  const { caller } = useSignedIn();
  const isOffline = useOutage() !== null;
  return (
    <header className="header">
      <Link href="/" className="header-brand">
        <img src={iconUrl} alt="" width="24" height="24" />
        Muster
      </Link>
      <MainNavigation />
      <span className="header-live secondary" data-offline={isOffline}>
        {isOffline ? 'Offline' : 'Live'}
      </span>
      {maySpawn(caller) ? (
        <Button look="primary" onClick={onSpawn} title="New agent (n)">
          <span aria-hidden="true">+</span>
          <span>
            New<span className="header-noun"> agent</span>
          </span>
        </Button>
      ) : (
        <span className="secondary" title="Your key has the viewer role. It can't start or change agents.">
          Read-only access
        </span>
      )}
      <Button
        look="quiet"
        className="header-search"
        aria-label="Commands and search"
        title={`Commands and search (${paletteKey})`}
        onClick={onPalette}
      >
        <LineIcon d="M7 2.5a4.5 4.5 0 1 1 0 9 4.5 4.5 0 0 1 0-9m3.3 7.8 3.7 3.7" />
      </Button>
      <Button look="quiet" className="header-help" aria-label="Keyboard shortcuts" onClick={onHelp}>
        ?
      </Button>
      <AccountMenu />
    </header>
  );
}

/** On a narrow screen, a button with the name of the current page opens the list. */
function MainNavigation() {
  const [path] = useLocation();
  const { isOpen, setOpen, ref, button } = useMenu<HTMLElement>();
  const listId = useId();
  const pages = pagesFor(useSignedIn().caller);
  const current = pages.find(({ pattern }) => pattern.test(path));
  const fleet = useFleet();
  const needing = useSyncExternalStore(fleet.subscribe, fleet.needingCaller);
  return (
    <nav aria-label="Main" ref={ref} onBlur={(event) => hasLeft(event) && setOpen(false)}>
      <Button
        ref={button}
        look="quiet"
        className="nav-menu"
        aria-expanded={isOpen}
        aria-controls={listId}
        onClick={() => setOpen(!isOpen)}
      >
        <span className="visually-hidden">Pages: </span>
        {current?.title ?? 'Menu'}
        <ExpandIcon />
      </Button>
      <div className="nav-links" id={listId} data-open={isOpen}>
        {pages.map((page) => (
          <Link
            key={page.href}
            href={page.href}
            className="nav-link"
            onClick={() => setOpen(false)}
            {...(page === current && { 'aria-current': 'page' })}
          >
            {page.title}
            {page.href === '/inbox' && needing > 0 && (
              <>
                {' '}
                <span className="nav-count">{needing.toLocaleString()}</span>
              </>
            )}
          </Link>
        ))}
        <a href="/docs" className="nav-link">
          API
        </a>
      </div>
    </nav>
  );
}

/** Whether the focus went to something else on the page. */
const hasLeft = ({ currentTarget, relatedTarget }: FocusEvent): boolean =>
  relatedTarget !== null && !currentTarget.contains(relatedTarget);

/** Escape and a click outside close the menu. The focus goes back to its button. */
function useMenu<E extends HTMLElement>() {
  const [isOpen, setOpen] = useState(false);
  const ref = useRef<E>(null);
  const button = useRef<HTMLButtonElement>(null);
  const close = useCallback(() => {
    setOpen(false);
    // The focused element was in the menu.
    if (ref.current?.contains(document.activeElement)) button.current?.focus();
  }, []);
  useDismiss(ref, isOpen, close);
  return { isOpen, setOpen, close, ref, button };
}

function AccountMenu() {
  const session = useSession();
  const { isOpen, setOpen, close, ref, button } = useMenu<HTMLDivElement>();
  const [showsSessions, setShowsSessions] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const panelId = useId();

  if (session.state !== 'in') return null;
  const { caller } = session;
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: the element only watches the focus leave.
    <div className="account-menu" ref={ref} onBlur={(event) => hasLeft(event) && setOpen(false)}>
      <Button
        ref={button}
        look="quiet"
        aria-expanded={isOpen}
        aria-controls={isOpen ? panelId : undefined}
        onClick={() => setOpen(!isOpen)}
      >
        <span className="visually-hidden">Account</span>
        <span className="account-initial" aria-hidden="true">
          {caller.account.slice(0, 1).toUpperCase()}
        </span>
        <span className="account-name">{caller.account}</span>
      </Button>
      {isOpen && (
        <AccountPanel
          id={panelId}
          caller={caller}
          error={error}
          onSessions={() => {
            setOpen(false);
            setShowsSessions(true);
          }}
          onClose={close}
          onSignOut={() => void signOut().catch(setError)}
        />
      )}
      {showsSessions && <SessionsDialog onClose={() => setShowsSessions(false)} />}
    </div>
  );
}

interface AccountPanelProps {
  readonly id: string;
  readonly caller: Caller;
  readonly error: unknown;
  readonly onSessions: () => void;
  readonly onClose: () => void;
  readonly onSignOut: () => void;
}

const AccountPanel = ({ id, caller, error, onSessions, onClose, onSignOut }: AccountPanelProps) => (
  <div className="account-panel stack" id={id}>
    <dl>
      <dt>Account</dt>
      <dd>
        {caller.account} <small>{ownerKind(caller.ownerProvider)}</small>
      </dd>
      <dt>Organization</dt>
      <dd>{caller.tenant.org}</dd>
      <dt>Role</dt>
      <dd>{caller.role}</dd>
      <dt>Key</dt>
      <dd>
        <code>{caller.keyId}</code>
      </dd>
      {caller.expiresAt && (
        <>
          <dt>Expires</dt>
          <dd>
            <Moment at={caller.expiresAt} />
          </dd>
        </>
      )}
    </dl>
    <ThemeChoice />
    <Problem error={error} />
    <div className="account-actions">
      <Link href="/notifications" className="button button-plain" onClick={onClose}>
        Notifications
      </Link>
      <Link href="/settings" className="button button-plain" onClick={onClose}>
        Settings
      </Link>
      <Button onClick={onSessions}>Sessions and keys</Button>
      <Button onClick={onSignOut}>Sign out</Button>
    </div>
  </div>
);

/** Shown while the service is unavailable and the page shows old data. The streams reconnect without a reload. */
export function ConnectionBanner() {
  const outage = useOutage();
  return (
    <div role="status" aria-live="polite">
      {outage && <OutageNotice sinceMs={outage.sinceMs} />}
    </div>
  );
}

function OutageNotice({ sinceMs }: { readonly sinceMs: number }) {
  const seconds = Math.max(0, Math.round((useNow() - sinceMs) / 1000));
  return (
    <p className="connection-banner">
      <strong>The service is unavailable.</strong> Last update{' '}
      <span aria-hidden="true">{seconds < 2 ? 'a moment' : `${seconds} s`} ago</span>. Reconnecting …
    </p>
  );
}

import type { Caller } from '@muster/sdk';
import { providerName } from '@muster/sdk/contract';
import { type FocusEvent, useCallback, useId, useRef, useState } from 'react';
import { Link, useLocation } from 'wouter';
import iconUrl from '../icon.svg';
import { Button, ExpandIcon } from '../parts/button.tsx';
import { Dialog, useDismiss } from '../parts/dialog.tsx';
import { Problem } from '../parts/problem.tsx';
import { ThemeChoice } from '../parts/theme.tsx';
import { Moment, useNow } from '../parts/times.tsx';
import { useOutage } from '../session/connection.ts';
import { signOut, useSession, useSignedIn } from '../session/session.ts';
import { SessionsDialog } from '../session/session-dialogs.tsx';
import { maySpawn } from '../spawn/open-spawn.ts';
import './shell.css';

export function Header({ onSpawn, onHelp }: { readonly onSpawn: () => void; readonly onHelp: () => void }) {
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
      <Button look="quiet" className="header-help" aria-label="Keyboard shortcuts" onClick={onHelp}>
        ?
      </Button>
      <AccountMenu />
    </header>
  );
}

const pages = [
  ['Agents', '/', /^\/($|agents\/)/],
  ['Catalog', '/catalog', /^\/catalog/],
  ['Schedules', '/schedules', /^\/schedules/],
  ['Spend', '/spend', /^\/spend$/],
  ['Runners', '/runners', /^\/runners$/],
  ['Team', '/team', /^\/team$/],
  ['Activity', '/activity', /^\/activity$/],
] as const;

const isForAdmins = (href: string): boolean => href === '/activity' || href === '/team';

/** On a narrow screen, a button with the name of the current page opens the list. */
function MainNavigation() {
  const [path] = useLocation();
  const { isOpen, setOpen, ref, button } = useMenu<HTMLElement>();
  const listId = useId();
  const isAdmin = /^(admin|operator)$/.test(useSignedIn().caller.role);
  const shown = pages.filter(([, href]) => isAdmin || !isForAdmins(href));
  const current = pages.find(([, , isCurrent]) => isCurrent.test(path));
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
        {current?.[0] ?? 'Menu'}
        <ExpandIcon />
      </Button>
      <div className="nav-links" id={listId} data-open={isOpen}>
        {shown.map((page) => (
          <Link
            key={page[1]}
            href={page[1]}
            className="nav-link"
            onClick={() => setOpen(false)}
            {...(page === current && { 'aria-current': 'page' })}
          >
            {page[0]}
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
        {caller.account} <small>{providerName(caller.ownerProvider)}</small>
      </dd>
      <dt>Tenant</dt>
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

const shortcuts: readonly (readonly [keys: string, action: string])[] = [
  ['/', 'Search in the list, or in the transcript'],
  ['j  k', 'Next and previous agent'],
  ['Enter', 'Open the selected agent'],
  ['s', 'Mark the selected agent seen or unseen'],
  ['p', 'Pin or unpin the selected agent'],
  ['x', 'Select the agent; with Shift all from the last one selected'],
  ['.', 'Go to the actions on the selected agents'],
  ['n', 'New agent'],
  ['g', 'Go to agents'],
  ['c', 'Go to the catalog'],
  ['u', 'Go to spend'],
  ['r', 'Go to runners'],
  ['t', 'Go to schedules'],
  ['e', 'Go to the team (admins)'],
  [',', 'Go to the settings'],
  ['a', 'Go to activity (admins)'],
  ['m', 'Write a message (agent page)'],
  ['Home  End', 'First and last entry of the transcript (agent page)'],
  ['n  p', 'Next and previous change (review)'],
  ['t  T', 'Next and previous thread or comment (review)'],
  ['j  k', 'Next and previous file (review)'],
  ['v', 'Mark the file viewed or not viewed (review)'],
  ['Escape', 'Close a dialog, leave the search or clear the selection'],
  ['?', 'Show this help'],
];

export const HelpDialog = ({ onClose }: { readonly onClose: () => void }) => (
  <Dialog title="Keyboard shortcuts" onClose={onClose}>
    <dl className="help-keys">
      {shortcuts.map(([keys, action]) => (
        <div key={action}>
          <dt>
            {keys.split('  ').map((key) => (
              <kbd key={key}>{key}</kbd>
            ))}
          </dt>
          <dd>{action}</dd>
        </div>
      ))}
    </dl>
    <p>
      Everything here is also available in the <a href="/docs">API</a> and in the <code>muster</code> command.
    </p>
  </Dialog>
);

import { providerName } from '@muster/sdk/contract';
import { useCallback, useId, useRef, useState } from 'react';
import { Button } from '../parts/button.tsx';
import { useDismiss } from '../parts/dialog.tsx';
import { Problem } from '../parts/problem.tsx';
import { Moment } from '../parts/times.tsx';
import { signOut } from '../session/session.ts';
import { SessionsDialog } from '../session/sessions-dialog.tsx';
import { useSession } from '../session/use-session.ts';
import { chooseTheme, themes, useTheme } from './theme.ts';
import './account-menu.css';

/** Who is signed in and where; the theme. */
export function AccountMenu() {
  const session = useSession();
  const [isOpen, setOpen] = useState(false);
  const [showsSessions, setShowsSessions] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const ref = useRef<HTMLDivElement>(null);

  const button = useRef<HTMLButtonElement>(null);
  const panelId = useId();
  const close = useCallback(() => {
    setOpen(false);
    // What had the focus in it is gone.
    if (ref.current?.contains(document.activeElement)) button.current?.focus();
  }, []);
  useDismiss(ref, isOpen, close);

  if (session.state !== 'in') return null;
  const { caller } = session;
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: the focus leaves it by the keyboard, and nothing is to be done in it.
    <div
      className="account-menu"
      ref={ref}
      onBlur={(event) => {
        if (event.relatedTarget && !event.currentTarget.contains(event.relatedTarget)) setOpen(false);
      }}
    >
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
        <div className="account-panel" id={panelId}>
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
                <dt>Until</dt>
                <dd>
                  <Moment at={caller.expiresAt} />
                </dd>
              </>
            )}
          </dl>
          <ThemeChoice />
          <Problem error={error} />
          <div className="account-actions">
            <Button
              onClick={() => {
                setOpen(false);
                setShowsSessions(true);
              }}
            >
              Sessions
            </Button>
            <Button onClick={() => void signOut().catch(setError)}>Sign out</Button>
          </div>
        </div>
      )}
      {showsSessions && <SessionsDialog onClose={() => setShowsSessions(false)} />}
    </div>
  );
}

export function ThemeChoice() {
  const chosen = useTheme();
  return (
    <fieldset className="theme-choice">
      <legend>Theme</legend>
      {themes.map((theme) => (
        <label key={theme}>
          <input type="radio" name="theme" checked={theme === chosen} onChange={() => chooseTheme(theme)} />
          {theme}
        </label>
      ))}
    </fieldset>
  );
}

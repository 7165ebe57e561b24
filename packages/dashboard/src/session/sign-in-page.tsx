import { UnauthenticatedError } from '@muster/sdk';
import { type FormEvent, useEffect, useRef, useState } from 'react';
import iconUrl from '../icon.svg';
import { Button } from '../parts/button.tsx';
import { TextField } from '../parts/field.tsx';
import { useTitle } from '../parts/page.tsx';
import { Problem } from '../parts/problem.tsx';
import { ThemeChoice } from '../parts/theme.tsx';
import { useInstallation } from './installation.ts';
import { readProviders, signInWithKey } from './session.ts';
import './session.css';

const unknownKey = 'Unknown key. It may have expired or been revoked.';

/** Signs in with a provider, or exchanges a key for a session. The key is not stored. */
export function SignInPage({ reason }: { readonly reason: string }) {
  const [error, setError] = useState<unknown>(reason === '' ? null : new Error(reason));
  const providers = useProviders(setError);
  useTitle('Sign in · Muster');
  return (
    <main className="sign-in">
      <div className="sign-in-card">
        <img src={iconUrl} alt="" width="48" height="48" />
        <h1 id="sign-in-title">Sign in to Muster</h1>
        <Problem error={error} />
        {providers.length > 0 && (
          <>
            <ul className="sign-in-providers" aria-label="Sign in with">
              {providers.map(({ name, title, address }) => (
                <li key={name}>
                  <a className="button button-primary" href={address}>
                    Sign in with {title}
                  </a>
                </li>
              ))}
            </ul>
            <p className="sign-in-or">or with a key</p>
          </>
        )}
        <KeyForm isFirst={providers.length === 0} onError={setError} />
        <OpenCommand />
        <ThemeChoice />
      </div>
    </main>
  );
}

function OpenCommand() {
  const installation = useInstallation();
  if (!installation) return null;
  return (
    <p>
      To sign in without a key, run <code>{installation.command} open</code> on the machine of the service, in
      its folder.
    </p>
  );
}

/** Without an answer, a key still signs in. */
function useProviders(onRefusal: (error: Error) => void) {
  const [providers, setProviders] = useState<Awaited<ReturnType<typeof readProviders>>['providers']>([]);
  const report = useRef(onRefusal);
  useEffect(() => {
    readProviders().then(
      ({ providers, refusal }) => {
        setProviders(providers);
        if (refusal !== '') report.current(new Error(refusal));
      },
      () => {},
    );
  }, []);
  return providers;
}

interface KeyFormProps {
  /** The only way to sign in. */
  readonly isFirst: boolean;
  readonly onError: (error: unknown) => void;
}

function KeyForm({ isFirst, onError }: KeyFormProps) {
  const [key, setKey] = useState('');
  const input = useRef<HTMLInputElement>(null);
  const [isBusy, setBusy] = useState(false);

  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    try {
      await signInWithKey(key.trim());
    } catch (thrown) {
      onError(thrown instanceof UnauthenticatedError ? new Error(unknownKey) : thrown);
      setBusy(false);
      input.current?.select();
    }
  };

  return (
    <form onSubmit={submit} aria-labelledby="sign-in-title">
      <TextField
        label="Key"
        hint="Starts with mst_. The first key is in the service's data folder."
        ref={input}
        type="password"
        value={key}
        onChange={setKey}
        placeholder="mst_…"
        isCode
        required
        autoFocus={isFirst}
      />
      <Button type="submit" look={isFirst ? 'primary' : 'plain'} disabled={isBusy || key.trim() === ''}>
        {isBusy ? 'Signing in …' : isFirst ? 'Sign in' : 'Sign in with key'}
      </Button>
    </form>
  );
}

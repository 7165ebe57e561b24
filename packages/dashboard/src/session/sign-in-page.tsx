import { UnauthenticatedError } from '@muster/sdk';
import { type FormEvent, useRef, useState } from 'react';
import iconUrl from '../icon.svg';
import { Button } from '../parts/button.tsx';
import { TextField } from '../parts/field.tsx';
import { useTitle } from '../parts/page.tsx';
import { Problem } from '../parts/problem.tsx';
import { ThemeChoice } from '../parts/theme.tsx';
import { signInWithKey } from './session.ts';
import './session.css';

const unknownKey = 'Unknown key. It may have expired or been revoked.';

/** Exchanges a key for a session. The key is not stored. */
export function SignInPage({ reason }: { readonly reason: string }) {
  const [key, setKey] = useState('');
  const input = useRef<HTMLInputElement>(null);
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(reason === '' ? null : new Error(reason));

  useTitle('Sign in · Muster');

  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    try {
      await signInWithKey(key.trim());
    } catch (thrown) {
      setError(thrown instanceof UnauthenticatedError ? new Error(unknownKey) : thrown);
      setBusy(false);
      input.current?.select();
    }
  };

  return (
    <main className="sign-in">
      <form onSubmit={submit} aria-labelledby="sign-in-title">
        <img src={iconUrl} alt="" width="48" height="48" />
        <h1 id="sign-in-title">Sign in to Muster</h1>
        <Problem error={error} />
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
          autoFocus
        />
        <Button type="submit" look="primary" disabled={isBusy || key.trim() === ''}>
          {isBusy ? 'Signing in …' : 'Sign in'}
        </Button>
        <p>
          On the service's machine, run <code>muster open</code> to sign in without a key.
        </p>
        <ThemeChoice />
      </form>
    </main>
  );
}

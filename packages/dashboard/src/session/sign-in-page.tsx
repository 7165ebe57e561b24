import { UnauthenticatedError } from '@muster/sdk';
import { type FormEvent, useRef, useState } from 'react';
import iconUrl from '../icon.svg';
import { Button } from '../parts/button.tsx';
import { Field } from '../parts/field.tsx';
import { useTitle } from '../parts/page.tsx';
import { Problem } from '../parts/problem.tsx';
import { ThemeChoice } from '../shell/account-menu.tsx';
import { signInWithKey } from './session.ts';
import './sign-in-page.css';

const unknownKey = 'The service does not know this key. It may have expired, or was revoked.';

/** For somebody without a session: a key is pasted, exchanged for a session, and forgotten. */
export function SignInPage({ why }: { readonly why: string }) {
  const [key, setKey] = useState('');
  const input = useRef<HTMLInputElement>(null);
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(why === '' ? null : new Error(why));

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
        <Field label="Key" hint="It begins with mst_. The first one is in the data folder of the service.">
          {(attributes) => (
            <input
              {...attributes}
              ref={input}
              type="password"
              value={key}
              onChange={(event) => setKey(event.target.value)}
              placeholder="mst_…"
              autoComplete="off"
              spellCheck={false}
              required
              // biome-ignore lint/a11y/noAutofocus: it is the one thing to do on this page.
              autoFocus
            />
          )}
        </Field>
        <Button type="submit" look="primary" disabled={isBusy || key.trim() === ''}>
          {isBusy ? 'Signing in …' : 'Sign in'}
        </Button>
        <p>
          On the machine of the service, <code>muster open</code> opens this page signed in.
        </p>
        <ThemeChoice />
      </form>
    </main>
  );
}

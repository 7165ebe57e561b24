import type { PendingLogin } from '@muster/sdk';
import { limits } from '@muster/sdk/contract';
import { useMutation } from '@tanstack/react-query';
import { type FormEvent, useEffect, useState } from 'react';
import { Button } from '../parts/button.tsx';
import { TextField } from '../parts/field.tsx';
import { Facts } from '../parts/list-page.tsx';
import { useTitle } from '../parts/page.tsx';
import { Problem } from '../parts/problem.tsx';
import { Age, Moment } from '../parts/times.tsx';
import { useClient, useSignedIn } from '../session/session.ts';
import './device.css';

/**
 * Where a person approves a command line that signs in. A link to this page only fills in the code: anyone can send a
 * link, so the page says who asks, and the person decides with a button.
 */
export function DevicePage() {
  const [answer, setAnswer] = useState<'approved' | 'denied' | null>(null);
  const client = useClient();
  const find = useMutation({ mutationFn: (userCode: string) => client.showLogin(userCode) });
  useTitle('Sign in a command line · Muster');
  if (answer) return <Answered answer={answer} />;
  return (
    <div className="device-page stack">
      <h1>Sign in a command line</h1>
      {find.data ? (
        <Request key={find.data.userCode} login={find.data} onAnswer={setAnswer} onBack={find.reset} />
      ) : (
        <CodeForm isBusy={find.isPending} error={find.error} onCode={find.mutate} />
      )}
    </div>
  );
}

/** The code in the fragment of a link, which browsers do not send to servers. */
const codeInUrl = (): string =>
  (/^#([A-Za-z]{4}-?[A-Za-z]{4})$/.exec(location.hash)?.[1] ?? '').toUpperCase();

interface CodeFormProps {
  readonly isBusy: boolean;
  readonly error: unknown;
  readonly onCode: (userCode: string) => void;
}

function CodeForm({ isBusy, error, onCode }: CodeFormProps) {
  const [code, setCode] = useState(codeInUrl);
  // A link that is opened in this tab while the page is open.
  useEffect(() => {
    const read = () => setCode(codeInUrl());
    addEventListener('hashchange', read);
    return () => removeEventListener('hashchange', read);
  }, []);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    onCode(code);
  };
  return (
    <form className="stack" onSubmit={submit}>
      <p>
        <code>muster login</code> shows a code. Enter it here if you have just run that command.
      </p>
      <TextField
        label="Code"
        value={code}
        onChange={(text) => setCode(text.toUpperCase())}
        placeholder="BCDF-GHJK"
        maxLength={32}
        isCode
        required
        autoFocus
      />
      <Problem error={error} />
      <Button type="submit" look="primary" disabled={isBusy || code.trim() === ''}>
        {isBusy ? 'Looking …' : 'Continue'}
      </Button>
    </form>
  );
}

interface RequestProps {
  readonly login: PendingLogin;
  readonly onAnswer: (answer: 'approved' | 'denied') => void;
  readonly onBack: () => void;
}

/** Who asks, for what, from where and since when. */
function Request({ login, onAnswer, onBack }: RequestProps) {
  const { client, caller } = useSignedIn();
  const { mutate, error, isPending } = useMutation({
    mutationFn: (approve: boolean) => client.answerLogin(login.userCode, approve),
    onSuccess: (_, approve) => onAnswer(approve ? 'approved' : 'denied'),
  });
  return (
    <section className="stack" aria-labelledby="device-code">
      <p>A command line asks to use Muster as you. Its code is</p>
      <p id="device-code" className="device-code">
        {login.userCode}
      </p>
      <Facts>
        <dt>Program</dt>
        <dd>
          {login.client} <small>This is what it says of itself. It is not verified.</small>
        </dd>
        <dt>Address</dt>
        <dd>
          <code>{login.address}</code>
        </dd>
        <dt>Asked</dt>
        <dd>
          <Age since={login.createdAt} /> ago (<Moment at={login.createdAt} />)
        </dd>
        <dt>It gets</dt>
        <dd>
          a key of <strong>{caller.account}</strong> with the role <strong>{caller.role}</strong>, until{' '}
          {limits.loginKeyDays} days after its last use
        </dd>
      </Facts>
      <p className="device-warning">
        Approve only if you ran <code>muster login</code> yourself and it shows this code. If somebody sent
        you the code or the link, deny it: they would act as you.
      </p>
      <Problem error={error}>
        <Button onClick={onBack}>Enter another code</Button>
      </Problem>
      <div className="device-actions wrap">
        <Button disabled={isPending} onClick={() => mutate(false)}>
          Deny
        </Button>
        <Button look="primary" disabled={isPending} onClick={() => mutate(true)}>
          Approve
        </Button>
      </div>
    </section>
  );
}

const Answered = ({ answer }: { readonly answer: 'approved' | 'denied' }) => (
  <div className="device-page stack" role="status">
    <h1>{answer === 'approved' ? 'Approved' : 'Denied'}</h1>
    <p>
      {answer === 'approved'
        ? 'The command line is signed in. You can close this page. Your keys are listed under Account, Sessions and keys.'
        : 'The command line gets no key. You can close this page.'}
    </p>
  </div>
);

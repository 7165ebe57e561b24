import type { Caller, MusterClient } from '@muster/sdk';
import { type NotificationDocument, providerName } from '@muster/sdk/contract';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { readResource } from '../../catalog/view/queries.ts';
import { Button } from '../../parts/button.tsx';
import { TextField } from '../../parts/field.tsx';
import { Mark } from '../../parts/page.tsx';
import { fieldProblem, Problem } from '../../parts/problem.tsx';
import { useClient, useSignedIn } from '../../session/session.ts';
import { QuietHours } from './quiet-hours.tsx';

const emailKey = ['own-email'];

/** The person's own notification of the catalog: its name has the account. */
const nameFor = ({ ownerProvider, account }: Caller): string =>
  `email-${providerName(ownerProvider)}-${account}`.replace(/[^\w.-]/g, '-').slice(0, 128);

const accountOf = ({ ownerProvider, account }: Caller): string => `${providerName(ownerProvider)}/${account}`;

async function readOwn(client: MusterClient, caller: Caller, signal: AbortSignal) {
  const found = await readResource(client, 'notification', nameFor(caller), signal);
  return (found?.document ?? null) as NotificationDocument | null;
}

export function EmailCard({ hasMail }: { readonly hasMail: boolean }) {
  const client = useClient();
  const { caller } = useSignedIn();
  const mayWrite = caller.role === 'admin' || caller.role === 'member';
  const { data, error, isPending } = useQuery({
    queryKey: emailKey,
    enabled: hasMail && mayWrite,
    queryFn: ({ signal }) => readOwn(client, caller, signal),
  });
  const isOn = Boolean(data?.to?.length) && data?.paused !== true;
  return (
    <section className="notify-card stack" aria-label="Email">
      <div className="notify-row">
        <h2>Email</h2>
        <Mark tone={isOn ? 'good' : 'quiet'}>{isOn ? 'on' : 'off'}</Mark>
      </div>
      {!hasMail && <p>This service can’t send email: the person who runs it has to set up a mail server.</p>}
      {hasMail && !mayWrite && (
        <p>Your role ({caller.role}) may not set it up. An admin can do it for you.</p>
      )}
      <Problem error={error} />
      {hasMail && mayWrite && !isPending && !error && <EmailForm document={data ?? null} />}
    </section>
  );
}

type Quiet = Parameters<typeof QuietHours>[0]['value'];

interface EmailChoice {
  readonly address: string;
  readonly quiet: Quiet;
}

/** What a person does with the own notification. */
function useEmail(document: NotificationDocument | null) {
  const client = useClient();
  const queries = useQueryClient();
  const { caller } = useSignedIn();
  const name = nameFor(caller);
  const onSuccess = () => queries.invalidateQueries({ queryKey: emailKey });
  const save = useMutation({
    mutationFn: ({ address, quiet }: EmailChoice) => {
      const { pausedReason: _, quietHours: __, ...kept } = document ?? {};
      return client.catalog.write('notification', name, {
        ...{ ...kept, type: 'email', to: [address.trim()], paused: false },
        ...(quiet && { quietHours: quiet }),
        account: accountOf(caller),
      });
    },
    onSuccess,
  });
  const off = useMutation({ mutationFn: () => client.catalog.delete('notification', name), onSuccess });
  const test = useMutation({ mutationFn: () => client.notifications.test(name) });
  return { save, off, test };
}

function EmailForm({ document }: { readonly document: NotificationDocument | null }) {
  const { save, off, test } = useEmail(document);
  const stored = document?.to?.[0] ?? '';
  const { from = '', to = '', zone = 'UTC' } = document?.quietHours ?? {};
  const storedQuiet = from && to ? { from, to, zone } : null;
  const [address, setAddress] = useState(stored);
  const [quiet, setQuiet] = useState<Quiet>(storedQuiet);
  const isSame = address === stored && JSON.stringify(quiet) === JSON.stringify(storedQuiet);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    save.mutate({ address, quiet });
  };
  return (
    <form className="stack" onSubmit={submit}>
      {document?.paused && <p>Paused. {document.pausedReason}</p>}
      <TextField
        label="Address"
        type="email"
        autoComplete="email"
        required
        value={address}
        onChange={setAddress}
        error={fieldProblem(save.error, 'to[0]')}
      />
      {stored !== '' && <QuietHours value={quiet} onChange={setQuiet} />}
      <div className="wrap">
        <Button type="submit" disabled={save.isPending || (isSame && !document?.paused)}>
          {stored === '' ? 'Turn on' : 'Save'}
        </Button>
        {stored !== '' && (
          <>
            <Button disabled={test.isPending} onClick={() => test.mutate()}>
              {test.isPending ? 'Sending …' : 'Send a test'}
            </Button>
            <Button disabled={off.isPending} onClick={() => off.mutate()}>
              Turn off
            </Button>
          </>
        )}
      </div>
      <p role="status" className="secondary">
        {test.data && (test.data.state === 'SENT' ? 'Sent.' : `Not sent: ${test.data.error}`)}
      </p>
      <Problem error={save.error ?? off.error ?? test.error} />
    </form>
  );
}

import type { PushSubscription } from '@muster/sdk';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { type ReactNode, useState } from 'react';
import { Button } from '../../parts/button.tsx';
import { SelectField } from '../../parts/field.tsx';
import { Mark } from '../../parts/page.tsx';
import { Problem } from '../../parts/problem.tsx';
import { useClient, usePerson } from '../../session/session.ts';
import {
  type Obstacle,
  obstacle,
  type PushChoice,
  pushKey,
  storedChoice,
  turnOff,
  turnOn,
} from '../model/push.ts';
import { QuietHours } from './quiet-hours.tsx';

const explained: Readonly<Record<Exclude<Obstacle, null>, ReactNode>> = {
  insecure:
    'Browsers show notifications only of pages on HTTPS. Ask the person who runs this service to set it up.',
  unsupported:
    'This browser can’t show notifications of a page. On an iPhone or iPad, add this page to the home screen and open it from there.',
  denied:
    'Notifications of this site are blocked. Allow them in the settings of the site, behind the icon to the left of its address, and reload the page.',
};

/** Turns the notifications of this browser on and off. */
export function ThisBrowser({ current }: { readonly current: PushSubscription | null }) {
  const client = useClient();
  const person = usePerson();
  const queries = useQueryClient();
  const onSettled = () => queries.invalidateQueries({ queryKey: pushKey });
  const change = useMutation({
    mutationFn: (choice: PushChoice) => turnOn(client, person, choice),
    onSettled,
  });
  const off = useMutation({ mutationFn: (id: string) => turnOff(client, person, id), onSettled });
  const why = obstacle();
  const isOn = current !== null && why === null;
  // Shown until the service has it: a field whose value goes back for a moment loses what is being typed.
  const [draft, setDraft] = useState<PushChoice | null>(null);
  const choice = draft ?? current ?? storedChoice(person) ?? { scope: 'MINE', quietHours: null };
  const set = (changed: Partial<PushChoice>) => {
    const chosen = { scope: choice.scope, quietHours: choice.quietHours, ...changed };
    setDraft(chosen);
    change.mutate(chosen, { onSettled: () => setDraft(null) });
  };
  return (
    <section className="notify-card stack" aria-label="This browser">
      <div className="notify-row">
        <h2>This browser</h2>
        <Mark tone={isOn ? 'good' : 'quiet'}>{isOn ? 'on' : 'off'}</Mark>
      </div>
      {why && <p>{explained[why]}</p>}
      {!isOn && !why && (
        <>
          <p>Shows a notification when an agent needs you, also while this page is closed.</p>
          <div>
            <Button look="primary" disabled={change.isPending} onClick={() => set({})}>
              {change.isPending ? 'Turning on …' : 'Turn on'}
            </Button>
          </div>
        </>
      )}
      {isOn && (
        <>
          <SelectField
            label="About"
            value={choice.scope}
            options={[
              ['MINE', 'My agents'],
              ['ALL', 'All agents that I may read'],
            ]}
            onChange={(scope) => set({ scope: scope as PushChoice['scope'] })}
          />
          <QuietHours value={choice.quietHours} onChange={(quietHours) => set({ quietHours })} />
          <TestButtons id={current.id} onOff={() => off.mutate(current.id)} isBusy={off.isPending} />
        </>
      )}
      <Problem error={change.error ?? off.error} />
    </section>
  );
}

interface TestButtonsProps {
  readonly id: string;
  readonly isBusy: boolean;
  readonly onOff: () => void;
}

function TestButtons({ id, isBusy, onOff }: TestButtonsProps) {
  const client = useClient();
  const queries = useQueryClient();
  const test = useMutation({
    mutationFn: () => client.testPush(id),
    onSettled: () => queries.invalidateQueries({ queryKey: pushKey }),
  });
  return (
    <>
      <div className="wrap">
        <Button disabled={test.isPending} onClick={() => test.mutate()}>
          {test.isPending ? 'Sending …' : 'Send a test'}
        </Button>
        <Button disabled={isBusy} onClick={onOff}>
          Turn off
        </Button>
      </div>
      <p role="status" className="secondary">
        {test.data?.state === 'SENT' &&
          'Sent. If nothing appears, the operating system may not allow notifications of this browser.'}
        {test.data && test.data.state !== 'SENT' && `Not sent: ${test.data.error}`}
      </p>
      <Problem error={test.error} />
    </>
  );
}

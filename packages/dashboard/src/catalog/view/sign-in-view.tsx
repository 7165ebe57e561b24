import type { SignInAttempt } from '@muster/sdk';
import { providerName } from '@muster/sdk/contract';
import { useQuery } from '@tanstack/react-query';
import { CopyButton } from '../../parts/button.tsx';
import type { Tone } from '../../parts/model/tone.ts';
import { Mark } from '../../parts/page.tsx';
import { Problem } from '../../parts/problem.tsx';
import { Moment } from '../../parts/times.tsx';
import { useClient } from '../../session/session.ts';
import { ChecksSection } from './deliveries.tsx';

const pollMs = 5_000;

/** What the provider has to know, whether people can sign in, and who did: with the claims, and the rules that matched. */
export function SignInView({ name, redirectUri }: { readonly name: string; readonly redirectUri: string }) {
  const client = useClient();
  return (
    <div className="connection stack">
      <section aria-labelledby="connection-address" className="stack">
        <h2 id="connection-address">Redirect URI</h2>
        <p className="connection-url wrap">
          <code>{redirectUri}</code>
          <CopyButton text={redirectUri} what="redirect URI" />
        </p>
        <p className="secondary">Enter it at the provider, where you create the client.</p>
      </section>
      <ChecksSection
        id={`sign-in/${name}`}
        test={(signal) => client.signIns.test(name, { signal })}
        waiting="Asking the provider …"
      />
      <AttemptsSection name={name} />
    </div>
  );
}

function AttemptsSection({ name }: { readonly name: string }) {
  const client = useClient();
  const attempts = useQuery({
    queryKey: ['sign-ins', name],
    queryFn: ({ signal }) => client.signIns.list(name, {}, { signal }),
    // Sign-ins come from outside, so nothing reports them to the page.
    refetchInterval: pollMs,
  });
  return (
    <section aria-labelledby="sign-ins" className="stack">
      <h2 id="sign-ins">Last sign-ins</h2>
      <Problem error={attempts.error} />
      {attempts.data?.length === 0 && (
        <p className="secondary">None yet. Sign in with it in a private window to see which claims arrive.</p>
      )}
      {attempts.data !== undefined && attempts.data.length > 0 && (
        <ul aria-label="Last sign-ins" className="sign-in-attempts">
          {attempts.data.map((attempt) => (
            <Attempt key={attempt.id} attempt={attempt} />
          ))}
        </ul>
      )}
    </section>
  );
}

const marks: Readonly<Record<SignInAttempt['outcome'], readonly [text: string, tone: Tone]>> = {
  ACCEPTED: ['accepted', 'good'],
  REFUSED: ['refused', 'bad'],
  FAILED: ['failed', 'bad'],
};

function Attempt({ attempt }: { readonly attempt: SignInAttempt }) {
  const { outcome, ownerProvider, account, displayName, subject, role, rule, reason, claims, at } = attempt;
  const [text, tone] = marks[outcome];
  const who = displayName || account || 'Unknown person';
  return (
    <li>
      <Mark tone={tone}>{text}</Mark>
      <span className="delivery-event">
        <b>{who}</b>
        {account !== '' && (
          <span className="secondary">
            {providerName(ownerProvider)}/{account}
            {role !== '' && `, ${role}`}
          </span>
        )}
        {rule !== '' && <span className="secondary">{rule}</span>}
        {reason !== '' && <span className="secondary">{reason}</span>}
        {subject !== '' && (
          <details>
            <summary>
              Claims<span className="visually-hidden"> of {who}</span>
            </summary>
            <pre>{JSON.stringify({ sub: subject, ...claims }, null, 2)}</pre>
          </details>
        )}
      </span>
      <span className="secondary">
        <Moment at={at} />
      </span>
    </li>
  );
}

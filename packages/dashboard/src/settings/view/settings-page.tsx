import { type Kind, kindTable } from '@muster/sdk/contract';
import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { Link } from 'wouter';
import { isAdmin } from '../../live/model/allowed-actions.ts';
import { resourcesQuery } from '../../live/resources.ts';
import { Mark, useTitle } from '../../parts/page.tsx';
import { Problem } from '../../parts/problem.tsx';
import { OwnKeys } from '../../session/keys-section.tsx';
import { useClient, useSignedIn } from '../../session/session.ts';
import { OwnSessions } from '../../session/session-dialogs.tsx';
import { type Shown, shownOf } from '../model/shown.ts';
import '../settings.css';

/** What is set up, in one place: each section lists what there is, and links to where it is changed. */
export function SettingsPage() {
  const { caller } = useSignedIn();
  useTitle('Settings · Muster');
  return (
    <div className="settings-page stack">
      <h1>Settings</h1>
      <Section title="Your notifications">
        <p>
          Which browsers and which address get a message when your agents need you:{' '}
          <Link href="/notifications">change your notifications</Link>.
        </p>
      </Section>
      <Section title="Your sessions">
        <OwnSessions />
      </Section>
      <Section title="Your keys">
        <OwnKeys />
      </Section>
      {isAdmin(caller) && (
        <>
          <Documents kind="sign-in" none="Nobody can sign in with a provider: everyone needs a key." />
          <Documents
            kind="secret"
            none="No secrets. Agents get them as variables, and no reply shows them."
          />
          <Documents kind="integration" none="No integration. Agents open no change requests." />
        </>
      )}
      <Documents kind="notification" none="No messages by webhook, Slack or email." />
      {isAdmin(caller) && (
        <Section title="People">
          <p>
            Roles, keys and sessions of everyone: <Link href="/team">Team</Link>.
          </p>
        </Section>
      )}
    </div>
  );
}

const Section = ({ title, children }: { readonly title: string; readonly children: ReactNode }) => (
  <section className="settings-card stack" aria-label={title}>
    <h2>{title}</h2>
    {children}
  </section>
);

interface DocumentsProps {
  readonly kind: Kind;
  /** What it means that there is none. */
  readonly none: string;
}

const mostShown = 10;

/** The documents of a kind with their state, and links to the catalog. */
function Documents({ kind, none }: DocumentsProps) {
  const { data: entries, error } = useQuery(resourcesQuery(useClient(), kind));
  const { one, title } = kindTable[kind];
  return (
    <Section title={title}>
      <Problem error={error} />
      {!entries && !error && <p className="secondary">Loading …</p>}
      {entries?.length === 0 && <p className="secondary">{none}</p>}
      {entries && entries.length > 0 && (
        <ul className="settings-list stack">
          {entries.slice(0, mostShown).map(({ name, document }) => (
            <Row key={name} kind={kind} shown={shownOf(kind, name, document, Date.now())} />
          ))}
        </ul>
      )}
      <p>
        <Link href={`/catalog/${kind}`}>
          {entries && entries.length > mostShown
            ? `All ${entries.length} ${one}s`
            : `${title} in the catalog`}
        </Link>
      </p>
    </Section>
  );
}

const Row = ({ kind, shown: { name, text, state } }: { readonly kind: Kind; readonly shown: Shown }) => (
  <li className="settings-row">
    <span>
      <Link href={`/catalog/${kind}/${encodeURIComponent(name)}`}>{name}</Link>
      <small>{text}</small>
    </span>
    {state && <Mark tone={state[1]}>{state[0]}</Mark>}
  </li>
);

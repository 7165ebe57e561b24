import type { Member } from '@muster/sdk';
import { dollars, providerName } from '@muster/sdk/contract';
import { useInfiniteQuery } from '@tanstack/react-query';
import { useRef, useState } from 'react';
import { Link } from 'wouter';
import { isAdmin } from '../../live/model/allowed-actions.ts';
import { Button } from '../../parts/button.tsx';
import { SearchField } from '../../parts/field.tsx';
import { Empty, Mark, useShortcuts, useTitle } from '../../parts/page.tsx';
import { Problem } from '../../parts/problem.tsx';
import { Age } from '../../parts/times.tsx';
import { useSignedIn } from '../../session/session.ts';
import { fullName, personName, stateOf } from '../model/member.ts';
import { DisableDialog, RoleDialog } from './member-dialogs.tsx';
import { membersQuery } from './queries.ts';
import '../team.css';

/** The people of the tenant: their roles, keys, sessions, live agents and spend. */
export function TeamPage() {
  const { caller } = useSignedIn();
  useTitle('Team · Muster');
  if (isAdmin(caller)) return <Team />;
  return (
    <Empty title="Team" isPage>
      <p>Only admins see the members of the organization. You have the role {caller.role}.</p>
      <p>
        <Link href="/settings">Your sessions and keys</Link>
      </p>
    </Empty>
  );
}

function Team() {
  const { client } = useSignedIn();
  const [text, setText] = useState('');
  const field = useRef<HTMLInputElement>(null);
  useShortcuts({ '/': () => field.current?.focus() });
  const { data, error, refetch, hasNextPage, fetchNextPage, isFetchingNextPage } = useInfiniteQuery(
    membersQuery(client, text),
  );
  const members = data?.pages.flatMap(({ entries }) => entries);
  return (
    <div className="team-page stack">
      <header className="team-head wrap">
        <h1>Team</h1>
        <SearchField
          {...{ field, text }}
          label="Search people"
          placeholder="Search people"
          onSearch={setText}
          onLeave={() => field.current?.blur()}
        />
      </header>
      <Problem error={error}>
        <Button onClick={() => void refetch()}>Try again</Button>
      </Problem>
      {!members && !error && <p className="page-loading">Loading …</p>}
      {members?.length === 0 && <p className="secondary">No account has “{text}” in its name.</p>}
      {members && members.length > 0 && <MemberTable members={members} />}
      {hasNextPage && (
        <Button disabled={isFetchingNextPage} onClick={() => void fetchNextPage()}>
          {isFetchingNextPage ? 'Loading …' : 'Show more'}
        </Button>
      )}
    </div>
  );
}

const MemberTable = ({ members }: { readonly members: readonly Member[] }) => (
  // Wide tables scroll: by keyboard only if they get the focus.
  // biome-ignore lint/a11y/noNoninteractiveTabindex: see above.
  <section className="team-table" aria-label="Members" tabIndex={0}>
    <table>
      <thead>
        <tr>
          <th scope="col">Account</th>
          <th scope="col">Role</th>
          <th scope="col">Last seen</th>
          <th scope="col">Sessions</th>
          <th scope="col">Keys</th>
          <th scope="col">Live agents</th>
          <th scope="col">This month</th>
          <th scope="col">
            <span className="visually-hidden">Actions</span>
          </th>
        </tr>
      </thead>
      <tbody>
        {members.map((member) => (
          <MemberRow key={fullName(member)} member={member} />
        ))}
      </tbody>
    </table>
  </section>
);

function MemberRow({ member }: { readonly member: Member }) {
  const { caller } = useSignedIn();
  const { ownerProvider, account, roleOverride, disabled, lastSignIn, lastSeenAt } = member;
  const [state, tone] = stateOf(member);
  const isSelf = account === caller.account && ownerProvider === caller.ownerProvider;
  const owner = encodeURIComponent(fullName(member));
  return (
    <tr>
      <th scope="row">
        {personName(member)} {isSelf && <strong>you</strong>}
        <small>
          {member.displayName && `${account}, `}
          {lastSignIn ? `signs in with ${lastSignIn}` : providerName(ownerProvider)}
        </small>
      </th>
      <td>
        <Mark tone={tone}>{state}</Mark>
        {roleOverride !== '' && <small>{disabled ? `${roleOverride}, set` : 'set'} by an admin</small>}
      </td>
      <td>
        {lastSeenAt ? (
          <>
            <Age since={lastSeenAt} /> ago
          </>
        ) : (
          '–'
        )}
      </td>
      <td>{member.sessions}</td>
      <td>{member.keys}</td>
      <td>{member.liveAgents > 0 ? <Link href={`/?owner=${owner}`}>{member.liveAgents}</Link> : '0'}</td>
      <td>{dollars(member.spendUsd)}</td>
      <td>{!isSelf && member.role !== 'operator' && <Actions member={member} />}</td>
    </tr>
  );
}

function Actions({ member }: { readonly member: Member }) {
  const [open, setOpen] = useState<'role' | 'disable' | null>(null);
  const close = () => setOpen(null);
  const name = personName(member);
  return (
    <span className="team-actions">
      <Button aria-label={`Set the role of ${name}`} onClick={() => setOpen('role')}>
        Role
      </Button>
      <Button
        aria-label={`${member.disabled ? 'Enable' : 'Disable'} ${name}`}
        onClick={() => setOpen('disable')}
      >
        {member.disabled ? 'Enable' : 'Disable'}
      </Button>
      {open === 'role' && <RoleDialog member={member} onClose={close} />}
      {open === 'disable' && <DisableDialog member={member} onClose={close} />}
    </span>
  );
}

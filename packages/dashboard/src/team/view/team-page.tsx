import type { Member } from '@muster/sdk';
import { dollars } from '@muster/sdk/contract';
import { useInfiniteQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { Link } from 'wouter';
import { isAdmin } from '../../live/model/allowed-actions.ts';
import { Button } from '../../parts/button.tsx';
import { ListPage, TableBox } from '../../parts/list-page.tsx';
import { ownerKind } from '../../parts/model/owner.ts';
import { Empty, Mark, useTitle } from '../../parts/page.tsx';
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
  const list = useInfiniteQuery(membersQuery(client, text));
  const members = list.data?.pages.flatMap(({ entries }) => entries);
  return (
    <ListPage title="Team" things="people" {...{ text, list }} onSearch={setText}>
      {members?.length === 0 && <p className="secondary">No account has “{text}” in its name.</p>}
      {members && members.length > 0 && <MemberTable members={members} />}
    </ListPage>
  );
}

const MemberTable = ({ members }: { readonly members: readonly Member[] }) => (
  <TableBox label="Members" stacks>
    <thead>
      <tr>
        <th scope="col">Account</th>
        <th scope="col" className="text-cell">
          Role
        </th>
        <th scope="col" className="text-cell">
          Last seen
        </th>
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
  </TableBox>
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
          {lastSignIn ? `signs in with ${lastSignIn}` : ownerKind(ownerProvider)}
        </small>
      </th>
      <td className="text-cell" data-label="Role">
        <Mark tone={tone}>{state}</Mark>
        {roleOverride !== '' && <small>{disabled ? `${roleOverride}, set` : 'set'} by an admin</small>}
      </td>
      <td className="text-cell" data-label="Last seen">
        {lastSeenAt ? (
          <>
            <Age since={lastSeenAt} /> ago
          </>
        ) : (
          '–'
        )}
      </td>
      <td data-label="Sessions">{member.sessions}</td>
      <td data-label="Keys">{member.keys}</td>
      <td data-label="Live agents">
        {member.liveAgents > 0 ? <Link href={`/?owner=${owner}`}>{member.liveAgents}</Link> : '0'}
      </td>
      <td data-label="This month">{dollars(member.spendUsd)}</td>
      <td className="whole-row">{!isSelf && member.role !== 'operator' && <Actions member={member} />}</td>
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

import type { BodyOf, Member } from '@muster/sdk';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { Button } from '../../parts/button.tsx';
import { Dialog, DialogActions } from '../../parts/dialog.tsx';
import { SelectField } from '../../parts/field.tsx';
import { Problem } from '../../parts/problem.tsx';
import { ReasonField } from '../../session/reason-field.tsx';
import { useClient } from '../../session/session.ts';
import { disablingText, personName, roleOptions, roleText } from '../model/member.ts';
import { membersKey } from './queries.ts';

interface MemberDialogProps {
  readonly member: Member;
  readonly onClose: () => void;
}

function useUpdate({ member: { account, ownerProvider }, onClose }: MemberDialogProps) {
  const client = useClient();
  const queries = useQueryClient();
  const [justification, setJustification] = useState('');
  const { mutate, error, isPending } = useMutation({
    mutationFn: (change: Pick<BodyOf<'updateMember'>, 'disabled' | 'role'>) =>
      client.updateMember({ account, ownerProvider, justification, ...change }),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: membersKey });
      onClose();
    },
  });
  const reason = <ReasonField value={justification} onChange={setJustification} error={error} />;
  return { mutate, error, isPending, reason };
}

/** Names the person and the consequence. */
export function DisableDialog(props: MemberDialogProps) {
  const { member, onClose } = props;
  const { mutate, error, isPending, reason } = useUpdate(props);
  const isEnabling = member.disabled;
  const verb = isEnabling ? 'Enable' : 'Disable';
  return (
    <Dialog title={`${verb} ${personName(member)}?`} onClose={onClose}>
      <p>
        {isEnabling
          ? `The tokens of ${personName(member)} work again. It has to sign in again. Schedules and triggers that were paused stay paused.`
          : disablingText(member)}
      </p>
      {reason}
      <Problem error={error} />
      <DialogActions>
        <Button onClick={onClose}>Cancel</Button>
        <Button
          look={isEnabling ? 'primary' : 'danger'}
          disabled={isPending}
          onClick={() => mutate({ disabled: !isEnabling })}
        >
          {verb} {personName(member)}
        </Button>
      </DialogActions>
    </Dialog>
  );
}

export function RoleDialog(props: MemberDialogProps) {
  const { member, onClose } = props;
  const { mutate, error, isPending, reason } = useUpdate(props);
  const [role, setRole] = useState<string>(member.roleOverride);
  return (
    <Dialog title={`Role of ${personName(member)}`} onClose={onClose}>
      <SelectField label="Role" value={role} options={roleOptions} onChange={setRole} />
      <p>{roleText(member, role)}</p>
      {reason}
      <Problem error={error} />
      <DialogActions>
        <Button onClick={onClose}>Cancel</Button>
        <Button
          look="primary"
          disabled={isPending || role === member.roleOverride}
          onClick={() => mutate({ role: role as Member['roleOverride'] })}
        >
          {role === '' ? 'Clear role' : 'Set role'}
        </Button>
      </DialogActions>
    </Dialog>
  );
}

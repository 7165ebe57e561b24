import { mayGiveRole } from '@muster/sdk/contract';
import { useQuery } from '@tanstack/react-query';
import { Button } from '../../parts/button.tsx';
import { TextField } from '../../parts/field.tsx';
import { useSignedIn } from '../../session/session.ts';

interface AccountFieldProps {
  /** The name of the new token. */
  readonly name: string;
  readonly label: string;
  readonly error: string | undefined;
  readonly value: string;
  readonly onChange: (account: string) => void;
}

/** Whose account a key acts as. Empty is the caller's: a key that is named after a colleague is not yet theirs. */
export function AccountField({ name, label, error, value, onChange }: AccountFieldProps) {
  const { client, caller } = useSignedIn();
  const asked = value.trim() || name.trim();
  const isAdmin = mayGiveRole(caller.role, 'admin');
  const { data } = useQuery({
    queryKey: ['account', asked],
    enabled: isAdmin && asked !== '',
    queryFn: ({ signal }) => client.listMembers({ text: asked, pageSize: 50 }, { signal }),
  });
  const known = data?.entries.find(
    ({ account, ownerProvider }) => account === asked && ownerProvider === caller.ownerProvider,
  );
  const isOther = asked !== caller.account;
  const called = known?.displayName || asked;
  const actsAs =
    value.trim() === '' || !isOther
      ? `The key acts as you, ${caller.account}.`
      : known
        ? `The key acts as ${called}: what it does is done in that name.`
        : data
          ? `Nobody here has the account “${asked}” yet. The key acts as it.`
          : `The key acts as ${asked}.`;
  const isNamedAfter = value.trim() === '' && known !== undefined && isOther;
  return (
    <>
      <TextField
        {...{ label, error, onChange }}
        value={isAdmin ? value : caller.account}
        hint={actsAs}
        placeholder={caller.account}
        isCode
        readOnly={!isAdmin}
      />
      {isNamedAfter && (
        <div className="form-note stack" role="status">
          <p>
            <strong dir="auto">{called}</strong> is an account of this tenant, but this key acts as you.
          </p>
          <Button onClick={() => onChange(asked)}>Act as {asked}</Button>
        </div>
      )}
    </>
  );
}

import type { Kind } from '@muster/sdk/contract';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { Button } from '../../parts/button.tsx';
import { Dialog, DialogActions } from '../../parts/dialog.tsx';
import { Problem } from '../../parts/problem.tsx';
import { useClient } from '../../session/session.ts';
import { forgetResource } from '../catalog-queries.ts';
import { isOutrun } from '../is-outrun.ts';
import { ReasonField } from '../reason-field.tsx';
import { secretWords } from './secret-words.ts';

/** Asks before a resource is deleted, or as a key or a link is called, revoked. */
export function EndDialog({
  kind,
  name,
  generation,
  onClose,
  onEnded,
}: {
  readonly kind: Kind;
  readonly name: string;
  /** Only this one is deleted, not what somebody wrote meanwhile. */
  readonly generation: string;
  readonly onClose: () => void;
  readonly onEnded: () => void;
}) {
  const client = useClient();
  const queries = useQueryClient();
  const [reason, setReason] = useState('');
  const { end, ended } = secretWords(kind);
  const { mutate, error, isPending } = useMutation({
    mutationFn: async () => {
      await client.catalog.delete(kind, name, { ifGenerationMatch: generation, justification: reason });
      // The list that one comes to has it no more.
      await queries.invalidateQueries({ queryKey: ['resources', kind] });
      onEnded();
      await forgetResource(queries, kind, name);
    },
    onError: () => forgetResource(queries, kind, name),
  });
  return (
    <Dialog title={`${end} ${name}?`} onClose={onClose}>
      <p>{ended}</p>
      <Problem
        error={
          isOutrun(error)
            ? new Error('Somebody has changed it meanwhile. Close this, look at it, then decide again.')
            : error
        }
      />
      <ReasonField value={reason} onChange={setReason} error={error} />
      <DialogActions>
        <Button onClick={onClose}>Keep it</Button>
        <Button look="danger" disabled={isPending || isOutrun(error)} onClick={() => mutate()}>
          {end} it
        </Button>
      </DialogActions>
    </Dialog>
  );
}

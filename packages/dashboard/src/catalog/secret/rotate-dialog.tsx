import type { Kind } from '@muster/sdk/contract';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { Button } from '../../parts/button.tsx';
import { Dialog, DialogActions } from '../../parts/dialog.tsx';
import { Problem } from '../../parts/problem.tsx';
import { useClient } from '../../session/session.ts';
import { forgetResource, takeSecret } from '../catalog-queries.ts';
import { ReasonField } from '../reason-field.tsx';
import { secretWords } from './secret-words.ts';

/** Asks before a secret is replaced: the old one ends with it. */
export function RotateDialog({
  kind,
  name,
  generation,
  onClose,
  onRotated,
}: {
  readonly kind: Kind;
  readonly name: string;
  readonly generation: string;
  readonly onClose: () => void;
  readonly onRotated: (secret: string) => void;
}) {
  const client = useClient();
  const queries = useQueryClient();
  const [reason, setReason] = useState('');
  const { label, rotation } = secretWords(kind);
  const { mutate, error, isPending } = useMutation({
    mutationFn: async () => {
      const settings = { updateMask: 'rotate', ifGenerationMatch: generation, justification: reason };
      const { document } = await client.catalog.write(kind, name, { rotate: true }, settings);
      const { secret } = takeSecret(kind, document);
      await forgetResource(queries, kind, name);
      // The secret goes past what queries and mutations remember.
      onRotated(secret ?? '');
    },
    onError: () => forgetResource(queries, kind, name),
  });
  return (
    <Dialog title={`A new ${label.toLowerCase()} for ${name}?`} onClose={onClose}>
      <p>{rotation}</p>
      <Problem error={error} />
      <ReasonField value={reason} onChange={setReason} error={error} />
      <DialogActions>
        <Button onClick={onClose}>Keep the old one</Button>
        <Button look="danger" disabled={isPending} onClick={() => mutate()}>
          Make a new {label.toLowerCase()}
        </Button>
      </DialogActions>
    </Dialog>
  );
}

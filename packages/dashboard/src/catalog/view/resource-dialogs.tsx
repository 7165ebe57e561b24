import { type Kind, kindTable, sealedFieldOf } from '@muster/sdk/contract';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { type ReactNode, useEffect, useRef, useState } from 'react';
import { useLocation } from 'wouter';
import { Button } from '../../parts/button.tsx';
import { Dialog, DialogActions, OneTimeSecret } from '../../parts/dialog.tsx';
import { TextField } from '../../parts/field.tsx';
import { fieldProblem, Problem } from '../../parts/problem.tsx';
import { ReasonField } from '../../session/reason-field.tsx';
import { useClient } from '../../session/session.ts';
import { deletingOf, isGenerationConflict } from '../model/resource.ts';
import { type CreatedSecret, invalidateResource, takeSecret } from './queries.ts';

/** The open dialog of a resource's page. */
export type ResourceDialog = 'rotate' | 'value' | 'delete' | 'discard' | { readonly restore: string } | null;

interface ResourceDialogsProps {
  readonly kind: Kind;
  readonly name: string;
  /** A later generation is neither deleted nor changed. */
  readonly generation: string;
  readonly dialog: ResourceDialog;
  readonly onClose: () => void;
  readonly onSecret: (secret: string) => void;
  readonly onDeleted: () => void;
  readonly onDiscard: () => void;
  readonly onRestore: (text: string) => void;
}

/** Confirmations before a resource is deleted or text is lost. */
export function ResourceDialogs(props: ResourceDialogsProps) {
  const { dialog, onClose, onDiscard, onRestore } = props;
  const closeAnd = (act: () => void) => () => {
    onClose();
    act();
  };
  switch (dialog) {
    case null:
      return null;
    case 'rotate':
    case 'value':
      return <SecretDialog {...props} />;
    case 'delete':
      return <DeleteDialog {...props} />;
    case 'discard':
      return (
        <ConfirmDialog
          title="Discard your changes?"
          yes="Discard changes"
          no="Keep changes"
          onNo={onClose}
          onYes={closeAnd(onDiscard)}
        >
          The text is reset to the version that you started from.
        </ConfirmDialog>
      );
    default:
      return (
        <ConfirmDialog
          title="Replace your changes?"
          yes="Replace changes"
          no="Keep changes"
          onNo={onClose}
          onYes={closeAnd(() => onRestore(dialog.restore))}
        >
          You have unsaved changes. The old version replaces them.
        </ConfirmDialog>
      );
  }
}

/** Replaces the secret: by one that the service creates, or by the value that is entered. */
function SecretDialog({ kind, name, generation, dialog, onClose, onSecret }: ResourceDialogsProps) {
  const client = useClient();
  const queries = useQueryClient();
  const reload = () => invalidateResource(queries, kind, name);
  const { secret } = kindTable[kind];
  const label = secret?.label.toLowerCase() ?? '';
  const isRotated = dialog === 'rotate';
  const rotate = async (justification: string) => {
    const settings = { updateMask: 'rotate', ifGenerationMatch: generation, justification };
    const { document } = await client.catalog.write(kind, name, { rotate: true }, settings);
    const taken = takeSecret(kind, document);
    await reload();
    onClose();
    // The secret must not get into the cache of queries and mutations.
    onSecret(taken.secret ?? '');
  };
  const saveValue = async (justification: string, value: string) => {
    const field = sealedFieldOf(kind) ?? '';
    const settings = { updateMask: field, ifGenerationMatch: generation, justification };
    await client.catalog.write(kind, name, { [field]: value }, settings);
    await reload();
    onClose();
  };
  return (
    <ChangeDialog
      title={`New ${label} for ${name}?`}
      effect={secret?.replacing ?? ''}
      action={isRotated ? `Create new ${label}` : `Save ${label}`}
      hasValue={!isRotated}
      change={isRotated ? rotate : saveValue}
      onClose={onClose}
      onError={reload}
    />
  );
}

function DeleteDialog({ kind, name, generation, onClose, onDeleted }: ResourceDialogsProps) {
  const client = useClient();
  const queries = useQueryClient();
  const reload = () => invalidateResource(queries, kind, name);
  const { verb, effect } = deletingOf(kind);
  return (
    <ChangeDialog
      title={`${verb} ${name}?`}
      effect={effect}
      action={verb}
      onClose={onClose}
      onError={reload}
      change={async (justification) => {
        await client.catalog.delete(kind, name, { ifGenerationMatch: generation, justification });
        // Before the list is shown: it must not contain the resource any more.
        await queries.invalidateQueries({ queryKey: ['resources', kind] });
        onDeleted();
        await reload();
      }}
    />
  );
}

interface ChangeDialogProps {
  readonly title: string;
  readonly effect: string;
  readonly action: string;
  /** Asks for a value too. */
  readonly hasValue?: boolean;
  readonly change: (reason: string, value: string) => Promise<void>;
  readonly onClose: () => void;
  readonly onError: () => Promise<void>;
}

/** Asks for a reason, then changes the stored resource. */
function ChangeDialog({
  title,
  effect,
  action,
  hasValue = false,
  change,
  onClose,
  onError,
}: ChangeDialogProps) {
  const [reason, setReason] = useState('');
  const [value, setValue] = useState('');
  const { mutate, error, isPending } = useMutation({ mutationFn: () => change(reason, value), onError });
  const isStale = isGenerationConflict(error);
  const problem = isStale
    ? new Error('Another person changed it. Close this dialog and review the change first.')
    : error;
  return (
    <Dialog title={title} onClose={onClose}>
      <p>{effect}</p>
      <Problem error={problem} />
      {hasValue && (
        <ValueField
          label="Value"
          hint="Stored encrypted and never shown again."
          value={value}
          onChange={setValue}
          error={fieldProblem(error, 'payload.value')}
        />
      )}
      <ReasonField value={reason} onChange={setReason} error={error} />
      <DialogActions>
        <Button onClick={onClose}>Cancel</Button>
        <Button
          look="danger"
          disabled={isPending || isStale || (hasValue && value === '')}
          onClick={() => mutate()}
        >
          {action}
        </Button>
      </DialogActions>
    </Dialog>
  );
}

interface ConfirmDialogProps {
  readonly title: string;
  readonly children: ReactNode;
  readonly yes: string;
  readonly no: string;
  readonly onYes: () => void;
  readonly onNo: () => void;
}

const ConfirmDialog = ({ title, children, yes, no, onYes, onNo }: ConfirmDialogProps) => (
  <Dialog title={title} onClose={onNo}>
    <p>{children}</p>
    <DialogActions>
      <Button look="danger" onClick={onYes}>
        {yes}
      </Button>
      <Button look="primary" onClick={onNo}>
        {no}
      </Button>
    </DialogActions>
  </Dialog>
);

type ResourceSecretProps = CreatedSecret & { readonly onClose: () => void; readonly children?: ReactNode };

export function ResourceSecret({ kind, name, secret, onClose, children }: ResourceSecretProps) {
  const label = kindTable[kind].secret?.label ?? '';
  return <OneTimeSecret title={`${label} of ${name}`} {...{ label, secret, onClose, children }} />;
}

/**
 * Asks before the user leaves unsaved changes by a link, a key or the browser's buttons. When the whole page is closed,
 * only the browser can ask.
 */
export function useLeaveGuard(isUnsaved: boolean): {
  readonly leaveDialog: ReactNode;
  /** Lets the next navigation pass without a question. */
  readonly release: () => void;
} {
  const [, navigate] = useLocation();
  const [leave, setLeave] = useState<(() => void) | null>(null);
  const isLeaving = useRef(false);

  useEffect(() => {
    if (!isUnsaved) return;
    const onBeforeUnload = (event: BeforeUnloadEvent) => event.preventDefault();
    const onNavigate = (event: NavigateEvent) => {
      const { sameDocument, url, key } = event.destination;
      const { pathname, search, hash } = new URL(url);
      if (isLeaving.current || !event.cancelable || !sameDocument || pathname === location.pathname) return;
      event.preventDefault();
      const go =
        event.navigationType === 'traverse'
          ? () => void window.navigation.traverseTo(key)
          : () => navigate(`${pathname}${search}${hash}`);
      setLeave(() => () => {
        isLeaving.current = true;
        go();
      });
    };
    // Browsers without the Navigation API ask only when the page is closed.
    const { navigation } = window as { navigation?: Navigation };
    addEventListener('beforeunload', onBeforeUnload);
    navigation?.addEventListener('navigate', onNavigate);
    return () => {
      removeEventListener('beforeunload', onBeforeUnload);
      navigation?.removeEventListener('navigate', onNavigate);
    };
  }, [isUnsaved, navigate]);

  const leaveDialog = leave && isUnsaved && (
    <ConfirmDialog
      title="Leave without saving?"
      yes="Leave"
      no="Stay"
      onYes={leave}
      onNo={() => setLeave(null)}
    >
      Your unsaved changes will be lost.
    </ConfirmDialog>
  );
  const release = () => {
    isLeaving.current = true;
  };
  return { leaveDialog, release };
}

interface ValueFieldProps {
  readonly label: string;
  readonly hint: string;
  readonly value: string;
  readonly onChange: (value: string) => void;
  readonly error: string | undefined;
}

/** The value of a secret, hidden while it is typed or pasted. It may have several lines, which a password field can't. */
export function ValueField(props: ValueFieldProps) {
  const [isShown, setShown] = useState(false);
  return (
    <>
      <TextField rows={3} isCode required className={isShown ? '' : 'hidden-value'} {...props} />
      <label className="check-field">
        <input type="checkbox" checked={isShown} onChange={({ target }) => setShown(target.checked)} />
        Show
      </label>
    </>
  );
}

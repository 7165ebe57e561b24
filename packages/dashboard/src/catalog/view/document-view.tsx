import { InvalidArgumentError } from '@muster/sdk';
import { type Kind, kindTable } from '@muster/sdk/contract';
import { type ReactNode, useEffect, useRef } from 'react';
import { flushSync } from 'react-dom';
import { Button } from '../../parts/button.tsx';
import { plural } from '../../parts/model/text.ts';
import { Problem } from '../../parts/problem.tsx';
import { Age } from '../../parts/times.tsx';
import { ReasonField } from '../../session/reason-field.tsx';
import { ConflictView } from './conflict-view.tsx';
import { DocumentEditor, useCheckedText } from './document-editor.tsx';
import { DocumentForm } from './document-form.tsx';
import type { StoredResource } from './queries.ts';
import type { TextEditorHandle } from './text-editor.tsx';
import type { useEdit } from './use-edit.ts';

export interface Named {
  readonly kind: Kind;
  readonly name: string;
}

export interface ResourceProps extends Named {
  readonly stored: StoredResource | null;
  /** Why the caller may not change it; null if it may. */
  readonly refusal: string | null;
}

interface DocumentViewProps extends ResourceProps {
  readonly edit: ReturnType<typeof useEdit>;
  readonly isShown: boolean;
  /** The form instead of the text. */
  readonly isForm: boolean;
  /** Shows the text. */
  readonly onText: () => void;
  readonly onDiscard: () => void;
  /** The resource stays deleted. */
  readonly onDeleted: () => void;
}

/** The editor, or the conflict of the last save. The hidden editor keeps its state. */
export function DocumentView(props: DocumentViewProps) {
  const { kind, name, refusal, edit, isShown, onDeleted } = props;
  const { draft, saving } = edit;
  const { conflict, isSaving, error } = saving;
  const isReadOnly = refusal !== null;
  const editor = useRef<TextEditorHandle>(null);
  const checked = useCheckedText(
    kind,
    name,
    draft.text,
    {
      serviceProblems: saving.serviceProblems(draft.text),
      serviceWarnings: saving.serviceWarnings(draft.text),
    },
    isReadOnly,
  );
  return (
    <>
      {isShown && conflict && (
        <ConflictView
          {...{ kind, name, draft, conflict, isSaving, onDeleted }}
          onSave={edit.save}
          onClose={saving.dismiss}
        />
      )}
      <div className="resource-text stack" hidden={!isShown || conflict !== null}>
        {draft.isStale && <NewerSave stored={props.stored} onReview={() => saving.review(draft.base)} />}
        {props.isForm ? (
          <DocumentForm
            {...{ kind, name, checked, isReadOnly }}
            text={draft.text}
            onChange={draft.setText}
            onText={props.onText}
          />
        ) : (
          <DocumentEditor
            ref={editor}
            {...{ kind, name, checked, isReadOnly }}
            text={draft.text}
            onChange={draft.setText}
          />
        )}
        {!isShownInFields(error) && <Problem error={error} />}
        {!isReadOnly && (
          <SaveBar {...props}>
            <ProblemCounts
              {...checked}
              onPick={(line) => {
                if (props.isForm) flushSync(props.onText);
                editor.current?.goTo(line);
              }}
            />
          </SaveBar>
        )}
      </div>
    </>
  );
}

/** Somebody else saved while this page has unsaved changes. */
function NewerSave({ stored, onReview }: Pick<ResourceProps, 'stored'> & { readonly onReview: () => void }) {
  const { updatedAt, updatedBy } = stored?.document ?? {};
  return (
    <div className="newer-save wrap" role="status">
      <p>
        {stored === null ? (
          'Another person deleted this while you were editing. '
        ) : (
          <>
            <strong dir="auto">{String(updatedBy ?? 'Another person').replace(/^.*\//, '')}</strong> saved a
            newer version
            {typeof updatedAt === 'string' && (
              <>
                {' '}
                <Age since={updatedAt} /> ago
              </>
            )}
            .{' '}
          </>
        )}
        Your text is not lost.
      </p>
      <Button onClick={onReview}>Review and merge</Button>
    </div>
  );
}

/** How many marks the text has; each leads to the first. Warnings do not keep anybody from saving. */
const ProblemCounts = ({
  problems,
  warnings,
  onPick,
}: Pick<ReturnType<typeof useCheckedText>, 'problems' | 'warnings'> & {
  readonly onPick: (line: number) => void;
}) =>
  (
    [
      ['error', problems],
      ['warning', warnings],
    ] as const
  ).map(
    ([what, found]) =>
      found[0] && (
        <Button
          key={what}
          look="quiet"
          className="problem-count"
          data-what={what}
          title="Go to the first"
          onClick={() => onPick(found[0]?.line ?? 1)}
        >
          {plural(found.length, what)}
        </Button>
      ),
  );

/** Whether every part of the error is shown at its line or field. */
const isShownInFields = (error: unknown): boolean =>
  error instanceof InvalidArgumentError &&
  error.fieldViolations.length > 0 &&
  error.fieldViolations.every(({ field }) => /^(payload\b|justification$)/.test(field));

/** Sticky bar with the reason and the buttons. */
function SaveBar({
  kind,
  stored,
  edit,
  onDiscard,
  children,
}: DocumentViewProps & { readonly children: ReactNode }) {
  const { draft, saving, reason, setReason, message } = edit;
  const label = stored === null ? `Create ${kindTable[kind].one}` : 'Save';
  const isSavable = (draft.isDirty || stored === null) && !saving.isSaving;
  const onSave = () => edit.save();
  const save = useRef(onSave);
  save.current = isSavable ? onSave : () => {};
  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      if (event.key !== 's' || !(event.ctrlKey || event.metaKey) || event.altKey) return;
      event.preventDefault();
      save.current();
    };
    addEventListener('keydown', onKeyDown);
    return () => removeEventListener('keydown', onKeyDown);
  }, []);
  return (
    <div className="save-bar wrap">
      <p className="save-bar-message" role="status">
        {message}
      </p>
      <ReasonField value={reason} onChange={setReason} error={saving.error} />
      <div className="save-bar-buttons wrap">
        {children}
        {draft.isDirty && (
          <Button look="quiet" onClick={onDiscard}>
            Discard changes
          </Button>
        )}
        <Button look="primary" disabled={!isSavable} title="Ctrl + S" onClick={onSave}>
          {saving.isSaving ? 'Saving …' : label}
        </Button>
      </div>
    </div>
  );
}

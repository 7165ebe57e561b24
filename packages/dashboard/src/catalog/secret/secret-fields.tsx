import type { AgentId, Caller } from '@muster/sdk';
import type { Kind } from '@muster/sdk/contract';
import { useResources } from '../../live/resources.ts';
import { ExpiryField, Field, SuggestionField } from '../../parts/field.tsx';
import { fieldProblem } from '../../parts/problem.tsx';
import { givableRoles, type SecretDraft } from './secret-draft.ts';

interface FieldsProps {
  readonly draft: SecretDraft;
  readonly onChange: (change: Partial<SecretDraft>) => void;
  readonly error: unknown;
  readonly caller: Caller;
}

/** The fields of the form that belong to one kind. */
export function SecretFields({
  kind,
  agents,
  ...props
}: FieldsProps & { readonly kind: Kind; readonly agents: ReadonlyMap<string, AgentId> }) {
  const { draft, onChange, error } = props;
  switch (kind) {
    case 'token':
      return <TokenFields {...props} />;
    case 'share-link':
      return (
        <>
          <SuggestionField
            label="Agent"
            hint="The one agent that the link shows: choose it, or write its path."
            error={fieldProblem(error, 'payload.agentId') ?? fieldProblem(error, 'payload.agentId.agent')}
            value={draft.agent}
            suggestions={[...agents.keys()]}
            onChange={(agent) => onChange({ agent })}
          />
          <ExpiryField
            value={draft.expiry}
            error={fieldProblem(error, 'payload.expiresAt')}
            onChange={(expiry) => onChange({ expiry })}
          />
        </>
      );
    case 'integration':
      return (
        <Field label="Type" hint="What calls in." error={fieldProblem(error, 'payload.type')}>
          {(attributes) => (
            <input
              {...attributes}
              value={draft.type}
              onChange={(event) => onChange({ type: event.target.value })}
              autoComplete="off"
            />
          )}
        </Field>
      );
    default:
      return null;
  }
}

function TokenFields({ draft, onChange, error, caller }: FieldsProps) {
  const pools = useResources('pool');
  const isMember = caller.role === 'member';
  return (
    <>
      <div className="field-row">
        <Field label="Role" hint="At most your own." error={fieldProblem(error, 'payload.role')}>
          {(attributes) => (
            <select
              {...attributes}
              value={draft.role}
              onChange={(event) => onChange({ role: event.target.value as SecretDraft['role'] })}
            >
              {givableRoles(caller).map((role) => (
                <option key={role}>{role}</option>
              ))}
            </select>
          )}
        </Field>
        <Field
          label="Account"
          hint={isMember ? 'A member makes tokens of its own account.' : 'Whose key it is.'}
          error={fieldProblem(error, 'payload.account')}
        >
          {(attributes) => (
            <input
              {...attributes}
              value={draft.account}
              onChange={(event) => onChange({ account: event.target.value })}
              readOnly={isMember}
              autoComplete="off"
              spellCheck={false}
              required
            />
          )}
        </Field>
      </div>
      {draft.role === 'runner' && (
        <SuggestionField
          label="Pool"
          hint="The runner takes the runs of this pool."
          error={fieldProblem(error, 'payload.pool')}
          value={draft.pool}
          suggestions={pools.map(({ name }) => name)}
          onChange={(pool) => onChange({ pool })}
        />
      )}
      <ExpiryField
        value={draft.expiry}
        error={fieldProblem(error, 'payload.expiresAt')}
        onChange={(expiry) => onChange({ expiry })}
      />
    </>
  );
}

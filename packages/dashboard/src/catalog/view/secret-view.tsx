import { serverFieldsOf } from '@muster/sdk/contract';
import { Button } from '../../parts/button.tsx';
import { textOf } from '../model/document-text.ts';
import type { ResourceProps } from './document-view.tsx';

/** The value of a secret can be replaced, and nothing shows it. */
export function SecretView({
  kind,
  name,
  stored,
  refusal,
  onValue,
}: ResourceProps & { readonly onValue: () => void }) {
  const { fingerprint, ...rest } = stored?.document ?? {};
  const hasValue = typeof fingerprint === 'string';
  const others = Object.keys(rest).filter(
    (field) => field !== 'name' && !serverFieldsOf(kind).includes(field),
  );
  return (
    <div className="secret-view stack">
      <p>{hasValue ? 'The value is stored encrypted and never shown.' : 'No value is stored yet.'}</p>
      {refusal === null && (
        <Button look="primary" onClick={onValue}>
          {hasValue ? 'Replace value …' : 'Set value …'}
        </Button>
      )}
      <h2>Use it</h2>
      <p>In an environment, this gives agents the value as a variable:</p>
      <pre>{`variables:\n  MY_VARIABLE:\n    fromSecret: ${name}`}</pre>
      {others.length > 0 && (
        <>
          <h2>Other fields</h2>
          <pre>{textOf(kind, name, rest)}</pre>
        </>
      )}
    </div>
  );
}

import { type Kind, serverFields, splitFrontMatter } from '@muster/sdk/contract';
import { type KnownField, knownFields } from './text/known-fields.ts';
import './field-hints.css';

/** The known fields of a kind beside its text: what they are for, which are set, and a way to put one in. */
export function FieldHints({
  kind,
  text,
  fields,
  onPick,
}: {
  readonly kind: Kind;
  readonly text: string;
  readonly fields: Readonly<Record<string, unknown>> | null;
  /** Undefined where the text can't be changed. */
  readonly onPick?: ((field: KnownField, isSet: boolean) => void) | undefined;
}) {
  const known = knownFields(kind);
  if (known.length === 0) return null;
  return (
    <aside className="field-hints" aria-labelledby="field-hints-title">
      <h2 id="field-hints-title">Known fields</h2>
      <ul>
        {known.map((field) => {
          const isSet = isIn(kind, text, field.name);
          const name = <code>{field.name}</code>;
          return (
            <li key={field.name} data-set={isSet}>
              <p>
                {onPick ? (
                  <button
                    type="button"
                    title={isSet ? 'Go to it' : 'Put it in'}
                    onClick={() => onPick(field, isSet)}
                  >
                    {name}
                  </button>
                ) : (
                  name
                )}
                <span className="field-hints-type">{field.type}</span>
                {isSet && <span className="field-hints-set">set</span>}
              </p>
              <p className="field-hints-meaning">{field.meaning}</p>
            </li>
          );
        })}
      </ul>
      <Notes kind={kind} text={text} fields={fields} />
    </aside>
  );
}

/** What is not wrong, but good to know. */
function Notes({ kind, text, fields }: Pick<Parameters<typeof FieldHints>[0], 'kind' | 'text' | 'fields'>) {
  const known = knownFields(kind).map(({ name }) => name);
  const unknown = Object.keys(fields ?? {}).filter((field) => !known.includes(field));
  const strange = unknown.filter((field) => !serverFields.includes(field));
  const served = unknown.filter((field) => serverFields.includes(field));
  return (
    <>
      {strange.length > 0 && (
        <p className="field-hints-note">
          Not known to Muster, and kept as written: <code>{strange.join(', ')}</code>
        </p>
      )}
      {served.length > 0 && (
        <p className="field-hints-note">
          Set by the service, whatever is written here: <code>{served.join(', ')}</code>
        </p>
      )}
      {/^\s*#/m.test(settingsOf(kind, text)) && (
        <p className="field-hints-note">Comments are not stored: they are gone once you save.</p>
      )}
    </>
  );
}

const settingsOf = (kind: Kind, text: string): string =>
  kind === 'persona' ? splitFrontMatter(text).settings : text;

function isIn(kind: Kind, text: string, field: string): boolean {
  if (kind === 'persona' && field === 'instructions') return splitFrontMatter(text).body.trim() !== '';
  return new RegExp(`^${field}:`, 'm').test(settingsOf(kind, text));
}

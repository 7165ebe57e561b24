import type { PushSubscription } from '@muster/sdk';
import { TextField } from '../../parts/field.tsx';

type Quiet = PushSubscription['quietHours'];

const ownZone = (): string => Intl.DateTimeFormat().resolvedOptions().timeZone;

/** Both fields are on the page only while there are quiet hours. */
export function QuietHours({
  value,
  onChange,
}: {
  readonly value: Quiet;
  readonly onChange: (value: Quiet) => void;
}) {
  const usual = { from: '22:00', to: '07:00', zone: ownZone() };
  const field = (name: 'from' | 'to', label: string) => (
    <TextField
      type="time"
      label={label}
      value={value?.[name] ?? ''}
      required
      onChange={(time) => value && time !== '' && onChange({ ...value, [name]: time })}
    />
  );
  return (
    <div className="stack">
      <label className="check-field">
        <input
          type="checkbox"
          checked={value !== null}
          onChange={({ target }) => onChange(target.checked ? usual : null)}
        />
        Quiet hours
      </label>
      {value && (
        <div className="notify-times">
          {field('from', 'From')}
          {field('to', 'To')}
          <p className="secondary">{value.zone}. What happens then arrives afterwards, as one message.</p>
        </div>
      )}
    </div>
  );
}

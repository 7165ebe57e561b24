import { type Attention, attentions, attentionTitles } from '../live/model/attention.ts';
import { StatusIcon } from '../live/status-icon.tsx';
import './state-filter.css';

/** How many there are of each kind; a press shows that kind alone, further presses add to it. */
export function StateFilter({
  chosen,
  counts,
  onChange,
}: {
  readonly chosen: readonly Attention[];
  readonly counts: Readonly<Record<Attention, number>>;
  readonly onChange: (chosen: readonly Attention[]) => void;
}) {
  const toggle = (pressed: Attention) =>
    onChange(attentions.filter((one) => chosen.includes(one) !== (one === pressed)));
  const offered = attentions.filter((attention) => counts[attention] > 0 || chosen.includes(attention));
  if (offered.length === 0) return null;
  return (
    <fieldset className="state-filter">
      <legend className="visually-hidden">Show only</legend>
      {offered.map((attention) => (
        <button
          key={attention}
          type="button"
          aria-pressed={chosen.includes(attention)}
          onClick={() => toggle(attention)}
        >
          <StatusIcon attention={attention} />
          {attentionTitles[attention]} <span>{counts[attention].toLocaleString()}</span>
        </button>
      ))}
    </fieldset>
  );
}

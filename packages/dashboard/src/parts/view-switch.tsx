import './view-switch.css';

/** Chooses what is shown in one place: of several views, one at a time. */
export const ViewSwitch = <View extends string>({
  views,
  view,
  label = 'What is shown',
  onChoose,
}: {
  readonly views: readonly (readonly [view: View, words: string])[];
  readonly view: View;
  readonly label?: string;
  readonly onChoose: (view: View) => void;
}) => (
  <fieldset className="view-switch">
    <legend className="visually-hidden">{label}</legend>
    {views.map(([name, words]) => (
      <button key={name} type="button" aria-pressed={view === name} onClick={() => onChoose(name)}>
        {words}
      </button>
    ))}
  </fieldset>
);

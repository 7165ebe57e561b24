const views = [
  ['transcript', 'Transcript'],
  ['panels', 'Tasks and more'],
] as const;
export type View = (typeof views)[number][0];

/** On a phone there is room for one of the two. */
export const ViewSwitch = ({
  view,
  onChoose,
}: {
  readonly view: View;
  readonly onChoose: (view: View) => void;
}) => (
  <fieldset className="agent-views">
    <legend className="visually-hidden">What is shown</legend>
    {views.map(([name, words]) => (
      <button key={name} type="button" aria-pressed={view === name} onClick={() => onChoose(name)}>
        {words}
      </button>
    ))}
  </fieldset>
);

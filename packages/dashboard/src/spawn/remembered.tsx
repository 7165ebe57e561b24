import { Button } from '../parts/button.tsx';
import { choiceWords, isChosen, type LastChoices } from './last-choices.ts';

/** Says that the form does not begin empty, and why. */
export function Remembered({
  last,
  draft,
  onReset,
}: {
  readonly last: LastChoices;
  readonly draft: LastChoices;
  readonly onReset: () => void;
}) {
  if (!isChosen(last) || choiceWords(last) !== choiceWords(draft)) return null;
  return (
    <p className="spawn-remembered">
      <span>As last time: {choiceWords(last)}.</span>
      <Button look="quiet" onClick={onReset}>
        Reset
      </Button>
    </p>
  );
}

import { attentionTitles } from '../live/model/attention.ts';
import { Button, CopyButton } from '../parts/button.tsx';
import { plural } from '../parts/model/text.ts';
import { Empty } from '../parts/page.tsx';
import type { Filter } from './filter.ts';

const command = 'muster spawn "Tidy the shed." --follow';

/** There are no agents yet: what one would see here, and how to have one. */
export const NoAgents = ({
  mayCommand,
  onSpawn,
}: {
  readonly mayCommand: boolean;
  readonly onSpawn: () => void;
}) => (
  <Empty title="No agents yet">
    <p>
      Here stand all your agents, at every depth. Whoever asks something, has failed or left work undone
      stands at the top.
    </p>
    {mayCommand && (
      <>
        <Button look="primary" onClick={onSpawn}>
          <span aria-hidden="true">+</span> New agent
        </Button>
        <p>Or from a terminal on the machine of the service:</p>
        <pre>
          <code>{command}</code>
        </pre>
        <CopyButton text={command} label="Copy the command" />
      </>
    )}
  </Empty>
);

/** There are agents, and the filters hide all of them. */
export const NoneFits = ({
  filter,
  total,
  onClear,
}: {
  readonly filter: Filter;
  readonly total: number;
  readonly onClear: () => void;
}) => (
  <Empty title="No agent fits">
    <p>
      Of {plural(total, 'agent')} none has {filterWords(filter).join(' and ')}.
    </p>
    <Button onClick={onClear}>Clear filters</Button>
  </Empty>
);

function filterWords({ text, owner, workspace, phases, labels }: Filter): string[] {
  const words: string[] = [];
  if (text !== '') words.push(`the text “${text}”`);
  if (owner !== '') words.push(`the owner “${owner}”`);
  if (workspace !== '') words.push(`the workspace “${workspace}”`);
  words.push(...labels.map((label) => `the label “${label}”`));
  if (phases.length > 0) {
    words.push(`the state ${phases.map((phase) => `“${attentionTitles[phase]}”`).join(' or ')}`);
  }
  return words;
}

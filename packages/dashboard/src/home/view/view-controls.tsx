import { useId } from 'react';
import type { Summary } from '../model/arrange.ts';
import { type Filter, type Grouping, type Scope, type Sort, sortFields } from '../model/filter.ts';
import { groupingChoices } from '../model/grouping.ts';
import { sortTitles } from '../model/order.ts';

interface ScopeChoiceProps {
  readonly summary: Pick<Summary, 'scope' | 'totals'>;
  readonly onChoose: (scope: Scope) => void;
}

/** The first filter for people who share an installation. */
export const ScopeChoice = ({ summary: { scope, totals }, onChoose }: ScopeChoiceProps) => (
  <fieldset className="view-switch scope-choice">
    <legend className="visually-hidden">Whose agents</legend>
    {(['mine', 'everyone'] as const).map((name) => (
      <button key={name} type="button" aria-pressed={scope === name} onClick={() => onChoose(name)}>
        {name === 'mine' ? 'Mine' : 'Everyone'} <span>{totals[name].toLocaleString()}</span>
      </button>
    ))}
  </fieldset>
);

interface ArrangeChoicesProps {
  readonly filter: Pick<Filter, 'group' | 'sort'>;
  readonly labels: readonly string[];
  readonly onChange: (changed: Partial<Filter>) => void;
}

/** How the list is grouped and sorted. */
export const ArrangeChoices = ({ filter: { group, sort }, labels, onChange }: ArrangeChoicesProps) => (
  <>
    <Select
      label="Group"
      value={group}
      isChosen={group !== 'status'}
      options={groupingChoices(labels, group)}
      onChange={(value) => onChange({ group: value as Grouping })}
    />
    <Select
      label="Sort"
      value={sort}
      isChosen={sort !== ''}
      options={sortOptions}
      onChange={(value) => onChange({ sort: value as Sort })}
    />
  </>
);

const sortOptions: readonly (readonly [Sort, string])[] = [
  ['', 'Most urgent'],
  ...sortFields.flatMap((field): [Sort, string][] => [
    [field, sortTitles[field][0]],
    [`-${field}`, sortTitles[field][1]],
  ]),
];

export interface SelectProps {
  readonly label: string;
  readonly value: string;
  readonly isChosen: boolean;
  readonly options: readonly (readonly [value: string, title: string])[];
  readonly onChange: (value: string) => void;
}

/** A choice of the filter bar. */
export function Select({ label, value, isChosen, options, onChange }: SelectProps) {
  const id = useId();
  return (
    <div className="filter-bar-choice">
      <label htmlFor={id} className="visually-hidden">
        {label}
      </label>
      <select id={id} value={value} data-chosen={isChosen} onChange={(event) => onChange(event.target.value)}>
        {options.map(([option, title]) => (
          <option key={option} value={option}>
            {title}
          </option>
        ))}
      </select>
    </div>
  );
}

import { type RefObject, useId } from 'react';
import { Button } from '../parts/button.tsx';
import type { Summary } from './arrange.ts';
import { isFiltering } from './filter.ts';
import { SearchField } from './search-field.tsx';
import type { FilterControl } from './use-filter.ts';
import './filter-bar.css';

/** Search, owner and workspace, how much of the fleet that shows, and whether the order waits. */
export function FilterBar({
  control: { filter, change, clear },
  summary: { owners, workspaces, labels, shown, total },
  isLoaded,
  isBehind,
  field,
  onSettle,
  onLeave,
}: {
  readonly control: FilterControl;
  readonly summary: Summary;
  readonly isLoaded: boolean;
  readonly isBehind: boolean;
  readonly field: RefObject<HTMLInputElement | null>;
  readonly onSettle: () => void;
  /** From the search into the list. */
  readonly onLeave: () => void;
}) {
  return (
    <search className="filter-bar">
      <SearchField
        text={filter.text}
        field={field}
        onSearch={(text) => change({ text }, 'replace')}
        onLeave={onLeave}
      />
      <Choice
        label="Owner"
        all="All owners"
        value={filter.owner}
        values={owners}
        words={(owner) => ownerWords(owner, owners)}
        onChange={(owner) => change({ owner })}
      />
      <Choice
        label="Workspace"
        all="All workspaces"
        value={filter.workspace}
        values={workspaces}
        words={(workspace) => workspace}
        onChange={(workspace) => change({ workspace })}
      />
      <LabelChoice chosen={filter.labels} known={labels} onChange={(chosen) => change({ labels: chosen })} />
      {isFiltering(filter) && <Button onClick={clear}>Clear filters</Button>}
      <p className="filter-bar-count">
        {isBehind && (
          <Button look="quiet" onClick={onSettle} title="It waits while you point at the list">
            Order changed
          </Button>
        )}
        <span>
          {shown.toLocaleString()} of {total.toLocaleString()}
          {!isLoaded && ' …'}
        </span>
      </p>
    </search>
  );
}

/** The account alone, unless another provider has one of the same name. */
function ownerWords(owner: string, owners: readonly string[]): string {
  const account = owner.slice(owner.indexOf('/') + 1);
  const isShared = owners.filter((other) => other.endsWith(`/${account}`)).length > 1;
  return isShared ? `${account} (${owner.slice(0, owner.indexOf('/'))})` : account;
}

/** Adds one label after the other; each that was chosen is a button that takes it away again. */
function LabelChoice({
  chosen,
  known,
  onChange,
}: {
  readonly chosen: readonly string[];
  readonly known: readonly string[];
  readonly onChange: (labels: readonly string[]) => void;
}) {
  const others = known.filter((label) => !chosen.includes(label));
  return (
    <>
      {chosen.map((label) => (
        <Button
          key={label}
          className="filter-bar-label"
          aria-label={`Remove the label ${label}`}
          title={label}
          onClick={() => onChange(chosen.filter((one) => one !== label))}
        >
          <span>{label}</span> <span aria-hidden="true">✕</span>
        </Button>
      ))}
      {others.length > 0 && (
        <div className="filter-bar-choice">
          <select aria-label="Label" value="" onChange={(event) => onChange([...chosen, event.target.value])}>
            <option value="">{chosen.length === 0 ? 'All labels' : 'Add label'}</option>
            {others.map((label) => (
              <option key={label} value={label}>
                {label}
              </option>
            ))}
          </select>
        </div>
      )}
    </>
  );
}

/** Not there where there is nothing to choose from; but what was chosen is shown, even when nobody has it any more. */
function Choice({
  label,
  all,
  value,
  values,
  words,
  onChange,
}: {
  readonly label: string;
  readonly all: string;
  readonly value: string;
  readonly values: readonly string[];
  readonly words: (value: string) => string;
  readonly onChange: (value: string) => void;
}) {
  const id = useId();
  if (values.length < 2 && value === '') return null;
  // An address may name an owner by the account alone.
  const chosen = values.find((one) => one === value || one.endsWith(`/${value}`)) ?? value;
  const known = chosen === '' || values.includes(chosen) ? values : [chosen, ...values];
  return (
    <div className="filter-bar-choice">
      <label htmlFor={id} className="visually-hidden">
        {label}
      </label>
      <select
        id={id}
        value={chosen}
        data-chosen={chosen !== ''}
        onChange={(event) => onChange(event.target.value)}
      >
        <option value="">{all}</option>
        {known.map((one) => (
          <option key={one} value={one}>
            {words(one)}
          </option>
        ))}
      </select>
    </div>
  );
}

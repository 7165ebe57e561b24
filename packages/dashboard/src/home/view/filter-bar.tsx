import { type RefObject, useCallback, useMemo, useState } from 'react';
import { useLocation, useSearch } from 'wouter';
import { type Attention, attentions, attentionTitles } from '../../live/model/attention.ts';
import { StatusIcon } from '../../live/status-icon.tsx';
import { Button } from '../../parts/button.tsx';
import { SearchField } from '../../parts/field.tsx';
import type { Summary } from '../model/arrange.ts';
import { type Filter, filterOf, isFiltering, listUrl, noFilter, ownerText } from '../model/filter.ts';
import { ArrangeChoices, ScopeChoice, Select } from './view-controls.tsx';

export function FilterBar({
  control,
  summary,
  hasScopes,
  isLoaded,
  isBehind,
  field,
  onUpdateOrder,
  onLeave,
}: {
  readonly control: FilterControl;
  readonly summary: Summary;
  /** The person is not the only one. */
  readonly hasScopes: boolean;
  readonly isLoaded: boolean;
  readonly isBehind: boolean;
  readonly field: RefObject<HTMLInputElement | null>;
  readonly onUpdateOrder: () => void;
  /** Moves the focus from the search into the list. */
  readonly onLeave: () => void;
}) {
  const { filter, change, clear } = control;
  const { shown, total } = summary;
  /** On a phone the choices are hidden at first. */
  const [isOpen, setOpen] = useState(false);
  return (
    <search className="filter-bar" data-open={isOpen}>
      {hasScopes && (
        <ScopeChoice summary={summary} onChoose={(chosen) => change({ scope: chosen, owner: '' })} />
      )}
      <SearchField
        label="Search agents"
        placeholder="Search by name, task, answer or model"
        text={filter.text}
        field={field}
        onSearch={(text) => change({ text }, 'replace')}
        onLeave={onLeave}
      />
      <Button className="filter-bar-more" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        Filters
      </Button>
      <Choices control={control} summary={summary} />
      {isFiltering(filter) && <Button onClick={clear}>Clear filters</Button>}
      <p className="filter-bar-count secondary">
        {isBehind && (
          <Button look="quiet" onClick={onUpdateOrder} title="The order is held while you use the list">
            Update order
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

type ChoicesProps = Pick<Parameters<typeof FilterBar>[0], 'control' | 'summary'>;

const Choices = ({ control: { filter, change }, summary }: ChoicesProps) => (
  <>
    {summary.scope === 'everyone' && (
      <Choice
        label="Person"
        all="All people"
        value={filter.owner}
        values={summary.owners}
        optionText={(owner) => ownerText(owner, summary.owners)}
        onChange={(owner) => change({ owner })}
      />
    )}
    <Choice
      label="Workspace"
      all="All workspaces"
      value={filter.workspace}
      values={summary.workspaces}
      optionText={(workspace) => workspace}
      onChange={(workspace) => change({ workspace })}
    />
    <LabelChoice chosen={filter.labels} known={summary.labels} onChange={(labels) => change({ labels })} />
    <ArrangeChoices filter={filter} labels={summary.labels} onChange={change} />
  </>
);

interface LabelChoiceProps {
  readonly chosen: readonly string[];
  readonly known: readonly string[];
  readonly onChange: (labels: readonly string[]) => void;
}

/** Adds labels to the filter. Each chosen label is a button that removes it. */
function LabelChoice({ chosen, known, onChange }: LabelChoiceProps) {
  const others = known.filter((label) => !chosen.includes(label));
  return (
    <>
      {chosen.map((label) => (
        <Button
          key={label}
          className="filter-bar-label"
          aria-label={`Remove label ${label}`}
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

interface ChoiceProps {
  readonly label: string;
  readonly all: string;
  readonly value: string;
  readonly values: readonly string[];
  readonly optionText: (value: string) => string;
  readonly onChange: (value: string) => void;
}

/** Hidden if there is nothing to choose. The chosen value stays an option even if no agent has it any more. */
function Choice({ label, all, value, values, optionText, onChange }: ChoiceProps) {
  if (values.length < 2 && value === '') return null;
  // A URL may contain the account without its provider.
  const chosen = values.find((one) => one === value || one.endsWith(`/${value}`)) ?? value;
  const known = chosen === '' || values.includes(chosen) ? values : [chosen, ...values];
  const options = [['', all] as const, ...known.map((one) => [one, optionText(one)] as const)];
  return (
    <Select label={label} value={chosen} isChosen={chosen !== ''} options={options} onChange={onChange} />
  );
}

interface StatusFilterProps {
  readonly chosen: readonly Attention[];
  readonly counts: Readonly<Record<Attention, number>>;
  readonly onChange: (chosen: readonly Attention[]) => void;
}

/** The number of agents per status. Each button toggles that status in the filter. */
export function StatusFilter({ chosen, counts, onChange }: StatusFilterProps) {
  const toggle = (pressed: Attention) =>
    onChange(attentions.filter((one) => chosen.includes(one) !== (one === pressed)));
  const offered = attentions.filter((attention) => counts[attention] > 0 || chosen.includes(attention));
  if (offered.length === 0) return null;
  return (
    <fieldset className="status-filter wrap">
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

export interface FilterControl {
  readonly filter: Filter;
  /** The URL of the list with this filter. */
  readonly url: string;
  /** Adds a history entry, so that "back" undoes the change; `replace` is for typing in the search. */
  readonly change: (change: Partial<Filter>, how?: 'push' | 'replace') => void;
  readonly clear: () => void;
}

/** The filter is stored only in the URL, so that a reload, "back" and a copied URL show the same list. */
export function useFilter(): FilterControl {
  const search = useSearch();
  const [, navigate] = useLocation();
  const filter = useMemo(() => filterOf(search), [search]);
  const change = useCallback<FilterControl['change']>(
    (changed, how = 'push') => navigate(listUrl({ ...filter, ...changed }), { replace: how === 'replace' }),
    [filter, navigate],
  );
  /** What is hidden comes back; how it is shown stays. */
  const clear = useCallback(() => {
    const { scope, ended, group, sort } = filter;
    change({ ...noFilter, scope, ended, group, sort });
  }, [change, filter]);
  return { filter, url: listUrl(filter), change, clear };
}

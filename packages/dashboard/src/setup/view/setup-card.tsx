import type { Setup, SetupStep } from '@muster/sdk';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { type ReactNode, useId, useState } from 'react';
import { Link } from 'wouter';
import { isAdmin } from '../../live/model/allowed-actions.ts';
import { Button, ExpandIcon, LineButton } from '../../parts/button.tsx';
import { Mark } from '../../parts/page.tsx';
import { Problem } from '../../parts/problem.tsx';
import { useClient, useSignedIn } from '../../session/session.ts';
import { type FirstStep, firstTexts, isFirst, laterTexts, leftOf, stateTexts } from '../model/setup.ts';
import { AgentStep } from './agent-step.tsx';
import { ProviderStep } from './provider-step.tsx';
import { RepositoryStep, useRepositoryCheck } from './repository-step.tsx';
import '../setup.css';

const queryKey = ['setup'];
/** A step is done elsewhere, too: a runner starts with a key, an agent is spawned from a terminal. */
const lookMs = 5_000;

/** The steps from a fresh installation to an agent that works. Nothing when all are done, or an admin has dismissed them. */
export function SetupCard() {
  const client = useClient();
  const { caller } = useSignedIn();
  const queries = useQueryClient();
  const { data } = useQuery({
    queryKey,
    queryFn: ({ signal }) => client.setup({}, { signal }),
    refetchInterval: ({ state }) => (state.data && isShown(state.data, isAdmin(caller)) ? lookMs : false),
  });
  const { mutate, error, isPending } = useMutation({
    mutationFn: () => client.setup({ dismissed: true }),
    onSuccess: (setup) => queries.setQueryData(queryKey, setup),
  });
  if (!data || !isShown(data, isAdmin(caller))) return null;
  return (
    <section className="setup-card stack" aria-labelledby="setup-title">
      <header className="wrap">
        <h2 id="setup-title">Set up Muster</h2>
        {isAdmin(caller) && (
          <Button disabled={isPending} onClick={() => mutate()}>
            Dismiss<span className="visually-hidden"> what is left to set up</span>
          </Button>
        )}
      </header>
      <Problem error={error} />
      <FirstSteps steps={data.steps} />
      {isAdmin(caller) && <LaterSteps steps={data.steps} />}
    </section>
  );
}

const isShown = (setup: Setup, admin: boolean): boolean => !setup.dismissed && leftOf(setup, admin) > 0;

/** The first one that is left is open. */
function FirstSteps({ steps }: { readonly steps: readonly SetupStep[] }) {
  const [opened, setOpened] = useState<Readonly<Partial<Record<FirstStep, boolean>>>>({});
  const check = useRepositoryCheck();
  const first = steps.flatMap((step) => (isFirst(step.name) ? [{ ...step, name: step.name }] : []));
  const isFailing = check.state?.type === 'problem';
  const shown = first.map((step) =>
    step.name === 'repository' && (isFailing || check.state?.type === 'checking')
      ? { ...step, state: isFailing ? ('FAILING' as const) : ('MISSING' as const) }
      : step,
  );
  const next = shown.find(({ state }) => state !== 'DONE')?.name;
  const bodies: Readonly<Record<FirstStep, ReactNode>> = {
    provider: <ProviderStep />,
    repository: <RepositoryStep check={check} />,
    agent: <AgentStep workspace={check.workspace} />,
  };
  return (
    <ol className="stack" aria-label="Steps">
      {shown.map((step) => (
        <Step
          key={step.name}
          step={step}
          name={step.name}
          isOpen={opened[step.name] ?? step.name === next}
          onToggle={(isOpen) => setOpened({ ...opened, [step.name]: isOpen })}
        >
          {bodies[step.name]}
        </Step>
      ))}
    </ol>
  );
}

interface StepProps {
  readonly step: SetupStep;
  readonly name: FirstStep;
  readonly isOpen: boolean;
  readonly onToggle: (isOpen: boolean) => void;
  readonly children: ReactNode;
}

function Step({ step: { state, text }, name, isOpen, onToggle, children }: StepProps) {
  const bodyId = useId();
  const [title, why] = firstTexts[name];
  return (
    <li>
      <StateMark state={state} />
      <div className="stack">
        <LineButton aria-expanded={isOpen} aria-controls={bodyId} onClick={() => onToggle(!isOpen)}>
          <ExpandIcon /> <strong>{title}</strong>
        </LineButton>
        {(text || state !== 'DONE') && <small dir="auto">{text || why}</small>}
        <div id={bodyId} className="setup-body stack" hidden={!isOpen}>
          {isOpen && children}
        </div>
      </div>
    </li>
  );
}

const StateMark = ({ state }: Pick<SetupStep, 'state'>) => {
  const [mark, tone] = stateTexts[state];
  return <Mark tone={tone}>{mark}</Mark>;
};

const LaterSteps = ({ steps }: { readonly steps: readonly SetupStep[] }) => (
  <ul className="stack" aria-label="For a team">
    {steps.map(({ name, state }) => {
      if (isFirst(name)) return null;
      const [title, why, href, link] = laterTexts[name];
      return (
        <li key={name}>
          <StateMark state={state} />
          <span>
            <strong>{title}</strong>
            <small>{why}</small>
          </span>
          {state !== 'DONE' && (
            <Link href={href} aria-label={`${link}: ${title}`}>
              {link}
            </Link>
          )}
        </li>
      );
    })}
  </ul>
);

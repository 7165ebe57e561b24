import type { SetupStep } from '@muster/sdk';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Link } from 'wouter';
import { Button } from '../../parts/button.tsx';
import { Mark } from '../../parts/page.tsx';
import { Problem } from '../../parts/problem.tsx';
import { useClient } from '../../session/session.ts';
import { leftOf, stateTexts, stepTexts } from '../model/setup.ts';
import '../setup.css';

const queryKey = ['setup'];

/** What is left to set up. Nothing when all of it is done, or an admin has dismissed it. */
export function SetupCard() {
  const client = useClient();
  const queries = useQueryClient();
  const { data } = useQuery({ queryKey, queryFn: ({ signal }) => client.setup({}, { signal }) });
  const { mutate, error, isPending } = useMutation({
    mutationFn: () => client.setup({ dismissed: true }),
    onSuccess: (setup) => queries.setQueryData(queryKey, setup),
  });
  if (!data || data.dismissed || leftOf(data) === 0) return null;
  return (
    <section className="setup-card stack" aria-labelledby="setup-title">
      <header className="wrap">
        <h2 id="setup-title">Set up Muster</h2>
        <Button disabled={isPending} onClick={() => mutate()}>
          Dismiss<span className="visually-hidden"> what is left to set up</span>
        </Button>
      </header>
      <Problem error={error} />
      <ul className="stack">
        {data.steps.map((step) => (
          <Step key={step.name} step={step} />
        ))}
      </ul>
    </section>
  );
}

function Step({ step: { name, state, text } }: { readonly step: SetupStep }) {
  const [title, why, href, link] = stepTexts[name];
  const [mark, tone] = stateTexts[state];
  return (
    <li>
      <Mark tone={tone}>{mark}</Mark>
      <span>
        <strong>{title}</strong>
        <small>{text || why}</small>
      </span>
      {state !== 'DONE' && (
        <Link href={href} aria-label={`${link}: ${title}`}>
          {link}
        </Link>
      )}
    </li>
  );
}

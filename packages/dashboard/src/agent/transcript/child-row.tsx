import { agentPage } from '@muster/sdk/contract';
import { Link } from 'wouter';
import { childWords } from './entry-words.ts';
import type { RowOf } from './rows.ts';
import { useTranscript } from './transcript-context.ts';
import './child-row.css';

/** A child that came to be, or came to rest. */
export function ChildRow({ row: { entry } }: { readonly row: RowOf<'child'> }) {
  const isNew = entry.type === 'CHILD_SPAWNED';
  return (
    <p className="child-row">
      <span aria-hidden="true">↳</span> {isNew ? 'Spawned' : 'Child'} <Child row={entry} />{' '}
      {!isNew && childWords(entry)}
    </p>
  );
}

function Child({ row: { text, data } }: { readonly row: RowOf<'child'>['entry'] }) {
  const { agentId, isLinked } = useTranscript();
  const { child } = data;
  const isPath = Array.isArray(child) && child.every((part) => typeof part === 'string');
  if (!isLinked || !isPath) return <strong>{text}</strong>;
  return <Link href={agentPage({ ...agentId, agent: child as string[] })}>{text}</Link>;
}

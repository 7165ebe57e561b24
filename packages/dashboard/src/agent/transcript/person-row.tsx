import { useEffect } from 'react';
import { Markdown } from '../../parts/markdown.tsx';
import { Shortened } from './long-text.tsx';
import { type RowOf, stringIn } from './rows.ts';
import { useTranscript } from './transcript-context.ts';
import './voice-row.css';

/** What somebody told the agent: what it was made for, or a message as it reached it. */
export function PersonRow({ row }: { readonly row: RowOf<'person'> }) {
  const { entry, text } = row;
  const isTask = entry.type === 'AGENT_SPAWNED';
  const model = stringIn(entry.data, 'model');
  return (
    <div className="voice-row" data-voice="person">
      <p className="voice-title">
        {isTask ? 'Task' : 'Message'}
        {isTask && model !== '' && <span> for {model}</span>}
      </p>
      {text === null ? <LostWords followUpId={entry.followUpId} /> : <Words name={row.key} text={text} />}
    </div>
  );
}

function LostWords({ followUpId }: { readonly followUpId: string }) {
  const { findWords } = useTranscript();
  useEffect(() => findWords(followUpId), [findWords, followUpId]);
  return (
    <p className="voice-none">A message was delivered. Its words stand where it was queued, further up.</p>
  );
}

/** Markdown of anybody, its beginning if it is very long. */
export function Words({ name, text }: { readonly name: string; readonly text: string }) {
  if (text.trim() === '') return <p className="voice-none">No words, only settings or tasks.</p>;
  return (
    <Shortened name={name} text={text} lines={200} characters={20_000}>
      {(shown) => <Markdown text={shown} />}
    </Shortened>
  );
}

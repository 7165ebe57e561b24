import { exportTranscript, type TranscriptFormat } from '@muster/sdk/transcript';
import { useEffect, useRef, useState } from 'react';
import { Button } from '../../../parts/button.tsx';
import { Dialog, DialogActions } from '../../../parts/dialog.tsx';
import { plural } from '../../../parts/model/text.ts';
import { Problem } from '../../../parts/problem.tsx';
import { useTranscript } from './transcript-context.ts';
import '../tools.css';

const formats: Readonly<Record<TranscriptFormat, readonly [title: string, mediaType: string]>> = {
  html: ['Web page', 'text/html'],
  md: ['Markdown', 'text/markdown'],
  json: ['JSON', 'application/json'],
};

/** Saves the whole transcript as a file. The browser reads it page by page; the service has no more work than for a reader. */
export function ExportDialog({ onClose }: { readonly onClose: () => void }) {
  const { agentId, client, isLinked } = useTranscript();
  const [format, setFormat] = useState<TranscriptFormat>('html');
  const [hasChildren, setHasChildren] = useState(false);
  const [count, setCount] = useState<number | null>(null);
  const [error, setError] = useState<unknown>(null);
  const stop = useRef<AbortController>(null);
  useEffect(() => () => stop.current?.abort(), []);
  const isRunning = count !== null;

  const save = async () => {
    const current = new AbortController();
    const { signal } = current;
    stop.current = current;
    setError(null);
    setCount(0);
    try {
      const settings = { format, hasChildren, signal, onEntries: countInSteps(setCount) };
      const file = await fileOf(exportTranscript(client, agentId, settings), formats[format][1]);
      download(file, `${agentId.agent.join('-')}.${format}`);
      onClose();
    } catch (problem) {
      if (signal.aborted) return;
      setError(problem);
      setCount(null);
    }
  };
  return (
    <Dialog title="Export transcript" onClose={onClose}>
      <fieldset className="export-formats" disabled={isRunning}>
        <legend className="visually-hidden">Format</legend>
        {Object.entries(formats).map(([name, [title]]) => (
          <label key={name}>
            <input
              type="radio"
              name="format"
              value={name}
              checked={format === name}
              onChange={() => setFormat(name as TranscriptFormat)}
            />
            {title}
          </label>
        ))}
        {isLinked && (
          <label>
            <input
              type="checkbox"
              checked={hasChildren}
              onChange={({ currentTarget }) => setHasChildren(currentTarget.checked)}
            />
            With all agents below it
          </label>
        )}
      </fieldset>
      <Problem error={error} />
      <p className="secondary" role="status">
        {isRunning && `Reading: ${plural(count, 'entry', 'entries')}`}
      </p>
      <DialogActions>
        <Button onClick={onClose}>Cancel</Button>
        <Button look="primary" disabled={isRunning} onClick={() => void save()}>
          Export
        </Button>
      </DialogActions>
    </Dialog>
  );
}

const stepEntries = 500;
const countInSteps =
  (show: (count: number) => void) =>
  (count: number): void => {
    if (count % stepEntries === 0) show(count);
  };

const partCharacters = 1_000_000;

/** The browser keeps the parts of a file outside of the memory of the page. */
async function fileOf(pieces: AsyncIterable<string>, mediaType: string): Promise<Blob> {
  const parts: Blob[] = [];
  let part: string[] = [];
  let length = 0;
  const endPart = () => {
    parts.push(new Blob(part));
    part = [];
    length = 0;
  };
  for await (const piece of pieces) {
    part.push(piece);
    length += piece.length;
    if (length > partCharacters) endPart();
  }
  endPart();
  return new Blob(parts, { type: mediaType });
}

function download(file: Blob, name: string): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(file);
  link.download = name;
  link.click();
  // The browser has begun to read it by then.
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

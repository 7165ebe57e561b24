import type { AgentId, MusterClient } from '@muster/sdk';
import { exportTranscript, type TranscriptFormat } from '@muster/sdk/transcript';
import { useEffect, useRef, useState } from 'react';
import { Button } from '../../../parts/button.tsx';
import { Dialog, DialogActions } from '../../../parts/dialog.tsx';
import { plural } from '../../../parts/model/text.ts';
import { Problem } from '../../../parts/problem.tsx';

const formats: Readonly<Record<TranscriptFormat, readonly [title: string, mediaType: string]>> = {
  html: ['Web page', 'text/html'],
  md: ['Markdown', 'text/markdown'],
  json: ['JSON', 'application/json'],
};

interface Choice {
  readonly format: TranscriptFormat;
  readonly hasChildren: boolean;
}

/** Saves the whole transcript as a file. The browser reads it page by page; the service has no more work than for a reader. */
export function ExportDialog({
  agentId,
  client,
  isLinked = true,
  onClose,
}: {
  readonly agentId: AgentId;
  readonly client: MusterClient;
  /** False for a reader without a key, who sees no other agent. */
  readonly isLinked?: boolean;
  readonly onClose: () => void;
}) {
  const [choice, setChoice] = useState<Choice>({ format: 'html', hasChildren: false });
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
      const settings = { ...choice, signal, onEntries: countInSteps(setCount) };
      const [, mediaType] = formats[choice.format];
      const file = await fileOf(exportTranscript(client, agentId, settings), mediaType);
      download(file, `${agentId.agent.join('-')}.${choice.format}`);
      onClose();
    } catch (problem) {
      if (signal.aborted) return;
      setError(problem);
      setCount(null);
    }
  };
  return (
    <Dialog title="Export transcript" onClose={onClose}>
      <Choices {...{ choice, isRunning, isLinked }} onChoose={setChoice} />
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

interface ChoicesProps {
  readonly choice: Choice;
  readonly isRunning: boolean;
  readonly isLinked: boolean;
  readonly onChoose: (choice: Choice) => void;
}

function Choices({ choice, isRunning, isLinked, onChoose }: ChoicesProps) {
  return (
    <fieldset className="export-formats" disabled={isRunning}>
      <legend className="visually-hidden">Format</legend>
      {Object.entries(formats).map(([name, [title]]) => (
        <label key={name}>
          <input
            type="radio"
            name="format"
            value={name}
            checked={choice.format === name}
            onChange={() => onChoose({ ...choice, format: name as TranscriptFormat })}
          />
          {title}
        </label>
      ))}
      {isLinked && (
        <label>
          <input
            type="checkbox"
            checked={choice.hasChildren}
            onChange={({ currentTarget }) => onChoose({ ...choice, hasChildren: currentTarget.checked })}
          />
          With all agents below it
        </label>
      )}
    </fieldset>
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

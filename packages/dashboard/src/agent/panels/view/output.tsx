import type { AgentStatus } from '@muster/sdk';
import { type ReactNode, useMemo } from 'react';
import { CopyButton } from '../../../parts/button.tsx';
import { Markdown } from '../../../parts/markdown.tsx';
import { jsonText } from '../../../parts/model/text.ts';
import { Panel, PanelText } from './panel.tsx';

export function Output({ status }: { readonly status: AgentStatus }) {
  const { response, structuredOutput, outputSchema } = status;
  const parts = [response !== '' && 'response', structuredOutput !== null && 'JSON'].filter(Boolean);
  return (
    <Panel title="Output" summary={parts.length === 0 ? 'none yet' : parts.join(' and ')}>
      {response === '' ? (
        <p className="secondary">No response yet. The last message of a run is its response.</p>
      ) : (
        <OutputPart title="Last response" text={response}>
          <Markdown text={response} />
        </OutputPart>
      )}
      <Structured value={structuredOutput} hasSchema={outputSchema !== ''} />
      {outputSchema !== '' && <Schema text={outputSchema} />}
    </Panel>
  );
}

const OutputPart = ({
  title,
  text,
  children,
}: {
  readonly title: string;
  readonly text: string;
  readonly children: ReactNode;
}) => (
  <div className="stack">
    <div className="panel-row">
      <h3>{title}</h3>
      <CopyButton text={text} what={title.toLowerCase()} />
    </div>
    <PanelText label={title}>{children}</PanelText>
  </div>
);

function Structured({ value, hasSchema }: { readonly value: unknown; readonly hasSchema: boolean }) {
  const text = useMemo(() => jsonText(value), [value]);
  if (value === null)
    return (
      <p className="secondary">
        {hasSchema
          ? 'No structured output yet. Each completed run returns JSON that matches the output schema.'
          : 'No structured output: no output schema is set. A message can set one.'}
      </p>
    );
  return (
    <OutputPart title="Structured output" text={text}>
      <Json text={text} />
    </OutputPart>
  );
}

function Schema({ text }: { readonly text: string }) {
  const pretty = useMemo(() => prettyJson(text), [text]);
  return (
    <details>
      <summary>Output schema</summary>
      <PanelText label="Output schema">
        <Json text={pretty} />
      </PanelText>
    </details>
  );
}

/** The status has the schema as it was sent. */
function prettyJson(text: string): string {
  try {
    return jsonText(JSON.parse(text));
  } catch {
    return text;
  }
}

const jsonPieces = /("(?:[^"\\]|\\.)*")(\s*:)?|\b(true|false|null)\b|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
/** A longer document is shown without colors, which would take too long. */
const maxColoredLength = 60_000;

export function Json({ text }: { readonly text: string }) {
  const pieces = useMemo(() => {
    if (text.length > maxColoredLength) return text;
    const found = [];
    let last = 0;
    for (const match of text.matchAll(jsonPieces)) {
      if (match.index > last) found.push(text.slice(last, match.index));
      const kind = match[2] !== undefined ? 'name' : match[1] !== undefined ? 'text' : 'value';
      found.push(
        <span key={match.index} data-json={kind}>
          {match[2] === undefined ? match[0] : match[1]}
        </span>,
        match[2] ?? '',
      );
      last = match.index + match[0].length;
    }
    return [...found, text.slice(last)];
  }, [text]);
  return (
    <pre>
      <code>{pieces}</code>
    </pre>
  );
}

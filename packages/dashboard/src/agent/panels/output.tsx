import type { AgentStatus } from '@muster/sdk';
import { useMemo } from 'react';
import { CopyButton } from '../../parts/button.tsx';
import { Markdown } from '../../parts/markdown.tsx';
import { jsonText } from '../../parts/model/text.ts';
import { Panel } from './panel.tsx';
import { PanelText } from './panel-text.tsx';
import './output.css';

/** What an agent answered last: in words, and in the form that was asked of it. */
export function Output({ status }: { readonly status: AgentStatus }) {
  const { response, structuredOutput, outputSchema } = status;
  const parts = [response !== '' && 'response', structuredOutput !== null && 'JSON'].filter(Boolean);
  return (
    <Panel title="Output" summary={parts.length === 0 ? 'none yet' : parts.join(' and ')}>
      {response === '' ? (
        <p className="panel-empty">It has not answered yet. The last words of a run are its response.</p>
      ) : (
        <div className="output-part">
          <div className="panel-row">
            <h3>Last response</h3>
            <CopyButton text={response} what="the response" />
          </div>
          <PanelText label="Last response">
            <Markdown text={response} />
          </PanelText>
        </div>
      )}
      <Structured value={structuredOutput} hasSchema={outputSchema !== ''} />
      {outputSchema !== '' && <Schema text={outputSchema} />}
    </Panel>
  );
}

function Structured({ value, hasSchema }: { readonly value: unknown; readonly hasSchema: boolean }) {
  const text = useMemo(() => jsonText(value), [value]);
  if (value === null)
    return (
      <p className="panel-empty">
        {hasSchema
          ? 'No structured output yet. A schema is set, so each completed run ends with JSON that fits it.'
          : 'No structured output: no schema is set. A message can bring one along.'}
      </p>
    );
  return (
    <div className="output-part">
      <div className="panel-row">
        <h3>Structured output</h3>
        <CopyButton text={text} what="the structured output" />
      </div>
      <PanelText label="Structured output">
        <Json text={text} />
      </PanelText>
    </div>
  );
}

function Schema({ text }: { readonly text: string }) {
  const pretty = useMemo(() => prettyJson(text), [text]);
  return (
    <details className="output-schema">
      <summary>Its schema</summary>
      <PanelText label="Schema of the output">
        <Json text={pretty} />
      </PanelText>
    </details>
  );
}

/** The schema is kept as it was sent. */
function prettyJson(text: string): string {
  try {
    return jsonText(JSON.parse(text));
  } catch {
    return text;
  }
}

const jsonPieces = /("(?:[^"\\]|\\.)*")(\s*:)?|\b(true|false|null)\b|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
/** A document of this size is shown plainly: colours would cost more than they help. */
const colouredLength = 60_000;

/** JSON with its names set off from its values. */
export function Json({ text }: { readonly text: string }) {
  const pieces = useMemo(() => {
    if (text.length > colouredLength) return text;
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

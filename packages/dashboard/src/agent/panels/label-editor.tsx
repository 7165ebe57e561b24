import type { AgentStatus } from '@muster/sdk';
import { type FormEvent, useState } from 'react';
import { Button } from '../../parts/button.tsx';
import { Label } from '../../parts/page.tsx';
import { Problem } from '../../parts/problem.tsx';
import { useCommand } from '../use-command.ts';
import './label-editor.css';

/** The labels of an agent, with a button that removes each and a field for another one. */
export function LabelEditor({ status: { agentId, labels } }: { readonly status: AgentStatus }) {
  const [text, setText] = useState('');
  const [isMalformed, setMalformed] = useState(false);
  const { mutate, error, isPending } = useCommand(agentId, (client, change: Record<string, string>) =>
    client.label(agentId, change),
  );
  const add = (event: FormEvent) => {
    event.preventDefault();
    const [, key, value] = /^\s*([^=]+?)\s*=\s*(.*?)\s*$/s.exec(text) ?? [];
    setMalformed(!key || !value);
    if (key && value) mutate({ [key]: value }, { onSuccess: () => setText('') });
  };
  return (
    <form className="label-editor" aria-label="Labels" onSubmit={add}>
      {Object.keys(labels).length > 0 && (
        <ul>
          {Object.keys(labels)
            .sort()
            .map((key) => (
              <li key={key}>
                <Label text={`${key}=${labels[key]}`} />
                <Button
                  look="quiet"
                  aria-label={`Remove the label ${key}`}
                  disabled={isPending}
                  onClick={() => mutate({ [key]: '' })}
                >
                  ✕
                </Button>
              </li>
            ))}
        </ul>
      )}
      <div className="label-editor-line">
        <input
          aria-label="New label"
          aria-invalid={isMalformed}
          placeholder="key=value"
          spellCheck={false}
          value={text}
          onChange={(event) => {
            setText(event.target.value);
            setMalformed(false);
          }}
        />
        <Button type="submit" disabled={isPending || text.trim() === ''}>
          Add
        </Button>
      </div>
      {isMalformed && <p role="alert">Enter a label as key=value.</p>}
      <Problem error={error} />
    </form>
  );
}

import { useState } from 'react';
import { Link } from 'wouter';
import { isAdmin } from '../../live/model/allowed-actions.ts';
import { CopyButton, ViewSwitch } from '../../parts/button.tsx';
import { useInstallation } from '../../session/installation.ts';
import { useSignedIn } from '../../session/session.ts';

const variables = { anthropic: 'ANTHROPIC_API_KEY', openai: 'OPENAI_API_KEY' } as const;
type Named = keyof typeof variables;
const providers = [
  ['anthropic', 'Anthropic'],
  ['openai', 'OpenAI'],
] as const;

/** A key is given to the runner and never to this page. The runner asks the provider whether it accepts it. */
export function ProviderStep() {
  const { caller } = useSignedIn();
  const installation = useInstallation();
  const [provider, setProvider] = useState<Named>('anthropic');
  if (!isAdmin(caller)) return <p>The person who runs Muster sets the key. Ask an admin.</p>;
  if (!installation) return null;
  const name = variables[provider];
  const command = `${name}_FILE=./${provider}.key ${installation.start}`;
  return (
    <>
      <ViewSwitch label="Provider" views={providers} view={provider} onChoose={setProvider} />
      {installation.start === '' ? (
        <p>
          Put the key in a file that only the runner can read, set <code>{`${name}_FILE`}</code> to its path
          where the runner is started (or <code>{name}</code> to the key), and restart the runner.
        </p>
      ) : (
        <>
          <p>
            Save the key as <code>{`${provider}.key`}</code> in the folder of the service, stop the service
            (Ctrl-C) and start it with the file:
          </p>
          <pre className="setup-command">
            <code>{command}</code>
          </pre>
          <div>
            <CopyButton text={command} label="Copy command" />
          </div>
        </>
      )}
      <p className="secondary">
        The key stays with the runner; agents and this page never see it. When the runner starts, it asks the
        provider whether it accepts the key, and this step shows the answer.{' '}
        <Link href="/runners">Runners</Link> shows all accounts.
      </p>
    </>
  );
}

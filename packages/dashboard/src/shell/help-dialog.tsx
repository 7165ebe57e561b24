import { Dialog } from '../parts/dialog.tsx';
import { paletteKey, sendKeys } from './palette-key.ts';
import './shell.css';

type Shortcut = readonly [keys: string, action: string];

const shortcuts: readonly (readonly [place: string, readonly Shortcut[]])[] = [
  [
    'Everywhere',
    [
      [paletteKey, 'Search agents, resources and commands'],
      ['n', 'New agent'],
      ['i', 'Go to the inbox'],
      ['g', 'Go to agents'],
      ['c', 'Go to the catalog'],
      ['t', 'Go to schedules'],
      ['u', 'Go to spend'],
      ['r', 'Go to runners'],
      ['e', 'Go to the team (admins)'],
      ['a', 'Go to activity (admins)'],
      [',', 'Go to the settings'],
      ['Escape', 'Close a dialog, leave a field or clear the selection'],
      ['?', 'Show this help'],
    ],
  ],
  [
    'Inbox',
    [
      ['j  k', 'Next and previous agent'],
      ['m', 'Write an answer'],
      [sendKeys, 'Send it and go on to the next agent'],
      ['Alt+↓  Alt+↑', 'Next and previous agent, from the answer'],
      ['e', 'Mark seen and go on'],
      ['o', 'Open the page of the agent'],
    ],
  ],
  [
    'Agents',
    [
      ['/', 'Search'],
      ['j  k', 'Next and previous agent'],
      ['Enter', 'Open the selected agent'],
      ['s', 'Mark the selected agent seen or unseen'],
      ['p', 'Pin or unpin the selected agent'],
      ['x', 'Select the agent; with Shift all from the last one selected'],
      ['.', 'Go to the actions on the selected agents'],
    ],
  ],
  [
    'Page of an agent',
    [
      [']  [', 'Next and previous agent that needs you'],
      ['m', 'Write a message'],
      ['/', 'Search in the transcript'],
      ['Home  End', 'First and last entry of the transcript'],
    ],
  ],
  [
    'Review',
    [
      ['n  p', 'Next and previous change'],
      ['t  T', 'Next and previous thread or comment'],
      ['j  k', 'Next and previous file'],
      ['v', 'Mark the file viewed or not viewed'],
    ],
  ],
];

export const HelpDialog = ({ onClose }: { readonly onClose: () => void }) => (
  <Dialog title="Keyboard shortcuts" onClose={onClose}>
    {shortcuts.map(([place, keys]) => (
      <section key={place} className="help-keys" aria-label={place}>
        <h3>{place}</h3>
        <dl>
          {keys.map(([names, action]) => (
            <div key={names}>
              <dt>
                {names.split('  ').map((key) => (
                  <kbd key={key}>{key}</kbd>
                ))}
              </dt>
              <dd>{action}</dd>
            </div>
          ))}
        </dl>
      </section>
    ))}
    <p>
      Everything here is also available in the <a href="/docs">API</a> and in the <code>muster</code> command.
    </p>
  </Dialog>
);

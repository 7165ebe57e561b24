import { Dialog } from '../parts/dialog.tsx';
import './help-dialog.css';

const keys: readonly (readonly [keys: string, what: string])[] = [
  ['/', 'Search'],
  ['j  k', 'Next and previous agent'],
  ['Enter', 'Open the agent that is marked'],
  ['s', 'Mark that agent seen or unseen'],
  ['n', 'New agent'],
  ['g', 'To the list of agents'],
  ['c', 'To the catalog'],
  ['m', 'Write a message, on the page of an agent'],
  ['Home  End', 'To the first and to the newest entry of its transcript'],
  ['Escape', 'Close, or leave the search'],
  ['?', 'This help'],
];

export const HelpDialog = ({ onClose }: { readonly onClose: () => void }) => (
  <Dialog title="Keyboard" onClose={onClose}>
    <dl className="help-keys">
      {keys.map(([key, what]) => (
        <div key={key}>
          <dt>
            {key.split('  ').map((one) => (
              <kbd key={one}>{one}</kbd>
            ))}
          </dt>
          <dd>{what}</dd>
        </div>
      ))}
    </dl>
    <p>
      Everything on this page can be done by <a href="/docs">the API</a> and by the command line,{' '}
      <code>muster</code>.
    </p>
  </Dialog>
);

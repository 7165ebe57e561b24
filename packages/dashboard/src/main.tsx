import './parts/parts.css';
import { createRoot } from 'react-dom/client';
import { App } from './app.tsx';
import { startSession } from './session/session.ts';
import { SharePage } from './share/share-page.tsx';
import { applyTheme } from './shell/theme.ts';
import './style/fonts.css';
import './style/tokens.css';
import './style/base.css';

applyTheme();
const root = document.getElementById('root');
if (!root) throw new Error('the page has no root');

// A share link has a separate session, also when a person is signed in.
if (/^\/share(\/|$)/.test(location.pathname)) createRoot(root).render(<SharePage />);
else {
  startSession();
  createRoot(root).render(<App />);
}

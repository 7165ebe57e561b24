import './parts/parts.css';
import './parts/markdown.css';
import { createRoot } from 'react-dom/client';
import { App } from './app.tsx';
import { applyTheme } from './parts/theme.tsx';
import { startSession } from './session/session.ts';
import './style/style.css';

applyTheme();
const root = document.getElementById('root');
if (!root) throw new Error('the page has no element with the id root');

// A share link has its own session, even if a person is signed in.
if (/^\/share(\/|$)/.test(location.pathname))
  void import('./share/share-page.tsx').then(({ SharePage }) => createRoot(root).render(<SharePage />));
else {
  startSession();
  createRoot(root).render(<App />);
}
